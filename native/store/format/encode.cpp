#include <sys/random.h>

#include <algorithm>
#include <cstddef>

#include "base/crc32c.hpp"
#include "base/invariant.hpp"
#include "base/time/clock.hpp"
#include "store/format/segment.hpp"

namespace penstock::store::format {
namespace {

// The layout as the compiler sees it; little-endian by the assertion in bytes.hpp.
struct HeaderBytes {
  std::uint8_t magic[8];
  std::uint16_t version;
  std::uint16_t kind;
  std::uint32_t header_bytes;
  std::byte file_id[16];
  std::uint64_t sequence;
  std::uint64_t segment_bytes;
  std::uint32_t record_count;
  std::uint32_t writer;
  std::int64_t created_ns;
  std::uint32_t body_bytes;
  std::uint32_t body_crc;
  std::uint64_t address;
  std::uint32_t row_bytes;
  std::uint32_t row_crc;
  std::uint8_t reserved[36];
  std::uint32_t header_crc;
};
static_assert(sizeof(HeaderBytes) == header_size_bytes);
static_assert(std::has_unique_object_representations_v<HeaderBytes>);
static_assert(offsetof(HeaderBytes, file_id) == 16);
static_assert(offsetof(HeaderBytes, sequence) == 32);
static_assert(offsetof(HeaderBytes, created_ns) == 56);
static_assert(offsetof(HeaderBytes, address) == 72);
static_assert(offsetof(HeaderBytes, row_bytes) == 80);
static_assert(offsetof(HeaderBytes, header_crc) == 124);

struct RecordBytes {
  std::uint64_t chunk_index;
  std::int64_t received_ns;
  std::uint32_t offset;
  std::uint32_t size;
  std::uint32_t crc;
  std::uint32_t filter_mask;
  std::uint16_t dataset;
  std::uint16_t zero_sectors;
  std::uint32_t frame;
};
static_assert(sizeof(RecordBytes) == record_size_bytes);
static_assert(std::has_unique_object_representations_v<RecordBytes>);
static_assert(offsetof(RecordBytes, filter_mask) == 28);
static_assert(offsetof(RecordBytes, dataset) == 32);

struct StretchBytes {
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint32_t crc;
  std::uint32_t reserved;
};
static_assert(sizeof(StretchBytes) == stretch_size_bytes);
static_assert(std::has_unique_object_representations_v<StretchBytes>);

constexpr std::uint8_t magic[8] = {0x89, 'P', 'E', 'N', 'S', 'E', 'G', '\n'};

/// Writes the header in front of a body that is in place already, and clears the padding.
void seal(SegmentHeader header, std::size_t body_bytes, MutableBytes region) {
  PEN_INVARIANT(header.address % page_bytes == 0 && header.segment_bytes % page_bytes == 0);
  PEN_INVARIANT(region.size() % page_bytes == 0 && region.size() <= header.segment_bytes);
  PEN_INVARIANT(header_size_bytes + body_bytes <= region.size());
  HeaderBytes bytes{};
  std::copy(std::begin(magic), std::end(magic), bytes.magic);
  bytes.version = version;
  bytes.kind = static_cast<std::uint16_t>(header.kind);
  bytes.header_bytes = static_cast<std::uint32_t>(region.size());
  std::copy(header.file_id.begin(), header.file_id.end(), bytes.file_id);
  bytes.sequence = header.sequence;
  bytes.segment_bytes = header.segment_bytes;
  bytes.record_count = header.record_count;
  bytes.writer = header.writer;
  bytes.created_ns = header.created_ns;
  bytes.body_bytes = static_cast<std::uint32_t>(body_bytes);
  bytes.body_crc = crc32c(region.subspan(header_size_bytes, body_bytes));
  bytes.address = header.address;
  bytes.row_bytes = header.row_bytes;
  bytes.row_crc = header.row_crc;
  bytes.header_crc = crc32c(std::as_bytes(std::span(&bytes, 1)).first(offsetof(HeaderBytes, header_crc)));
  std::memcpy(region.data(), &bytes, sizeof bytes);
}

void clear_behind(MutableBytes region, std::size_t body_bytes) {
  const auto padding = region.subspan(header_size_bytes + body_bytes);
  std::fill(padding.begin(), padding.end(), std::byte{0});
}

}  // namespace

FileId make_file_id() {
  FileId id{};
  // Without a source of randomness the clocks and an address still tell two files apart.
  if (::getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) {
    store_le(id.data(), realtime_ns());
    store_le(id.data() + 8, monotonic_ns() ^ static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(&id)));
  }
  return id;
}

std::string to_hex(const FileId& id) {
  std::string hex;
  for (const auto byte : id) hex += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return hex;
}

void encode_chunks(SegmentHeader header, const std::vector<ChunkRecord>& records, Bytes rows, MutableBytes region) {
  const auto body_bytes = records.size() * record_size_bytes;
  PEN_INVARIANT(region.size() == header_region_bytes(body_bytes + rows.size()));
  auto* to = region.data() + header_size_bytes;
  for (const auto& record : records) {
    PEN_INVARIANT(record.offset >= region.size() && record.offset % chunk_alignment_bytes == 0);
    PEN_INVARIANT(std::uint64_t{record.offset} + record.size <= header.segment_bytes);
    const RecordBytes bytes{record.chunk_index, record.received_ns, record.offset,       record.size, record.crc,
                            record.filter_mask, record.dataset,     record.zero_sectors, record.frame};
    std::memcpy(to, &bytes, sizeof bytes);
    to += sizeof bytes;
  }
  header.kind = SegmentKind::chunks;
  header.record_count = static_cast<std::uint32_t>(records.size());
  header.row_bytes = static_cast<std::uint32_t>(rows.size());
  header.row_crc = rows.empty() ? 0 : crc32c(rows);
  std::copy(rows.begin(), rows.end(), region.begin() + static_cast<std::ptrdiff_t>(header_size_bytes + body_bytes));
  seal(header, body_bytes, region);
  clear_behind(region, body_bytes + rows.size());
}

void encode_description(SegmentHeader header, std::string_view text, MutableBytes region) {
  std::memcpy(region.data() + header_size_bytes, text.data(), text.size());
  header.kind = SegmentKind::description;
  header.record_count = 0;
  header.segment_bytes = region.size();
  seal(header, text.size(), region);
  clear_behind(region, text.size());
}

void encode_journal(SegmentHeader header, const JournalBody& body, MutableBytes region) {
  auto* to = region.data() + header_size_bytes;
  std::memset(to, 0, journal_body_bytes);
  store_le(to, body.address);
  store_le(to + 8, body.bytes);
  store_le(to + 16, body.crc);
  header.kind = SegmentKind::journal;
  header.segment_bytes = region.size();
  seal(header, journal_body_bytes, region);
}

void encode_stretches(SegmentHeader header, const std::vector<Stretch>& stretches, MutableBytes region) {
  PEN_INVARIANT(region.size() == header_region_bytes(stretches.size() * stretch_size_bytes));
  auto* to = region.data() + header_size_bytes;
  for (const auto& stretch : stretches) {
    const StretchBytes bytes{stretch.address, stretch.bytes, stretch.crc, 0};
    std::memcpy(to, &bytes, sizeof bytes);
    to += sizeof bytes;
  }
  header.record_count = static_cast<std::uint32_t>(stretches.size());
  seal(header, stretches.size() * stretch_size_bytes, region);
}

}  // namespace penstock::store::format
