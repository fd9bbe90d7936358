/// A frame cut into tiles of one shape, as HDF5 cuts a dataset into chunks.
///
/// Tiles are numbered row by row, the last dimension fastest. Those at the far edges reach beyond the frame where
/// it is not a multiple of the tile. Constant after construction; threads share it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.hpp"
#include "frame/array.hpp"

namespace penstock {

/// Sets all elements of `into` to `element`.
void fill_with(MutableBytes into, Bytes element);

class Tiling {
 public:
  /// `tile` has the frame's dimensions, or none: then the one tile is the frame. An extent above the frame's
  /// means the frame's. `mismatch` where the number of dimensions differs, `too_large` beyond `tiles_max`.
  static Result<Tiling> of(const ArraySpec& frame, const std::vector<std::uint64_t>& tile);
  static constexpr std::uint64_t tiles_max = 65536;

  const std::vector<std::uint64_t>& tile_shape() const { return tile_; }
  std::uint64_t tile_bytes() const { return tile_bytes_; }
  std::uint64_t count() const { return count_; }
  /// The tile is the frame.
  bool whole() const { return count_ == 1; }

  /// Tile `number` where it lies in one piece in `frame`; nothing where it has to be copied.
  std::optional<Bytes> view(Bytes frame, std::uint64_t number) const;
  /// Copies tile `number` of `frame` into the `tile_bytes()` bytes of `into`; what lies beyond the frame becomes
  /// `fill`, one element.
  void copy(Bytes frame, std::uint64_t number, Bytes fill, MutableBytes into) const;

 private:
  /// The part of a tile that lies in the frame.
  struct Part {
    std::vector<std::uint64_t> first;
    std::vector<std::uint64_t> extent;
    bool clipped = false;
  };
  Part part(std::uint64_t number) const;
  std::uint64_t offset_bytes(const std::vector<std::uint64_t>& first) const;

  std::size_t element_bytes_ = 1;
  std::vector<std::uint64_t> frame_;
  std::vector<std::uint64_t> tile_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 1;
  std::uint64_t tile_bytes_ = 0;
  bool in_one_piece_ = false;  ///< a tile that is not clipped
};

}  // namespace penstock
