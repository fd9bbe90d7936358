#include "recorder/service/line.hpp"

#include "recorder/tree/metadata.hpp"

namespace penstock::recorder {
namespace {

std::uint64_t table_bytes_of(const Series& series) {
  std::uint64_t bytes = 0;
  for (const auto* arrays : {&series.pixel_mask, &series.flatfield})
    for (const auto& array : *arrays) bytes += array.data.size();
  if (series.countrate_correction_table) bytes += series.countrate_correction_table->data.size();
  return bytes;
}

}  // namespace

std::uint64_t bytes_of(const Series& series) {
  auto bytes = frame_overhead_bytes + series.user_data_cbor.size() + table_bytes_of(series);
  for (const auto& [name, item] : series.unknown) bytes += item.size();
  return bytes;
}

std::uint64_t bytes_of(const Frame& frame) {
  return frame.payload.size() + memory_bytes(frame.metadata) + frame_overhead_bytes;
}

std::uint64_t strip_tables(Series& series) {
  const auto bytes = table_bytes_of(series);
  series.pixel_mask.clear();
  series.flatfield.clear();
  series.countrate_correction_table.reset();
  return bytes;
}

std::uint64_t bare_bytes_of(const Series& series) {
  const auto tables = table_bytes_of(series);
  return tables == 0 ? 0 : bytes_of(series) - tables;
}

}  // namespace penstock::recorder
