#include "recover/chunk_frames.hpp"

#include <algorithm>

#include "check/structures/scan_places.hpp"

namespace penstock::recover {
namespace {

constexpr auto received = std::byte{1};

void sort_once(std::vector<std::uint64_t>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

}  // namespace

void ChunkFrames::learn(const Segments& segments, const check::Tree& tree, const Tables& indexed, Bytes states) {
  segments_ = &segments;
  frame_at_.clear();
  const auto& datasets = segments.description.datasets;
  gathered_.assign(datasets.size(), {});
  for (const auto& candidate : segments.candidates) {
    const auto& node = datasets[candidate.dataset];
    if (!node.scan_shape.empty()) frame_at_.emplace(place_of(candidate.dataset, candidate.index), candidate.frame);
    if (node.frames_a_chunk() == 1 || indexed.empty()) continue;
    const auto* entry = indexed[candidate.dataset]->find(candidate.index);
    if (entry != nullptr && entry->address == candidate.address) choose(candidate);
  }
  // Records have checksums, the column has none.
  if (const auto places = check::places_of(tree))
    for (std::size_t frame = 0; frame < places->size(); ++frame)
      if ((*places)[frame] != check::no_place) frame_at_.emplace((*places)[frame], frame);
  // Where a record is lost, the states tell.
  for (std::size_t dataset = 0; dataset < indexed.size(); ++dataset) {
    const auto frames = datasets[dataset].frames_a_chunk();
    if (frames == 1) continue;
    for (const auto& chunk : indexed[dataset]->chunks()) {
      const auto first = place_of(static_cast<std::uint16_t>(dataset), chunk.number) * frames;
      std::uint32_t there = 0;
      for (std::uint64_t i = 0; i < frames && first + i < states.size(); ++i)
        if (states[first + i] == received) there |= std::uint32_t{1} << i;
      gathered_[dataset].emplace(chunk.number, there);
    }
  }
}

void ChunkFrames::choose(const Candidate& candidate) {
  if (segments_->description.datasets[candidate.dataset].frames_a_chunk() > 1)
    gathered_[candidate.dataset][candidate.index] = candidate.frame;
}

std::uint64_t ChunkFrames::place_of(std::uint16_t dataset, std::uint64_t chunk) const {
  return chunk / segments_->description.datasets[dataset].chunks_a_frame();
}

std::optional<std::uint64_t> ChunkFrames::frame_at(std::uint16_t dataset, std::uint64_t place) const {
  if (segments_->description.datasets[dataset].scan_shape.empty()) return place;
  const auto found = frame_at_.find(place);
  return found == frame_at_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::uint64_t> ChunkFrames::in(std::uint16_t dataset, std::uint64_t chunk) const {
  auto [frames, partial] = among(dataset, {chunk});
  return frames.empty() ? partial : frames;  // a chunk is all that its frames need, or it is not
}

std::uint64_t ChunkFrames::first_of(const Segments& segments, const Candidate& candidate) {
  const auto& node = segments.description.datasets[candidate.dataset];
  return node.scan_shape.empty() ? candidate.index / node.chunks_a_frame() * node.frames_a_chunk() : candidate.frame;
}

ChunkFrames::Found ChunkFrames::among(std::uint16_t dataset, const std::vector<std::uint64_t>& chunks) const {
  const auto& node = segments_->description.datasets[dataset];
  const auto frames = node.frames_a_chunk();
  Found found;
  for (std::size_t first = 0, last = 0; first < chunks.size(); first = last) {
    const auto place = place_of(dataset, chunks[first]);
    std::uint32_t in_all = ~std::uint32_t{0}, in_some = 0;
    for (; last < chunks.size() && place_of(dataset, chunks[last]) == place; ++last) {
      const auto there = frames > 1 ? gathered_[dataset].find(chunks[last]) : gathered_[dataset].end();
      const auto mask = frames == 1 ? 1U : there == gathered_[dataset].end() ? 0U : there->second;
      in_all &= mask;
      in_some |= mask;
    }
    if (last - first < node.chunks_a_frame()) in_all = 0;
    for (std::uint64_t i = 0; i < frames; ++i) {
      const auto frame = frames > 1 ? std::optional(place * frames + i) : frame_at(dataset, place);
      if (!frame || (in_some >> i & 1) == 0) continue;
      (in_all >> i & 1 ? found.whole : found.partial).push_back(*frame);
    }
  }
  sort_once(found.whole);
  sort_once(found.partial);
  return found;
}

std::vector<FramePlace> ChunkFrames::new_places(const std::vector<std::uint64_t>& known,
                                                const std::vector<std::uint64_t>& whole) const {
  std::vector<FramePlace> places;
  for (const auto& [place, frame] : frame_at_)
    if ((frame >= known.size() || known[frame] != place) && std::binary_search(whole.begin(), whole.end(), frame))
      places.push_back({frame, place});
  std::sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return a.frame < b.frame; });
  return places;
}

}  // namespace penstock::recover
