/// A frame put together from elements of one shape, each of which is cut into the same tiles.
///
/// The whole frame's tiles are numbered row by row, as HDF5 numbers its chunks; an element's tiles are numbered within
/// the element. In the whole frame the elements touch, so that no tile has a part of a gap; in the assembled frame they
/// stand as far apart as in the detector. Constant after construction; threads share it.
#pragma once

#include <cstdint>
#include <vector>

#include "frame/series.hpp"
#include "frame/tiling.hpp"

namespace penstock {

class Mosaic {
 public:
  /// Maximum number of pixels of an assembled frame: a wrong gap must not make frames that no reader can hold.
  static constexpr std::uint64_t assembled_pixels_max = std::uint64_t{1} << 32;

  /// `tile` is as in Tiling::of, for an element. `unsupported` where several elements have not two dimensions,
  /// `mismatch` if an element is not a multiple of the tile: its neighbour would begin within a chunk, `too_large`
  /// where gaps make a frame of more than assembled_pixels_max.
  static Result<Mosaic> of(const ArraySpec& element, const ElementPlace& grid, const std::vector<std::uint64_t>& tile);

  /// Of an element.
  const Tiling& tiling() const { return tiling_; }
  /// The whole frame, in which elements touch.
  const ArraySpec& frame() const { return frame_; }
  /// With the gaps; where there are none, the whole frame.
  const ArraySpec& assembled() const { return assembled_; }
  const ElementPlace& grid() const { return grid_; }
  std::uint32_t elements() const { return grid_.count(); }
  std::uint64_t tiles_a_frame() const { return elements() * tiling_.count(); }

  /// The number in the frame of a tile of an element.
  std::uint64_t tile_in_frame(std::uint32_t element, std::uint64_t tile) const;
  struct Part {
    std::uint32_t element = 0;
    std::uint64_t tile = 0;
  };
  /// The way back.
  Part part(std::uint64_t tile_in_frame) const;

  /// Copies the array of an element, with as many numbers of `number_bytes` as it has pixels, to its place in that of
  /// the assembled frame.
  void put(Bytes of_element, std::size_t number_bytes, std::uint32_t element, MutableBytes assembled) const;

 private:
  Mosaic(Tiling tiling, ElementPlace grid, ArraySpec frame)
      : tiling_(std::move(tiling)), grid_(std::move(grid)), frame_(std::move(frame)), assembled_(frame_) {}
  Result<void> add_gaps();

  Tiling tiling_;
  ElementPlace grid_;
  ArraySpec frame_;
  ArraySpec assembled_;
  std::uint64_t tile_rows_ = 1;  ///< of an element; 1 for a single element
  std::uint64_t tile_columns_ = 1;
};

}  // namespace penstock
