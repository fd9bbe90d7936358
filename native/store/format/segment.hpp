/// The bytes of a segment: the stretch of a file that is written at once and describes itself.
/// docs/reference/format.md is the specification; this is its only encoder and its only decoder.
///
/// Performs no I/O and keeps no state. The encoder trusts its caller; the decoder trusts nothing:
/// every field is checked against the others and against the limits below, and what does not hold
/// is an error (`malformed`, `truncated`, `unsupported`, `corrupt`) that names the field and its value.
///
/// Invariants of a valid segment at address A:
///   address = A; A, header_bytes and segment_bytes are multiples of 4096
///   128 + body_bytes ≤ header_bytes ≤ segment_bytes
///   kind chunks: body_bytes = 40 × record_count, and each record has
///     header_bytes ≤ offset, offset a multiple of 8, offset + size ≤ segment_bytes
///     128 + body_bytes + row_bytes ≤ header_bytes
///   kinds values and seal: body_bytes = 24 × record_count
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace penstock::store::format {

constexpr std::uint16_t version = 1;
constexpr std::size_t header_size_bytes = 128;
constexpr std::size_t record_size_bytes = 40;
constexpr std::size_t stretch_size_bytes = 24;
constexpr std::size_t chunk_alignment_bytes = 8;
/// A scanner looks for a header at multiples of this where it stands at none.
constexpr std::uint64_t walk_step_bytes = page_bytes;
/// No file comes near it, and the sum of two of them is still a number.
constexpr std::uint64_t address_max = std::uint64_t{1} << 62;
/// The largest header region that a decoder accepts: bounds what a scanner reads for a hostile header.
constexpr std::uint64_t header_region_bytes_max = std::uint64_t{1} << 28;
constexpr std::uint64_t segment_bytes_max = std::uint64_t{1} << 40;

/// Random; identifies the segments of one file, as opposed to earlier data on the disk.
using FileId = std::array<std::byte, 16>;
FileId make_file_id();
/// 32 lower-case hexadecimal digits, as the root group's attribute `penstock_file_id` has them.
std::string to_hex(const FileId& id);
Result<FileId> file_id_of(std::string_view hex);

enum class SegmentKind : std::uint16_t {
  description = 1,  ///< the body is JSON text (description.hpp); first segment of a file
  chunks = 2,       ///< the body is records; the chunks follow the header region
  journal = 3,      ///< the body says where changes to HDF5's structures stand; only at the journal's place
  values = 4,       ///< the body is stretches: large values, which follow the header region
  seal = 5,         ///< the body is stretches of the whole file, which was closed with these checksums
};

struct SegmentHeader {
  SegmentKind kind = SegmentKind::chunks;
  std::uint32_t header_bytes = 0;  ///< header, body and padding; what a scanner reads in one piece
  FileId file_id{};
  std::uint64_t sequence = 0;       ///< unique in the file; of one process in the order in which space was given
  std::uint64_t segment_bytes = 0;  ///< from this header to the segment's end
  std::uint32_t record_count = 0;   ///< 0 for a description
  std::uint32_t writer = 0;         ///< which ChunkWriter filled it
  std::int64_t created_ns = 0;      ///< realtime, when it was sealed
  std::uint32_t body_bytes = 0;
  std::uint32_t body_crc = 0;  ///< CRC-32C of the body
  std::uint64_t address = 0;   ///< of this header in the file
  // Of a segment of chunks: values of its frames (rows.hpp), behind the body. 0 in files of before.
  std::uint32_t row_bytes = 0;
  std::uint32_t row_crc = 0;  ///< CRC-32C of these bytes

  bool operator==(const SegmentHeader&) const = default;
};

/// One chunk in a segment.
struct ChunkRecord {
  std::uint64_t chunk_index =
      0;  ///< its number in the dataset's grid of chunks; with one frame a chunk, the frame number
  std::int64_t received_ns = 0;    ///< realtime
  std::uint32_t offset = 0;        ///< of the chunk's first byte, from the segment's header
  std::uint32_t size = 0;          ///< stored bytes
  std::uint32_t crc = 0;           ///< CRC-32C of the stored bytes
  std::uint32_t filter_mask = 0;   ///< as in HDF5: bit i set means that filter i was skipped
  std::uint16_t dataset = 0;       ///< position in the description's `datasets`
  std::uint16_t zero_sectors = 0;  ///< at its end (zero_sectors_of())
  std::uint32_t frame = 0;         ///< of a scan: the frame's number; 0 otherwise

  bool operator==(const ChunkRecord&) const = default;
};

/// Where the changes of a journal stand. The header's `record_count` is their number.
struct JournalBody {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;  ///< CRC-32C of these bytes

  bool operator==(const JournalBody&) const = default;
};
constexpr std::size_t journal_body_bytes = 24;

/// Bytes of the file and their checksum.
struct Stretch {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;  ///< CRC-32C

  std::uint64_t end() const { return address + bytes; }
  bool operator==(const Stretch&) const = default;
};

/// Bytes of the header region that `record_count` records need.
constexpr std::uint64_t header_region_bytes(std::uint64_t body_bytes) {
  return align_up(header_size_bytes + body_bytes, page_bytes);
}

/// Fills `region` (header_region_bytes(40 × records + rows)) for a segment of chunks. The caller sets
/// `header`'s file_id, sequence, segment_bytes, writer, created_ns and address; the rest is computed.
/// `rows` are values of its frames, as RowAppender makes them.
void encode_chunks(SegmentHeader header, const std::vector<ChunkRecord>& records, Bytes rows, MutableBytes region);

/// The same for a description: `text` is the body and there is nothing behind the header region.
void encode_description(SegmentHeader header, std::string_view text, MutableBytes region);

/// The same for a journal, whose region is one page. `record_count` is the caller's as well. Behind the body the page
/// may hold the changes: what is there stays.
void encode_journal(SegmentHeader header, const JournalBody& body, MutableBytes region);

/// The same for values or a seal, as `header.kind` says, in a region of header_region_bytes(24 × stretches). The caller
/// sets `segment_bytes` too.
void encode_stretches(SegmentHeader header, const std::vector<Stretch>& stretches, MutableBytes region);

/// Whether the first eight bytes are a segment's: the cheap test while walking.
bool starts_segment(Bytes bytes);

/// Decodes the first 128 bytes of a segment found at `address`. `not_found` where the magic is
/// absent. Whether `file_id` is the file's is for the caller to compare.
Result<SegmentHeader> decode_header(Bytes bytes, std::uint64_t address);

/// Decodes the records from the whole header region (`header.header_bytes` bytes). Checks the body's
/// checksum first.
Result<std::vector<ChunkRecord>> decode_records(const SegmentHeader& header, Bytes region);

/// The values of the frames of a segment of chunks, for RowReader; empty if there are none. A view into `region`, the
/// whole header region. `corrupt` where their checksum is another.
Result<Bytes> decode_rows(const SegmentHeader& header, Bytes region);

/// The body of a journal.
Result<JournalBody> decode_journal(const SegmentHeader& header, Bytes region);

/// The same of a segment of values or a seal: rising, none of them empty, and none reaches into the next.
Result<std::vector<Stretch>> decode_stretches(const SegmentHeader& header, Bytes region);

/// The JSON text of a description; a view into `region`.
Result<std::string_view> decode_description(const SegmentHeader& header, Bytes region);

}  // namespace penstock::store::format
