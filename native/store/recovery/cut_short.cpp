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
/// At the end of a chunk, where each counts; further in front one of so many is looked at, which takes a hundredth of
/// the time for a frame of zeros.
constexpr std::uint64_t sectors_read_all = 128;
constexpr std::uint64_t zero_sectors_max = std::numeric_limits<std::uint16_t>::max();

}  // namespace

std::uint16_t zero_sectors_of(std::uint64_t offset, Bytes chunk) {
  const auto first = offset / sector_bytes;
  const auto last = (offset + chunk.size() - 1) / sector_bytes;
  const auto lowest = std::max(first, last - std::min(last, zero_sectors_max));
  auto sector = last;
  while (sector > lowest) {
    const auto begin = sector * sector_bytes - offset;
    if (!is_zero(chunk.subspan(begin, std::min(sector_bytes, chunk.size() - begin)))) break;
    const auto step = last - sector < sectors_read_all ? 1 : sectors_read_all;
    sector -= std::min(step, sector - lowest);
  }
  return static_cast<std::uint16_t>(last - sector);
}

bool was_cut_short(File& file, const ChunkInSegment& chunk) {
  if (chunk.size == 0) return false;
  const auto chunk_end = chunk.address + chunk.size;
  const auto end = std::max(chunk.segment_end, chunk_end);
  const auto sector = (chunk_end - 1) / sector_bytes;
  auto at = chunk.address;
  if (chunk.zero_sectors < zero_sectors_max)
    at = std::max(at, (sector - std::min<std::uint64_t>(sector, chunk.zero_sectors)) * sector_bytes);
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
