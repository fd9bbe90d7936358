#include "store/recovery/cut_short.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

namespace penstock::store {
namespace {

/// Storage writes sectors, or more at once.
constexpr std::uint64_t sector_bytes = 512;
constexpr std::uint64_t read_bytes = 1 << 20;

bool is_zero(Bytes bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

std::uint16_t zero_sectors_of(std::uint64_t offset, Bytes chunk) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint16_t>::max();
  const auto last = (offset + chunk.size() - 1) / sector_bytes;
  for (auto sector = last; sector > offset / sector_bytes; --sector) {
    const auto begin = sector * sector_bytes - offset;
    const bool ends = last - sector == most;
    if (ends || !is_zero(chunk.subspan(begin, std::min(sector_bytes, chunk.size() - begin))))
      return static_cast<std::uint16_t>(last - sector);
  }
  return static_cast<std::uint16_t>(std::min(last - offset / sector_bytes, most));
}

bool was_cut_short(File& file, const ChunkInSegment& chunk) {
  if (chunk.size == 0) return false;
  const auto chunk_end = chunk.address + chunk.size;
  const auto end = std::max(chunk.segment_end, chunk_end);
  const auto sector = (chunk_end - 1) / sector_bytes;
  auto at = std::max(chunk.address, (sector - std::min<std::uint64_t>(sector, chunk.zero_sectors)) * sector_bytes);
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
