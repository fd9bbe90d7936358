#include "frame/mosaic.hpp"

#include <array>
#include <cstring>
#include <numeric>
#include <span>

namespace penstock {
namespace {

/// Of the first `count`.
std::uint64_t sum_of(const std::vector<std::uint32_t>& gaps, std::size_t count) {
  const auto first = std::span(gaps).first(std::min(count, gaps.size()));
  return std::accumulate(first.begin(), first.end(), std::uint64_t{0});
}

}  // namespace

Result<Mosaic> Mosaic::of(const ArraySpec& element, const ElementPlace& grid, const std::vector<std::uint64_t>& tile) {
  PEN_ASSIGN(auto tiling, Tiling::of(element, tile));
  if (grid.count() == 1) return Mosaic(std::move(tiling), grid, element);
  if (element.shape.size() != 2)
    return make_error(Errc::unsupported, "an element's frames have {} dimensions; those of several elements have 2",
                      element.shape.size());
  const std::array<std::uint64_t, 2> elements{grid.rows, grid.columns};
  auto frame = element;
  std::array<std::uint64_t, 2> tiles{};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto extent = tiling.tile_shape()[i];
    tiles[i] = (element.shape[i] - 1) / extent + 1;
    frame.shape[i] *= elements[i];
    if (elements[i] > 1 && element.shape[i] % extent != 0)
      return make_error(Errc::mismatch,
                        "chunks of {} along dimension {}, and elements of {}: choose a chunk that divides the element",
                        extent, i, element.shape[i]);
  }
  if (tiling.count() * grid.count() > Tiling::tiles_max)
    return make_error(Errc::too_large, "more than {} chunks a frame; make the chunk's shape larger", Tiling::tiles_max);
  Mosaic mosaic(std::move(tiling), grid, std::move(frame));
  mosaic.tile_rows_ = tiles[0];
  mosaic.tile_columns_ = tiles[1];
  PEN_TRY(mosaic.add_gaps());
  return mosaic;
}

Result<void> Mosaic::add_gaps() {
  if (!grid_.has_gaps()) return {};
  auto& shape = assembled_.shape;
  shape[0] += sum_of(grid_.row_gaps, grid_.row_gaps.size());
  shape[1] += sum_of(grid_.column_gaps, grid_.column_gaps.size());
  if (shape[0] > assembled_pixels_max / shape[1])
    return make_error(Errc::too_large, "with its gaps the frame has {} × {} pixels, which exceeds the maximum of {}",
                      shape[0], shape[1], assembled_pixels_max);
  return {};
}

std::uint64_t Mosaic::tile_in_frame(std::uint32_t element, std::uint64_t tile) const {
  if (elements() == 1) return tile;
  const auto row = element / grid_.columns * tile_rows_ + tile / tile_columns_;
  const auto column = element % grid_.columns * tile_columns_ + tile % tile_columns_;
  return row * grid_.columns * tile_columns_ + column;
}

void Mosaic::put(Bytes of_element, std::size_t number_bytes, std::uint32_t element, MutableBytes assembled) const {
  const auto columns = frame_.shape[1] / grid_.columns;
  const auto rows = frame_.shape[0] / grid_.rows;
  const auto row_bytes = columns * number_bytes;
  const auto whole_row_bytes = assembled_.shape[1] * number_bytes;
  const auto grid_row = element / grid_.columns, grid_column = element % grid_.columns;
  const auto row_at = grid_row * rows + sum_of(grid_.row_gaps, grid_row);
  const auto column_at = grid_column * columns + sum_of(grid_.column_gaps, grid_column);
  for (std::uint64_t row = 0; row < rows; ++row)
    std::memcpy(assembled.data() + (row_at + row) * whole_row_bytes + column_at * number_bytes,
                of_element.data() + row * row_bytes, row_bytes);
}

Mosaic::Part Mosaic::part(std::uint64_t tile_in_frame) const {
  if (elements() == 1) return {0, tile_in_frame};
  const auto a_row = grid_.columns * tile_columns_;
  const auto row = tile_in_frame / a_row;
  const auto column = tile_in_frame % a_row;
  return {static_cast<std::uint32_t>(row / tile_rows_ * grid_.columns + column / tile_columns_),
          row % tile_rows_ * tile_columns_ + column % tile_columns_};
}

}  // namespace penstock
