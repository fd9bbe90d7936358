#include "frame/tiling.hpp"

#include <algorithm>
#include <cstring>

namespace penstock {

void fill_with(MutableBytes into, Bytes element) {
  const bool one_value = std::all_of(element.begin(), element.end(), [&](auto byte) { return byte == element[0]; });
  if (one_value) {
    std::fill(into.begin(), into.end(), element.empty() ? std::byte{0} : element[0]);
    return;
  }
  for (std::size_t i = 0; i < into.size(); i += element.size())
    std::memcpy(into.data() + i, element.data(), element.size());
}

namespace {

/// Whether neighbouring elements of a tile are neighbours in the frame: whole extents behind a partial one, and
/// single elements in front of it.
bool lies_in_one_piece(const std::vector<std::uint64_t>& frame, const std::vector<std::uint64_t>& tile) {
  std::size_t partial = tile.size();
  while (partial > 0 && tile[partial - 1] == frame[partial - 1]) --partial;
  for (std::size_t i = 0; i + 1 < partial; ++i)
    if (tile[i] != 1) return false;
  return true;
}

}  // namespace

Result<Tiling> Tiling::of(const ArraySpec& frame, const std::vector<std::uint64_t>& tile) {
  if (!tile.empty() && tile.size() != frame.shape.size())
    return make_error(Errc::mismatch, "the chunk's shape has {} dimensions; frames have {}", tile.size(),
                      frame.shape.size());
  Tiling tiling;
  tiling.element_bytes_ = size_of(frame.type);
  tiling.frame_ = frame.shape;
  tiling.tile_bytes_ = tiling.element_bytes_;
  for (std::size_t i = 0; i < frame.shape.size(); ++i) {
    const auto extent = tile.empty() ? frame.shape[i] : std::min(tile[i], frame.shape[i]);
    if (extent == 0) return make_error(Errc::mismatch, "dimension {} of the chunk's shape is 0", i);
    const auto count = (frame.shape[i] - 1) / extent + 1;
    if (count > tiles_max || tiling.count_ * count > tiles_max)
      return make_error(Errc::too_large, "more than {} chunks a frame; make the chunk's shape larger", tiles_max);
    tiling.tile_.push_back(extent);
    tiling.counts_.push_back(count);
    tiling.count_ *= count;
    tiling.tile_bytes_ *= extent;
  }
  tiling.in_one_piece_ = lies_in_one_piece(tiling.frame_, tiling.tile_);
  return tiling;
}

Tiling::Part Tiling::part(std::uint64_t number) const {
  Part part;
  part.first.resize(tile_.size());
  part.extent.resize(tile_.size());
  for (std::size_t i = tile_.size(); i-- > 0;) {
    part.first[i] = number % counts_[i] * tile_[i];
    number /= counts_[i];
    part.extent[i] = std::min(tile_[i], frame_[i] - part.first[i]);
    part.clipped = part.clipped || part.extent[i] < tile_[i];
  }
  return part;
}

std::uint64_t Tiling::offset_bytes(const std::vector<std::uint64_t>& first) const {
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < frame_.size(); ++i) offset = offset * frame_[i] + first[i];
  return offset * element_bytes_;
}

std::optional<Bytes> Tiling::view(Bytes frame, std::uint64_t number) const {
  if (!in_one_piece_) return std::nullopt;
  const auto found = part(number);
  if (found.clipped) return std::nullopt;
  return frame.subspan(offset_bytes(found.first), tile_bytes_);
}

void Tiling::copy(Bytes frame, std::uint64_t number, Bytes fill, MutableBytes into) const {
  const auto found = part(number);
  if (found.clipped) fill_with(into, fill);
  const auto last = tile_.size() - 1;
  const auto run_bytes = found.extent[last] * element_bytes_;
  // Runs along the last dimension, for each place in the others.
  std::vector<std::uint64_t> at(tile_.size(), 0);
  auto from = found.first;
  while (true) {
    std::uint64_t to = 0;
    for (std::size_t i = 0; i < tile_.size(); ++i) {
      to = to * tile_[i] + at[i];
      from[i] = found.first[i] + at[i];
    }
    std::memcpy(into.data() + to * element_bytes_, frame.data() + offset_bytes(from), run_bytes);
    auto dimension = last;
    while (dimension > 0 && ++at[dimension - 1] == found.extent[dimension - 1]) at[--dimension] = 0;
    if (dimension == 0) return;
  }
}

}  // namespace penstock
