#include "store/recovery/cut_short.hpp"

#include <algorithm>
#include <vector>

namespace penstock::store {
namespace {

/// Storage writes sectors, or more at once.
constexpr std::uint64_t sector_bytes = 512;
constexpr std::uint64_t read_bytes = 1 << 20;

bool is_zero(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](auto byte) { return byte == std::byte{0}; });
}

}  // namespace

bool was_cut_short(File& file, const ChunkInSegment& chunk) {
  if (chunk.size == 0) return false;
  const auto chunk_end = chunk.address + chunk.size;
  const auto end = std::max(chunk.segment_end, chunk_end);
  auto at = std::max(chunk.address, (chunk_end - 1) / sector_bytes * sector_bytes);
  std::vector<std::byte> window(sector_bytes);  // of a chunk that is not cut short this is enough
  while (at < end) {
    window.resize(std::min<std::uint64_t>(window.size(), end - at));
    const auto count = file.read_at(window, at);
    if (!count.ok() || !is_zero(Bytes(window).first(*count))) return false;
    if (*count < window.size()) return true;
    at += *count;
    window.resize(read_bytes);
  }
  return true;
}

}  // namespace penstock::store
