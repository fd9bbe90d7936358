#include "store/chunk_grid.hpp"

namespace penstock::store {
namespace {

constexpr std::uint64_t frames_max = std::uint64_t{1} << 32;

}  // namespace

Result<ChunkGrid> ChunkGrid::of(std::vector<std::uint64_t> chunk, const std::vector<std::uint64_t>& fixed) {
  if (chunk.size() != fixed.size() + 1)
    return make_error(Errc::invalid_argument, "a chunk of {} dimensions in a dataset of {}", chunk.size(),
                      fixed.size() + 1);
  if (chunk.front() == 0 || chunk.front() > frames_max)
    return make_error(Errc::invalid_argument, "dimension 0 of the chunk is {}, expected 1 to {}", chunk.front(),
                      frames_max);
  ChunkGrid grid;
  for (std::size_t i = 0; i < fixed.size(); ++i) {
    const auto extent = chunk[i + 1];
    if (extent == 0 || extent > fixed[i])
      return make_error(Errc::invalid_argument, "dimension {} of the chunk is {}, expected 1 to {}", i + 1, extent,
                        fixed[i]);
    const auto count = (fixed[i] - 1) / extent + 1;
    if (__builtin_mul_overflow(grid.chunks_a_layer_, count, &grid.chunks_a_layer_))
      return make_error(Errc::too_large, "more chunks than 64 bits count");
    grid.counts_.push_back(count);
  }
  grid.chunk_ = std::move(chunk);
  return grid;
}

void ChunkGrid::offset_of(std::uint64_t number, std::span<std::uint64_t> into) const {
  for (std::size_t i = counts_.size(); i-- > 0;) {
    into[i + 1] = number % counts_[i] * chunk_[i + 1];
    number /= counts_[i];
  }
  into[0] = number * chunk_[0];
}

}  // namespace penstock::store
