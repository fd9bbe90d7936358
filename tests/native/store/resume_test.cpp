/// A store that goes on in a file that another one left or finished.

#include <set>

#include "../support/fault_env.hpp"
#include "scan.hpp"
#include "store_fixture.hpp"

namespace penstock::store::testing {
namespace {

void put(Store& store, std::uint64_t first, std::uint64_t end) {
  auto writer = store.make_writer();
  for (auto i = first; i < end; ++i) {
    const auto data = content_of(i, frame_bytes);
    ASSERT_TRUE(writer->put({DatasetId{0}, i, 0, 5, i * 7}, data, nullptr, data.size()).ok());
  }
}

class ResumeTest : public StoreTest {
 protected:
  /// Frames [0, frames) in a file that is finished, or left without a word.
  SharedFile record(std::uint64_t frames, bool finish) {
    auto store = Store::create(posix_env(), path(), layout(), small_options(), nullptr).value();
    put(*store, 0, frames);
    auto file = store->shared_file();
    if (finish) {
      EXPECT_TRUE(store->finish({}).ok());
    }
    store.reset();
    for (const auto& segment : scan(path()).segments)
      file.last_sequence = std::max(file.last_sequence, segment.sequence);
    return file;
  }

  Result<std::unique_ptr<Store>> resume(const SharedFile& file, Listener* listener = nullptr,
                                        Env& env = posix_env()) const {
    return Store::resume(env, path(), layout(), small_options(), listener, {}, file);
  }

  void expect_frames(std::uint64_t frames) const {
    const PlainReader reader(path());
    ASSERT_TRUE(reader.open());
    ASSERT_EQ(reader.shape("/entry/data/data")[0], frames);
    for (std::uint64_t i = 0; i < frames; ++i)
      ASSERT_EQ(reader.frame("/entry/data/data", i), content_of(i, frame_bytes)) << i;
  }

  static FileLayout layout() { return one_dataset(32, 40); }
};

TEST_F(ResumeTest, WhatIsAddedStandsBesideWhatWasThere) {
  for (const bool finished : {false, true}) {
    std::filesystem::remove(path());
    const auto file = record(100, finished);
    Recorder recorder;
    recorder.write_numbers = true;
    auto store = resume(file, &recorder);
    ASSERT_TRUE(store.ok()) << store.error().message();
    put(**store, 100, 150);
    const auto done = (*store)->finish({});
    ASSERT_TRUE(done.ok()) << done.error().message();
    EXPECT_EQ(recorder.placed_chunks.size(), 50u);
    expect_frames(150);
    const auto found = scan(path());
    EXPECT_EQ(found.damaged_segments, 0u);
    EXPECT_EQ(found.segments.back().kind, format::SegmentKind::seal);
    EXPECT_EQ(std::count_if(found.segments.begin(), found.segments.end(),
                            [](const auto& each) { return each.kind == format::SegmentKind::seal; }),
              1)
        << "the seal of before is none any more";
    std::set<std::uint64_t> sequences;
    for (const auto& segment : found.segments) {
      EXPECT_EQ(segment.file_id, file.id);
      if (segment.kind != format::SegmentKind::chunks) continue;
      EXPECT_TRUE(sequences.insert(segment.sequence).second) << segment.sequence;
    }
    for (std::uint64_t i = 0; i < 150; ++i) EXPECT_NE(found.find(i), nullptr) << i;
  }
}

TEST_F(ResumeTest, AChunkThatIsThereStays) {
  const auto file = record(20, true);
  Recorder recorder;
  auto store = resume(file, &recorder).value();
  auto writer = store->make_writer();
  const auto other = content_of(77, frame_bytes);
  ASSERT_TRUE(writer->put(head_of(3), other, nullptr, other.size()).ok());
  writer.reset();
  ASSERT_TRUE(store->finish({}).ok());
  ASSERT_EQ(recorder.lost_chunks.size(), 1u);
  EXPECT_EQ(recorder.reasons.front().code(), Errc::already_exists);
  expect_frames(20);
}

TEST_F(ResumeTest, ReadersFollowIt) {
  const auto file = record(10, true);
  auto store = resume(file).value();
  const PlainReader reader(path(), H5F_ACC_RDONLY | H5F_ACC_SWMR_READ);
  EXPECT_TRUE(reader.open());
  put(*store, 10, 12);
  ASSERT_TRUE(store->finish({}).ok());
}

TEST_F(ResumeTest, AnotherFileAtThePathIsNotTouched) {
  auto file = record(10, true);
  const auto before = scan(path()).file_bytes;
  file.id[3] ^= std::byte{1};
  EXPECT_EQ(resume(file).error().code(), Errc::mismatch);
  EXPECT_EQ(scan(path()).file_bytes, before);
  expect_frames(10);
}

TEST_F(ResumeTest, AFileInUseIsRefused) {
  auto store = Store::create(posix_env(), path(), layout(), small_options(), nullptr).value();
  EXPECT_EQ(resume(store->shared_file()).error().code(), Errc::locked);
  ASSERT_TRUE(store->finish({}).ok());
}

TEST_F(ResumeTest, OnAFullDiskItIsRefusedAndLaterGoesOn) {
  const auto file = record(10, true);
  penstock::testing::FaultEnv full;
  const auto none = [](auto, auto) { return Result<void>(make_error(Errc::no_space, "the disk is full")); };
  full.faults->on_reserve = none;
  full.faults->on_write = none;
  EXPECT_EQ(resume(file, nullptr, full).error().code(), Errc::no_space);
  auto store = resume(file);
  ASSERT_TRUE(store.ok()) << store.error().message();
  put(**store, 10, 30);
  ASSERT_TRUE((*store)->finish({}).ok());
  expect_frames(30);
}

}  // namespace
}  // namespace penstock::store::testing
