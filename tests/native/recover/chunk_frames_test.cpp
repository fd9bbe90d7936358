#include "recover/chunk_frames.hpp"

#include <gtest/gtest.h>

namespace penstock::recover {
namespace {

using Numbers = std::vector<std::uint64_t>;

/// A dataset of frames of 8 x 8 pixels in chunks of so many frames and half a frame's rows.
Segments segments_of(std::uint64_t frames, std::vector<Candidate> candidates) {
  Segments segments;
  store::ChunkedNode node;
  node.path = "/entry/data/data";
  node.frame_shape = {8, 8};
  node.chunk_shape = {frames, 4, 8};
  segments.description.datasets.push_back(node);
  segments.candidates = std::move(candidates);
  return segments;
}

Candidate candidate(std::uint64_t index, std::uint64_t address, std::uint32_t frames) {
  Candidate one;
  one.index = index;
  one.address = address;
  one.frame = frames;
  return one;
}

TEST(ChunkFrames, AFrameIsThereIfEachChunkOfItsBlockHasIt) {
  const auto segments = segments_of(4, {candidate(2, 100, 0b1111), candidate(3, 200, 0b0110)});
  ChunkFrames frames;
  frames.learn(segments, {}, {}, {});
  for (const auto& one : segments.candidates) frames.choose(one);
  const auto found = frames.among(0, {2, 3});
  EXPECT_EQ(found.whole, (Numbers{5, 6}));
  EXPECT_EQ(found.partial, (Numbers{4, 7}));
  EXPECT_EQ(frames.among(0, {2}).whole, Numbers{}) << "half of each frame";
  EXPECT_EQ(frames.in(0, 3), (Numbers{5, 6}));
  EXPECT_EQ(ChunkFrames::first_of(segments, segments.candidates[1]), 4u);
}

TEST(ChunkFrames, OfSeveralRecordsTheOneThatTheIndexNamesCounts) {
  const auto segments = segments_of(2, {candidate(0, 100, 0b11), candidate(0, 300, 0b01), candidate(1, 200, 0b11)});
  const std::vector<store::IndexedChunk> chunks{{0, 300, 10, 0}, {1, 200, 10, 0}};
  ChunkFrames::Tables indexed;
  indexed.push_back(std::make_unique<check::IndexTable>(chunks));
  ChunkFrames frames;
  frames.learn(segments, {}, indexed, {});
  EXPECT_EQ(frames.among(0, {0, 1}).whole, Numbers{0});
}

TEST(ChunkFrames, WhereARecordIsLostTheStatesTell) {
  const auto segments = segments_of(2, {candidate(2, 100, 0b11)});
  const std::vector<store::IndexedChunk> chunks{{2, 100, 10, 0}, {3, 500, 10, 0}};
  ChunkFrames::Tables indexed;
  indexed.push_back(std::make_unique<check::IndexTable>(chunks));
  const std::vector<std::byte> states{std::byte{1}, std::byte{1}, std::byte{0}, std::byte{1}};
  ChunkFrames frames;
  frames.learn(segments, {}, indexed, states);
  const auto found = frames.among(0, {2, 3});
  EXPECT_EQ(found.whole, Numbers{3});
  EXPECT_EQ(found.partial, Numbers{2});
}

TEST(ChunkFrames, OneFrameAChunkNeedsNoRecord) {
  const auto segments = segments_of(1, {});
  ChunkFrames frames;
  frames.learn(segments, {}, {}, {});
  const auto found = frames.among(0, {0, 1, 4, 6, 7});
  EXPECT_EQ(found.whole, (Numbers{0, 3}));
  EXPECT_EQ(found.partial, Numbers{2});
}

}  // namespace
}  // namespace penstock::recover
