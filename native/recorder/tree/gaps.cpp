#include "recorder/tree/gaps.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "recorder/tree/nexus/nexus.hpp"
#include "recorder/tree/nexus/nexus_tree.hpp"

namespace penstock::recorder {
namespace {

/// One fewer than `extent`, also where all are 0.
std::vector<std::uint64_t> gaps_along(const std::vector<std::uint32_t>& gaps, std::uint32_t extent) {
  if (gaps.empty()) return std::vector<std::uint64_t>(extent - 1, 0);
  return {gaps.begin(), gaps.end()};
}

store::Value numbers(const std::vector<std::uint64_t>& list) {
  const auto bytes = std::as_bytes(std::span(list));
  return store::ArrayValue{{ElementType::i64, {list.size()}}, {bytes.begin(), bytes.end()}};
}

std::vector<std::byte> number_of(ElementType type, std::uint64_t number) {
  std::vector<std::byte> bytes(size_of(type));
  if (type == ElementType::f32) {
    store_le(bytes.data(), static_cast<float>(number));
  } else if (type == ElementType::f64) {
    store_le(bytes.data(), static_cast<double>(number));
  } else {
    std::array<std::byte, 8> whole{};
    store_le(whole.data(), number);
    std::copy_n(whole.begin(), bytes.size(), bytes.begin());
  }
  return bytes;
}

}  // namespace

void store_apart(store::FileLayout& layout, const Series& series, const Mosaic& mosaic) {
  const auto& grid = mosaic.grid();
  if (!grid.has_gaps()) return;
  const auto row_gaps = gaps_along(grid.row_gaps, grid.rows);
  const auto column_gaps = gaps_along(grid.column_gaps, grid.columns);
  layout.groups.push_back({elements_path,
                           {nx_class("NXcollection"),
                            {"grid", numbers({grid.rows, grid.columns})},
                            {"row_gaps", numbers(row_gaps)},
                            {"column_gaps", numbers(column_gaps)}}});
  for (std::size_t channel = 0; channel < layout.chunked.size(); ++channel) {
    auto& node = layout.chunked[channel];
    node.assembled = store::Assembled{std::move(node.path), row_gaps, column_gaps};
    node.path = fmt::format("{}/{}", elements_path, frames_name(series, channel));
    node.frame_shape = mosaic.frame().shape;
  }
}

NamedArray in_gaps(const Mosaic& mosaic, const std::string& channel, ElementType type, std::uint64_t gap) {
  NamedArray array{channel, {type, mosaic.assembled().shape}, {}, Encoding::none};
  std::uint64_t pixels = 1, of_element = 1;
  for (const auto extent : array.spec.shape) pixels *= extent;
  for (const auto extent : mosaic.frame().shape) of_element *= extent;
  of_element /= mosaic.elements();
  array.data.resize(pixels * size_of(type));
  fill_with(array.data, number_of(type, gap));
  const std::vector<std::byte> nothing(of_element * size_of(type));
  for (std::uint32_t element = 0; element < mosaic.elements(); ++element)
    mosaic.put(nothing, size_of(type), element, array.data);
  return array;
}

std::uint64_t gap_map_bytes(const Mosaic& mosaic, const Series& series, ElementType type) {
  auto bytes = series.channels.size() * size_of(type);
  for (const auto extent : mosaic.assembled().shape) bytes *= extent;
  return bytes;
}

}  // namespace penstock::recorder
