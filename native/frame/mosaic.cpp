#include "frame/mosaic.hpp"

#include <array>
#include <cstring>

namespace penstock {

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
  return mosaic;
}

std::uint64_t Mosaic::tile_in_frame(std::uint32_t element, std::uint64_t tile) const {
  if (elements() == 1) return tile;
  const auto row = element / grid_.columns * tile_rows_ + tile / tile_columns_;
  const auto column = element % grid_.columns * tile_columns_ + tile % tile_columns_;
  return row * grid_.columns * tile_columns_ + column;
}

void Mosaic::put(Bytes of_element, std::size_t number_bytes, std::uint32_t element, MutableBytes whole) const {
  const auto row_bytes = frame_.shape[1] / grid_.columns * number_bytes;
  const auto rows = frame_.shape[0] / grid_.rows;
  const auto column_at = element % grid_.columns * row_bytes;
  const auto row_at = element / grid_.columns * rows;
  for (std::uint64_t row = 0; row < rows; ++row)
    std::memcpy(whole.data() + (row_at + row) * grid_.columns * row_bytes + column_at,
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
