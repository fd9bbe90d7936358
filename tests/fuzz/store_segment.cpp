/// Decodes arbitrary bytes as a segment and as a description. The first byte chooses; where it is
/// odd, magic and checksums are put right, so that the checks behind them are reached. What is
/// accepted must keep the promises of segment.hpp.

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/crc32c.hpp"
#include "store/format/description.hpp"
#include "store/format/rows.hpp"
#include "store/format/segment.hpp"

using namespace penstock;
using namespace penstock::store::format;

namespace {

// At the offsets of docs/reference/format.md.
void put_right(std::vector<std::byte>& segment) {
  const Bytes magic = as_bytes("\x89PENSEG\n");
  std::copy(magic.begin(), magic.end(), segment.begin());
  const auto body_bytes = load_le<std::uint32_t>(segment.data() + 64);
  if (body_bytes <= segment.size() - header_size_bytes)
    store_le(segment.data() + 68, crc32c(Bytes(segment).subspan(header_size_bytes, body_bytes)));
  store_le(segment.data() + 124, crc32c(Bytes(segment).first(124)));
}

void try_rows(Bytes rows) {
  RowReader reader(rows);
  while (true) {
    const auto value = reader.next();
    if (!value.ok() || !*value) return;
    if ((*value)->column != late_column) continue;
    const auto late = decode_late((*value)->bytes);
    if (late.ok() && (!can_be_late(late->column) || late->bytes.size() > late->column.row_bytes())) std::abort();
  }
}

void try_segment(Bytes bytes) {
  const auto header = decode_header(bytes, 0);
  if (!header.ok() || bytes.size() < header->header_bytes) return;
  const Bytes region = bytes.first(header->header_bytes);
  if (header->kind == SegmentKind::description) {
    if (const auto text = decode_description(*header, region); text.ok() && text->size() > region.size()) std::abort();
    return;
  }
  if (header->kind != SegmentKind::chunks) {
    std::uint64_t end = 0;
    const auto stretches = decode_stretches(*header, region);
    for (const auto& stretch : stretches.ok() ? *stretches : std::vector<Stretch>()) {
      if (stretch.address < end || stretch.bytes == 0) std::abort();
      end = stretch.end();
    }
    return;
  }
  const auto records = decode_records(*header, region);
  if (!records.ok()) return;
  for (const auto& record : *records) {
    const auto end = std::uint64_t{record.offset} + record.size;
    if (record.offset < header->header_bytes || end > header->segment_bytes) std::abort();
  }
  if (const auto rows = decode_rows(*header, region); rows.ok()) try_rows(*rows);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes input = std::as_bytes(std::span(data, size)).subspan(1);
  if (data[0] % 4 == 0) {
    if (const auto description = parse_description(as_text(input)); description.ok()) {
      for (const auto& dataset : description->datasets)
        if (dataset.path.empty()) std::abort();
    }
    return 0;
  }
  std::vector<std::byte> segment(input.begin(), input.end());
  if (data[0] % 2 == 1) {
    segment.resize(align_up(std::max(segment.size(), header_size_bytes), page_bytes));
    put_right(segment);
  }
  try_segment(segment);
  return 0;
}
