#include "check/structures/segment_frames.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>

namespace penstock::check {

void SegmentFrames::add(std::uint16_t dataset, std::uint64_t chunk, std::uint32_t frames, std::uint32_t bytes) {
  MutexLock lock(mutex_);
  chunks_.push_back({chunk, frames, bytes, dataset});
}

void SegmentFrames::take(const SegmentFrames& member, const std::vector<store::ChunkedNode>& datasets,
                         std::uint64_t first_frame) {
  for (const auto& chunk : member.sorted())
    if (chunk.dataset < datasets.size())
      add(chunk.dataset, chunk.number + first_frame * datasets[chunk.dataset].chunks_a_frame(), chunk.frames,
          chunk.bytes);
}

std::vector<SegmentFrames::Chunk> SegmentFrames::sorted() const {
  MutexLock lock(mutex_);
  auto chunks = chunks_;
  std::sort(chunks.begin(), chunks.end(),
            [](const auto& a, const auto& b) { return std::tie(a.dataset, a.number) < std::tie(b.dataset, b.number); });
  // Of copies, a later one names no frame that an earlier one does not.
  std::vector<Chunk> once;
  for (const auto& chunk : chunks)
    if (!once.empty() && once.back().dataset == chunk.dataset && once.back().number == chunk.number)
      once.back().frames |= chunk.frames;
    else
      once.push_back(chunk);
  return once;
}

SegmentFrames::Counts SegmentFrames::count(const std::vector<store::ChunkedNode>& datasets) const {
  const auto chunks = sorted();
  Counts counts;
  std::optional<std::vector<std::uint64_t>> whole;  // in all datasets so far
  auto next = chunks.begin();
  for (std::size_t dataset = 0; dataset < datasets.size(); ++dataset) {
    const auto needed = datasets[dataset].chunks_a_frame();
    const auto several = datasets[dataset].frames_a_chunk();
    std::vector<std::uint64_t> here;
    while (next != chunks.end() && next->dataset == dataset) {
      const auto place = next->number / needed;
      std::uint32_t frames = several == 1 ? 1 : ~std::uint32_t{0};
      std::uint64_t found = 0;
      for (; next != chunks.end() && next->dataset == dataset && next->number / needed == place; ++next, ++found) {
        if (several > 1) frames &= next->frames;
        counts.bytes += next->bytes;
      }
      if (found < needed) continue;
      for (std::uint64_t i = 0; i < std::min(several, store::frames_a_chunk_max); ++i)
        if ((frames >> i & 1) != 0) here.push_back(place * several + i);
    }
    if (!whole) {
      whole = std::move(here);
      continue;
    }
    std::vector<std::uint64_t> both;
    std::set_intersection(whole->begin(), whole->end(), here.begin(), here.end(), std::back_inserter(both));
    whole = std::move(both);
  }
  if (whole) counts.whole = std::move(*whole);
  return counts;
}

std::vector<std::uint64_t> SegmentFrames::begun(const std::vector<store::ChunkedNode>& datasets) const {
  std::vector<std::uint64_t> frames;
  for (const auto& chunk : sorted())
    if (chunk.dataset < datasets.size()) frames.push_back(chunk.number / datasets[chunk.dataset].chunks_a_frame());
  std::sort(frames.begin(), frames.end());
  frames.erase(std::unique(frames.begin(), frames.end()), frames.end());
  return frames;
}

}  // namespace penstock::check
