#include "recover/candidates.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

#include "store/recovery/scan.hpp"

namespace penstock::recover {
namespace {

using store::format::SegmentHeader;
using store::format::SegmentKind;

/// Places in HDF5's index of a dataset without a limit.
constexpr std::uint64_t chunks_max = (std::uint64_t{1} << 32) - 2;

Result<store::format::Description> description_of(File& file, const SegmentHeader& header) {
  PEN_ASSIGN(const auto text, store::read_description(file, header));
  return store::format::parse_description(text);
}

/// Whether the dataset may have the record's chunk, and the series its frames.
bool can_be(const store::format::ChunkRecord& record, const store::ChunkedNode& node) {
  if (record.chunk_index >= chunks_max) return false;
  const auto frames = node.frames_a_chunk();
  const auto end = node.frames_max > 0 ? node.frames_max : chunks_max;
  const auto place = record.chunk_index / node.chunks_a_frame();
  if (frames == 1) return (node.scan_shape.empty() ? place : record.frame) < end;
  const auto in_chunk = static_cast<std::uint64_t>(std::bit_width(record.frame));
  return in_chunk > 0 && in_chunk <= frames && place * frames + in_chunk <= end;
}

void take_records(File& file, const SegmentHeader& header, Segments& segments, check::Findings& findings) {
  const auto where = fmt::format("offset {}", header.address);
  const auto records = store::read_records(file, header);
  if (!records.ok()) {
    findings.add({check::Level::error,
                  "a segment's records are corrupt",
                  where,
                  {},
                  records.error().message(),
                  "its chunks cannot be found; those in the index stay there"});
    return;
  }
  const auto& datasets = segments.description.datasets;
  for (const auto& record : *records) {
    const bool known = record.dataset < datasets.size();
    if (!known || !can_be(record, datasets[record.dataset])) {
      findings.add({check::Level::error,
                    "a record is impossible",
                    where,
                    {},
                    fmt::format("dataset {}, chunk {}", record.dataset, record.chunk_index),
                    {}});
      continue;
    }
    segments.candidates.push_back({record.dataset, record.chunk_index, header.sequence, header.address + record.offset,
                                   header.address + header.segment_bytes, record.size, record.crc, record.filter_mask,
                                   record.received_ns, record.frame, record.zero_sectors});
  }
}

}  // namespace

namespace {

/// A walk finds no segment there any more.
Result<void> remove_header(File& file, std::uint64_t address) {
  static constexpr std::array<std::byte, store::format::header_size_bytes> zeros{};
  return write_at(file, zeros, address);
}

/// Whether a damaged header is one of a description, as far as it can be read.
bool says_description(File& file, std::uint64_t address) {
  std::array<std::byte, store::format::header_size_bytes> header{};
  const auto count = file.read_at(header, address);
  return count.ok() && *count == header.size() &&
         load_le<std::uint16_t>(header.data() + 10) == static_cast<std::uint16_t>(SegmentKind::description);
}

}  // namespace

bool is_cut_off(const Segments& segments, const Candidate& candidate, std::uint64_t file_bytes) {
  const auto& places = segments.description.datasets[candidate.dataset].places;
  return places.placement == store::Placement::log && candidate.address + candidate.size > file_bytes;
}

Result<void> can_be_rebuilt(const Segments& segments) {
  if (segments.first_address == ~std::uint64_t{0})
    return make_error(Errc::truncated,
                      "it has no segments from which HDF5's structures, which are unusable, could be rebuilt; copy it "
                      "again from its source");
  if (segments.first_address < page_bytes)
    return make_error(Errc::malformed, "a segment is at its start, where HDF5's superblock must be");
  return {};
}

Result<void> mend_descriptions(File& file, const Segments& segments) {
  if (segments.no_description) return {};  // until another one is written
  for (const auto address : segments.damaged_headers_of_description) PEN_TRY(remove_header(file, address));
  if (segments.damaged_descriptions.empty()) return {};
  PEN_ASSIGN(const auto text, store::read_description(file, segments.described_by));
  for (const auto& header : segments.damaged_descriptions) {
    if (store::format::header_size_bytes + text.size() > header.header_bytes) continue;
    std::vector<std::byte> region(header.header_bytes);
    store::format::encode_description(header, text, region);
    PEN_TRY(write_at(file, region, header.address));
  }
  return {};
}

Result<void> remove_damaged_descriptions(File& file, const Segments& segments) {
  for (const auto address : segments.damaged_headers_of_description) PEN_TRY(remove_header(file, address));
  for (const auto& header : segments.damaged_descriptions) PEN_TRY(remove_header(file, header.address));
  return {};
}

Result<void> complete_segments(File& file, Segments& segments, check::Findings& findings) {
  for (const auto& node : segments.description.datasets) {
    PEN_ASSIGN(auto grid, node.grid());
    segments.grids.push_back(std::move(grid));
  }
  for (const auto& header : segments.undescribed) take_records(file, header, segments, findings);
  // New structures go in front of all this, also where a header that led to it is lost.
  for (const auto& node : segments.description.values)
    if (node.place) segments.first_address = std::min(segments.first_address, node.place->address);
  std::sort(segments.candidates.begin(), segments.candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.dataset, a.index, a.sequence) < std::tie(b.dataset, b.index, b.sequence);
  });
  return {};
}

Result<Segments> read_segments(File& file, check::Findings& findings, const std::function<bool()>& cancelled,
                               const std::function<void(std::uint64_t)>& position) {
  Segments segments;
  bool described = false;
  std::optional<Error> damage;     // of a description
  std::uint64_t described_at = 0;  // the address of the whole one
  PEN_ASSIGN(const auto file_bytes, file.size());
  segments.end = file_bytes;
  store::ScanOptions options;
  options.cancelled = cancelled;
  PEN_ASSIGN(auto scanner, store::SegmentScanner::create(file, options));
  while (true) {
    PEN_ASSIGN(const auto header, scanner.next());
    position(scanner.position());
    if (!header) break;
    ++segments.count;
    segments.first_address = std::min(segments.first_address, header->address);
    segments.guarded.push_back(store::guarded_part(*header));
    if (header->kind == SegmentKind::seal) segments.seals.push_back(*header);
    if (header->kind != SegmentKind::seal) {
      segments.last_ns = std::max(segments.last_ns, header->created_ns);
      segments.end = std::max(segments.end, header->address + header->segment_bytes);
    }
    segments.last_sequence = std::max(segments.last_sequence, header->sequence);
    if (header->kind == SegmentKind::chunks) ++segments.of_chunks;
    if (header->row_bytes > 0) segments.of_values.push_back({header->sequence, header->address});
    if (header->kind == SegmentKind::chunks && described) take_records(file, *header, segments, findings);
    if (header->kind == SegmentKind::chunks && !described) segments.undescribed.push_back(*header);
    if (header->kind == SegmentKind::values) segments.values.push_back(*header);
    if (header->kind != SegmentKind::description) continue;
    auto description = description_of(file, *header);
    if (!description.ok()) segments.damaged_descriptions.push_back(*header);
    if (described) continue;
    if (!description.ok()) {
      findings.add({check::Level::warning,
                    "a copy of the description is corrupt",
                    fmt::format("offset {}", header->address),
                    {},
                    description.error().message(),
                    {}});
      if (!damage) damage = description.error();
      continue;
    }
    segments.description = std::move(*description);
    described = true;
    described_at = header->address;
    segments.described_by = *header;
  }
  if (cancelled && cancelled()) return make_error(Errc::cancelled, "stopped before the end; nothing was written");
  for (const auto& damaged : scanner.damaged()) {
    const bool is_description = says_description(file, damaged.address);
    if (is_description) segments.damaged_headers_of_description.push_back(damaged.address);
    // Before the description that is whole there is only another copy of it.
    const bool copied = is_description || (described && damaged.address < described_at);
    findings.add(
        {copied ? check::Level::warning : check::Level::error,
         "a segment's header is corrupt",
         fmt::format("offset {}", damaged.address),
         {},
         damaged.why,
         copied ? "it held a copy of the description" : "its chunks cannot be found; those in the index stay there"});
    segments.first_address = std::min(segments.first_address, damaged.address);
  }
  if (scanner.file_id()) segments.file_id = *scanner.file_id();
  if (described) PEN_TRY(complete_segments(file, segments, findings));
  if (!described)
    segments.no_description =
        damage
            ? *damage
            : make_error(
                  Errc::malformed,
                  "it has no description segment ({} other segments): Penstock did not record it, or its start is lost",
                  segments.count);
  return segments;
}

}  // namespace penstock::recover
