// Reads fields at the offsets of docs/reference/format.md by number, and shares nothing with the
// encoder: a mistake in either shows up in their tests.
#include <algorithm>
#include <optional>

#include "base/crc32c.hpp"
#include "store/format/segment.hpp"

namespace penstock::store::format {
namespace {

constexpr std::string_view magic_text = "\x89PENSEG\n";

Error bad_field(std::uint64_t address, std::string_view field, std::uint64_t value, std::string_view rule) {
  return make_error(Errc::malformed, "segment at {}: {} is {}, but {}", address, field, value, rule);
}

std::uint64_t bytes_a_record(SegmentKind kind) {
  switch (kind) {
    case SegmentKind::description:
    case SegmentKind::journal: return 0;
    case SegmentKind::chunks: return 40;
    case SegmentKind::values:
    case SegmentKind::seal: return 24;
  }
  return 0;
}

Result<void> check_sizes(const SegmentHeader& header) {
  const auto at = header.address;
  if (header.header_bytes % 4096 != 0 || header.header_bytes == 0 || header.header_bytes > header_region_bytes_max)
    return bad_field(at, "header_bytes", header.header_bytes, "must be a multiple of 4096 up to 268435456");
  if (header.segment_bytes % 4096 != 0 || header.segment_bytes < header.header_bytes ||
      header.segment_bytes > segment_bytes_max)
    return bad_field(at, "segment_bytes", header.segment_bytes,
                     "must be a multiple of 4096, not below header_bytes and not above 2^40");
  if (std::uint64_t{header.body_bytes} + 128 > header.header_bytes)
    return bad_field(at, "body_bytes", header.body_bytes, "must leave room for the header within header_bytes");
  const std::uint64_t records = std::uint64_t{header.record_count} * bytes_a_record(header.kind);
  if (bytes_a_record(header.kind) > 0 && header.body_bytes != records)
    return bad_field(at, "body_bytes", header.body_bytes, "must be record_count times the size of a record");
  const bool has_rows = header.kind == SegmentKind::chunks;
  if (has_rows && std::uint64_t{header.body_bytes} + header.row_bytes + 128 > header.header_bytes)
    return bad_field(at, "row_bytes", header.row_bytes, "must leave room for header and body within header_bytes");
  if (header.kind == SegmentKind::description && header.record_count != 0)
    return bad_field(at, "record_count", header.record_count, "must be 0 in a description");
  if (header.kind == SegmentKind::journal && header.body_bytes != 24)
    return bad_field(at, "body_bytes", header.body_bytes, "must be 24 in a journal");
  return {};
}

/// Checks that `region` is the header region of `header` and that its body is whole.
Result<Bytes> body_of(const SegmentHeader& header, SegmentKind kind, Bytes region) {
  if (header.kind != kind)
    return bad_field(header.address, "kind", static_cast<std::uint64_t>(header.kind), "another kind is wanted here");
  PEN_TRY(check_sizes(header));
  if (region.size() < header.header_bytes)
    return make_error(Errc::truncated, "segment at {}: header region has {} of {} bytes", header.address, region.size(),
                      header.header_bytes);
  const auto body = region.subspan(128, header.body_bytes);
  if (const auto crc = crc32c(body); crc != header.body_crc)
    return make_error(Errc::corrupt, "segment at {}: the body's checksum is {:08x}, the header says {:08x}",
                      header.address, crc, header.body_crc);
  return body;
}

Result<ChunkRecord> decode_record(const SegmentHeader& header, const std::byte* from) {
  ChunkRecord record;
  record.chunk_index = load_le<std::uint64_t>(from);
  record.received_ns = load_le<std::int64_t>(from + 8);
  record.offset = load_le<std::uint32_t>(from + 16);
  record.size = load_le<std::uint32_t>(from + 20);
  record.crc = load_le<std::uint32_t>(from + 24);
  record.filter_mask = load_le<std::uint32_t>(from + 28);
  record.dataset = load_le<std::uint16_t>(from + 32);
  record.zero_sectors = load_le<std::uint16_t>(from + 34);
  record.frame = load_le<std::uint32_t>(from + 36);
  if (record.offset < header.header_bytes || record.offset % 8 != 0)
    return bad_field(header.address, "a record's offset", record.offset,
                     "must be a multiple of 8 behind the header region");
  if (std::uint64_t{record.offset} + record.size > header.segment_bytes)
    return bad_field(header.address, "a record's size", record.size, "the chunk must end within the segment");
  return record;
}

std::optional<unsigned> digit_of(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  return std::nullopt;
}

}  // namespace

Result<FileId> file_id_of(std::string_view hex) {
  FileId id{};
  if (hex.size() != 2 * id.size())
    return make_error(Errc::malformed, "file id '{}' has {} characters instead of 32", hex.substr(0, 40), hex.size());
  for (std::size_t i = 0; i < id.size(); ++i) {
    const auto high = digit_of(hex[2 * i]);
    const auto low = digit_of(hex[2 * i + 1]);
    if (!high || !low) return make_error(Errc::malformed, "file id '{}' is not lower-case hexadecimal", hex);
    id[i] = static_cast<std::byte>(*high << 4 | *low);
  }
  return id;
}

bool starts_segment(Bytes bytes) { return bytes.size() >= 8 && as_text(bytes.first(8)) == magic_text; }

Result<SegmentHeader> decode_header(Bytes bytes, std::uint64_t address) {
  if (bytes.size() < 128)
    return make_error(Errc::truncated, "segment at {}: {} of the header's 128 bytes", address, bytes.size());
  if (!starts_segment(bytes)) return make_error(Errc::not_found, "no segment at {}", address);
  const auto* from = bytes.data();
  if (const auto found = load_le<std::uint16_t>(from + 8); found != 1)
    return make_error(Errc::unsupported, "segment at {}: version is {}, this program knows 1", address, found);
  const auto crc = crc32c(bytes.first(124));
  if (const auto stored = load_le<std::uint32_t>(from + 124); stored != crc)
    return make_error(Errc::corrupt, "segment at {}: the header's checksum is {:08x}, it says {:08x}", address, crc,
                      stored);
  SegmentHeader header;
  const auto kind = load_le<std::uint16_t>(from + 10);
  if (kind < 1 || kind > 5) return bad_field(address, "kind", kind, "must be from 1 to 5");
  header.kind = static_cast<SegmentKind>(kind);
  header.header_bytes = load_le<std::uint32_t>(from + 12);
  std::copy_n(from + 16, 16, header.file_id.begin());
  header.sequence = load_le<std::uint64_t>(from + 32);
  header.segment_bytes = load_le<std::uint64_t>(from + 40);
  header.record_count = load_le<std::uint32_t>(from + 48);
  header.writer = load_le<std::uint32_t>(from + 52);
  header.created_ns = load_le<std::int64_t>(from + 56);
  header.body_bytes = load_le<std::uint32_t>(from + 64);
  header.body_crc = load_le<std::uint32_t>(from + 68);
  header.address = load_le<std::uint64_t>(from + 72);
  header.row_bytes = load_le<std::uint32_t>(from + 80);
  header.row_crc = load_le<std::uint32_t>(from + 84);
  if (header.address != address || address % 4096 != 0)
    return bad_field(address, "address", header.address, "must be where the segment lies, a multiple of 4096");
  PEN_TRY(check_sizes(header));
  return header;
}

Result<std::vector<ChunkRecord>> decode_records(const SegmentHeader& header, Bytes region) {
  PEN_ASSIGN(const auto body, body_of(header, SegmentKind::chunks, region));
  std::vector<ChunkRecord> records;
  records.reserve(header.record_count);
  for (std::size_t i = 0; i < header.record_count; ++i) {
    PEN_ASSIGN(auto record, decode_record(header, body.data() + i * 40), "record {}", i);
    records.push_back(record);
  }
  return records;
}

Result<Bytes> decode_rows(const SegmentHeader& header, Bytes region) {
  if (header.kind != SegmentKind::chunks)
    return bad_field(header.address, "kind", static_cast<std::uint64_t>(header.kind), "only chunks have values");
  PEN_TRY(check_sizes(header));
  if (region.size() < header.header_bytes)
    return make_error(Errc::truncated, "segment at {}: header region has {} of {} bytes", header.address, region.size(),
                      header.header_bytes);
  const auto rows = region.subspan(128 + std::size_t{header.body_bytes}, header.row_bytes);
  if (const auto crc = rows.empty() ? 0 : crc32c(rows); crc != header.row_crc)
    return make_error(Errc::corrupt,
                      "segment at {}: the checksum of its frames' values is {:08x}, the header says {:08x}",
                      header.address, crc, header.row_crc);
  return rows;
}

Result<JournalBody> decode_journal(const SegmentHeader& header, Bytes region) {
  PEN_ASSIGN(const auto body, body_of(header, SegmentKind::journal, region));
  return JournalBody{load_le<std::uint64_t>(body.data()), load_le<std::uint64_t>(body.data() + 8),
                     load_le<std::uint32_t>(body.data() + 16)};
}

Result<std::vector<Stretch>> decode_stretches(const SegmentHeader& header, Bytes region) {
  const auto kind = header.kind == SegmentKind::seal ? SegmentKind::seal : SegmentKind::values;
  PEN_ASSIGN(const auto body, body_of(header, kind, region));
  std::vector<Stretch> stretches;
  stretches.reserve(header.record_count);
  for (std::size_t i = 0; i < header.record_count; ++i) {
    const auto* from = body.data() + i * 24;
    const Stretch stretch{load_le<std::uint64_t>(from), load_le<std::uint64_t>(from + 8),
                          load_le<std::uint32_t>(from + 16)};
    const auto before = stretches.empty() ? 0 : stretches.back().end();
    if (stretch.bytes == 0 || stretch.bytes > address_max || stretch.address > address_max || stretch.address < before)
      return bad_field(header.address, "the address of a stretch", stretch.address,
                       "stretches must rise, and none may be empty or reach into another");
    stretches.push_back(stretch);
  }
  return stretches;
}

Result<std::string_view> decode_description(const SegmentHeader& header, Bytes region) {
  PEN_ASSIGN(const auto body, body_of(header, SegmentKind::description, region));
  return as_text(body);
}

}  // namespace penstock::store::format
