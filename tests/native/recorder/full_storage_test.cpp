/// Storages that take nothing for a while, full ones above all: what becomes of the series.

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "../support/full_disk.hpp"
#include "recorder_test.hpp"

namespace penstock::recorder {
namespace {

class StorageThatTakesNothing : public RecorderTest, public ::testing::WithParamInterface<Errc> {};

INSTANTIATE_TEST_SUITE_P(ForAReason, StorageThatTakesNothing, ::testing::Values(Errc::no_space, Errc::io),
                         [](const auto& reason) { return std::string(name(reason.param)); });

/// The first frame's metadata have the file made anew, and the disk is full just then.
TEST_P(StorageThatTakesNothing, GetsTheFileWhenItTakesSomethingAgain) {
  penstock::testing::FullDisk disk(false, GetParam());
  config_.end_timeout_s = 10;
  Recorder recorder(disk.env(), config_, *events_, team_);
  ASSERT_TRUE(recorder.start().ok());
  const auto put = [&](std::uint64_t number, const std::shared_ptr<Acks>& session) {
    auto one = frame(number);
    one.metadata = {{"omega", 0.5 * static_cast<double>(number)}};
    one.session = session;
    return recorder.put(std::move(one)).ok();
  };
  const auto acks = std::make_shared<Acks>(), back = std::make_shared<Acks>();
  ASSERT_TRUE(recorder.begin(series(6), acks).ok());
  disk.fill();
  for (std::uint64_t n = 0; n < 3; ++n) EXPECT_TRUE(put(n, acks)) << "it is not refused for good";
  for (int i = 0; i < 1000 && acks->asked == 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_GT(acks->asked, 0);
  EXPECT_EQ(acks->safe, 0u);
  disk.make_room();
  std::this_thread::sleep_for(300ms);  // it is not tried with each frame
  for (std::uint64_t n = 0; n < 6; ++n) EXPECT_TRUE(put(n, back));
  finish(recorder);
  EXPECT_EQ(back->safe, 6u);
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(read<double>("s1.h5", "/entry/metadata/omega", H5T_NATIVE_DOUBLE)[5], 2.5);
  EXPECT_EQ(event("series_end")["lost"], 3) << "the ledger does not forget";
  EXPECT_EQ(acks->problem, "") << "all came again";
  EXPECT_TRUE(event("series_end")["problem"].is_null());
  EXPECT_EQ(recorder.failed_series(), 0u);
}

/// An error behind the moment when the new file takes the name of the one that was made at the start.
TEST_F(RecorderTest, AFileThatIsMadeAnewMayFailOnceItHasItsName) {
  config_.store.durability = store::Durability::interval;
  penstock::testing::FaultEnv env;
  std::atomic<bool> broken{false};
  env.faults->on_call = [&](penstock::testing::Call call) {
    const bool fails = call == penstock::testing::Call::sync_name && broken.exchange(false);
    return fails ? Result<void>(make_error(Errc::io, "broken")) : Result<void>{};
  };
  Recorder recorder(env, config_, *events_, team_);
  ASSERT_TRUE(recorder.start().ok());
  const auto acks = std::make_shared<Acks>(), back = std::make_shared<Acks>();
  const auto put = [&](const std::shared_ptr<Acks>& session) {
    auto one = frame(0);
    one.metadata = {{"omega", 0.5}};
    one.session = session;
    EXPECT_TRUE(recorder.put(std::move(one)).ok());
  };
  ASSERT_TRUE(recorder.begin(series(1), acks).ok());
  broken = true;
  put(acks);
  for (int i = 0; i < 1000 && acks->asked == 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(broken);
  std::this_thread::sleep_for(300ms);  // it is not tried with each frame
  put(back);
  finish(recorder);
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{1}));
  EXPECT_EQ(back->safe, 1u);
}

/// Frames that find no room on their way to a file that is there. Those that come again heal it, whatever else is
/// missing, and one that does not is the problem.
TEST_F(RecorderTest, WhatAFullStorageDidNotTakeIsAProblemUntilItHasComeAgain) {
  config_.series_limit = 0;
  for (const std::uint64_t again : {3, 2}) {
    penstock::testing::FullDisk disk(false);
    Recorder recorder(disk.env(), config_, *events_, team_);
    ASSERT_TRUE(recorder.start().ok());
    const auto name = "again" + std::to_string(again);
    const auto acks = std::make_shared<Acks>(), early = std::make_shared<Acks>(), back = std::make_shared<Acks>();
    const auto put = [&](std::uint64_t number, const std::shared_ptr<Acks>& session) {
      auto one = frame(number, name);
      one.session = session;
      ASSERT_TRUE(recorder.put(std::move(one)).ok());
    };
    ASSERT_TRUE(recorder.begin(series(6, name), acks).ok());
    put(0, acks);
    for (int i = 0; i < 1000 && acks->safe < 1; ++i) std::this_thread::sleep_for(10ms);
    disk.fill();
    for (std::uint64_t n = 1; n < 4; ++n) put(n, acks);
    for (int i = 0; i < 1000 && acks->asked == 0; ++i) std::this_thread::sleep_for(10ms);
    for (std::uint64_t n = 1; n < 4; ++n) put(n, early);  // while it is still full
    for (int i = 0; i < 1000 && early->asked == 0; ++i) std::this_thread::sleep_for(10ms);
    disk.make_room();
    for (std::uint64_t n = 1; n < 1 + again; ++n) put(n, back);
    put(5, back);  // and frame 4 never comes
    ASSERT_TRUE(recorder.end({1, name}).ok());
    for (int i = 0; i < 2000 && !acks->is_closed; ++i) std::this_thread::sleep_for(10ms);
    recorder.stop();
    EXPECT_EQ(states(name + ".h5"),
              (std::vector<std::uint8_t>{1, 1, 1, again == 3 ? std::uint8_t{1} : std::uint8_t{4}, 0, 1}));
    const auto end = event("series_end");
    EXPECT_EQ(end["lost"], 3) << "each counts once";
    EXPECT_EQ(end["late"], 0) << "they came in time, and were sent again";
    EXPECT_EQ(end["raw_bytes"], (2 + again) * frame(0).payload.size()) << "of what is stored";
    EXPECT_EQ(acks->problem.find("no_space") != std::string::npos, again < 3) << acks->problem;
    EXPECT_EQ(recorder.failed_series(), again < 3 ? 1u : 0u);
  }
}

/// As a network file system whose server is gone does, for minutes.
TEST_F(RecorderTest, TimePassesWhileAStorageDoesNotAnswer) {
  penstock::testing::FaultEnv env;
  std::atomic<bool> silent{false};
  std::promise<void> answer, asked;
  env.faults->on_look = [&, waits = answer.get_future().share()] {
    if (!silent.exchange(false)) return;
    asked.set_value();
    waits.wait();
  };
  Recorder recorder(env, config_, *events_, team_);
  ASSERT_TRUE(recorder.start().ok());
  ASSERT_TRUE(recorder.begin(series(2), nullptr).ok());
  ASSERT_TRUE(recorder.put(frame(0)).ok());
  silent = true;
  ASSERT_EQ(asked.get_future().wait_for(30s), std::future_status::ready);
  ASSERT_TRUE(recorder.end({1, "s1"}).ok());
  EXPECT_TRUE(recorder.wait_for_limit(20s)) << "the series ends all the same";
  answer.set_value();
  recorder.stop();
}

TEST_F(RecorderTest, AFileWhoseStorageDoesNotAnswerHoldsUpNoOther) {
  penstock::testing::FaultEnv env;
  std::atomic<bool> silent{false};
  std::promise<void> answer, asked;
  env.faults->on_look = [&, waits = answer.get_future().share()] {
    if (!silent.exchange(false)) return;
    asked.set_value();
    waits.wait();
  };
  config_.series_limit = 2;
  Recorder recorder(env, config_, *events_, team_);
  ASSERT_TRUE(recorder.start().ok());
  ASSERT_TRUE(recorder.begin(series(2), nullptr).ok());
  ASSERT_TRUE(recorder.put(frame(0)).ok());
  silent = true;
  ASSERT_EQ(asked.get_future().wait_for(30s), std::future_status::ready);
  ASSERT_TRUE(recorder.begin(series(1, "s2"), nullptr).ok());
  ASSERT_TRUE(recorder.put(frame(0, "s2")).ok());
  ASSERT_TRUE(recorder.end({1, "s2"}).ok());
  for (int i = 0; i < 2000 && recorder.snapshot().complete_series == 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(recorder.snapshot().complete_series, 1u);
  answer.set_value();
  recorder.stop();
}

/// HDF5 may have met the same error, and nobody knows.
TEST_F(RecorderTest, AStorageThatFailedOtherwiseIsAProblemThoughAllFramesCameAgain) {
  penstock::testing::FaultEnv env;
  std::atomic<bool> broken{false};
  env.faults->on_write = [&](auto, auto bytes) {
    return broken && bytes > rows * columns ? Result<void>(make_error(Errc::io, "broken")) : Result<void>{};
  };
  config_.store.flush_interval = 60s;  // HDF5 writes nothing meanwhile
  Recorder recorder(env, config_, *events_, team_);
  ASSERT_TRUE(recorder.start().ok());
  const auto acks = std::make_shared<Acks>(), back = std::make_shared<Acks>();
  const auto put = [&](std::uint64_t number, const std::shared_ptr<Acks>& session) {
    auto one = frame(number);
    one.session = session;
    ASSERT_TRUE(recorder.put(std::move(one)).ok());
  };
  ASSERT_TRUE(recorder.begin(series(2), acks).ok());
  broken = true;
  for (std::uint64_t n = 0; n < 2; ++n) put(n, acks);
  for (int i = 0; i < 1000 && acks->asked == 0; ++i) std::this_thread::sleep_for(10ms);
  broken = false;
  // The first copy of a frame may still be on its way, and fail: then this one is asked for again.
  for (int i = 0, asked = -1; i < 1000 && back->safe < 2; ++i) {
    if (std::exchange(asked, back->asked) != back->asked)
      for (std::uint64_t n = 0; n < 2; ++n) put(n, back);
    std::this_thread::sleep_for(10ms);
  }
  finish(recorder);
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{1, 1}));
  EXPECT_NE(acks->problem.find("broken"), std::string::npos) << acks->problem;
}

TEST_F(RecorderTest, WhatSomebodyPutsInThePlaceOfAFileThatWaitsForRoomStays) {
  penstock::testing::FullDisk disk;
  Recorder recorder(disk.env(), config_, *events_, team_);
  ASSERT_TRUE(recorder.start().ok());
  ASSERT_TRUE(recorder.begin(series(4), nullptr).ok());
  const auto theirs = folder_ / "s1.h5", aside = folder_ / "theirs.h5";
  std::ofstream(theirs) << "precious";
  disk.make_room();
  for (std::uint64_t n = 0; n < 2; ++n) {
    EXPECT_TRUE(recorder.put(frame(n)).ok());
    std::this_thread::sleep_for(300ms);
  }
  EXPECT_EQ(std::filesystem::file_size(theirs), 8u);
  std::filesystem::rename(theirs, aside);
  for (std::uint64_t n = 2; n < 4; ++n) EXPECT_TRUE(recorder.put(frame(n)).ok());
  finish(recorder);
  EXPECT_EQ(std::filesystem::file_size(aside), 8u);
  EXPECT_EQ(event("series_end")["lost"], 2);
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{4, 4, 1, 1}));
}

/// A detector over ZeroMQ cannot be told to begin again.
TEST_P(StorageThatTakesNothing, HasTheSeriesBeginWithoutItsFile) {
  penstock::testing::FullDisk disk(true, GetParam());
  Recorder recorder(disk.env(), config_, *events_, team_);
  ASSERT_TRUE(recorder.start().ok());
  ASSERT_TRUE(recorder.begin(series(6), nullptr).ok());
  EXPECT_FALSE(recorder.begin(series(6, "s2"), std::make_shared<Acks>()).ok()) << "who can be told is told";
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s2.h5")) << "it may try again";
  for (std::uint64_t n = 0; n < 3; ++n) EXPECT_TRUE(recorder.put(frame(n)).ok());
  disk.make_room();
  std::this_thread::sleep_for(300ms);
  for (std::uint64_t n = 3; n < 6; ++n) EXPECT_TRUE(recorder.put(frame(n)).ok());
  EXPECT_TRUE(recorder.end({1, "s1"}).ok());
  EXPECT_TRUE(recorder.wait_for_limit(60s));
  recorder.stop();
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{4, 4, 4, 1, 1, 1}));
  EXPECT_EQ(pixels()[3 * rows * columns], 3000);
  EXPECT_EQ(event("series_end")["lost"], 3);
  EXPECT_NE(event("series_end")["problem"].dump().find(name(GetParam())), std::string::npos);
}

/// The number of frames that are announced; 0: the series is open-ended.
class EndOfASeries : public RecorderTest, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  void record_two_frames(Recorder& recorder) {
    ASSERT_TRUE(recorder.start().ok());
    ASSERT_TRUE(recorder.begin(series(GetParam()), nullptr).ok());
    for (std::uint64_t n = 0; n < 2; ++n) ASSERT_TRUE(recorder.put(frame(n)).ok());
  }
  void expect_an_end_without_waiting() {
    Recorder recorder(env_, config_, *events_, team_);
    record_two_frames(recorder);
    ASSERT_TRUE(recorder.end({1, "s1"}).ok());
    EXPECT_TRUE(recorder.wait_for_limit(30s));
    recorder.stop();
    EXPECT_EQ(states()[1], 1);
  }

  penstock::testing::FaultEnv env_;
};

INSTANTIATE_TEST_SUITE_P(OfFrames, EndOfASeries, ::testing::Values(0, 2, 3));

/// Its end comes while its frames are on their way to the storage, which has not failed so far.
TEST_P(EndOfASeries, WaitsForFramesThatAStorageDoesNotTake) {
  penstock::testing::FullDisk disk(false);
  Recorder recorder(disk.env(), config_, *events_, team_);
  ASSERT_TRUE(recorder.start().ok());
  const auto acks = std::make_shared<Acks>(), back = std::make_shared<Acks>();
  ASSERT_TRUE(recorder.begin(series(GetParam()), acks).ok());
  disk.fill();
  const auto put = [&](const std::shared_ptr<Acks>& session) {
    for (std::uint64_t n = 0; n < 2; ++n) {
      auto one = frame(n);
      one.session = session;
      ASSERT_TRUE(recorder.put(std::move(one)).ok());
    }
  };
  put(acks);
  ASSERT_TRUE(recorder.end({1, "s1"}).ok());
  for (int i = 0; i < 1000 && acks->asked == 0 && !acks->is_closed; ++i) std::this_thread::sleep_for(10ms);
  ASSERT_FALSE(acks->is_closed);
  disk.make_room();
  put(back);
  EXPECT_TRUE(recorder.wait_for_limit(60s));
  recorder.stop();
  auto expected = std::vector<std::uint8_t>{1, 1};
  if (GetParam() > 2) expected.push_back(0);
  EXPECT_EQ(states(), expected);
  EXPECT_EQ(back->safe, 2u);
}

TEST_P(EndOfASeries, DoesNotWaitForTheSyncInterval) {
  config_.store.durability = store::Durability::interval;
  config_.store.sync_interval = 100s;
  config_.idle_timeout_s = 100;
  expect_an_end_without_waiting();
}

TEST_P(EndOfASeries, OfARecorderThatStopsDoesNotWaitForTheSyncInterval) {
  config_.store.durability = store::Durability::interval;
  config_.store.sync_interval = 1h;
  Recorder recorder(env_, config_, *events_, team_);
  record_two_frames(recorder);
  recorder.stop();
  EXPECT_EQ(states()[1], 1);
}

TEST_P(EndOfASeries, DoesNotWaitForTheRestOfAChunk) {
  config_.chunk.frames = 8;
  config_.idle_timeout_s = 100;
  expect_an_end_without_waiting();
}

/// A detector that waits for its trigger sends nothing for a while: nobody knows whether the storage would fail again.
TEST_P(StorageThatTakesNothing, IsNotGivenUpForAFailureOfLongAgo) {
  penstock::testing::FullDisk disk(true, GetParam());
  config_.idle_timeout_s = 0.2;
  Recorder recorder(disk.env(), config_, *events_, team_);
  ASSERT_TRUE(recorder.start().ok());
  ASSERT_TRUE(recorder.begin(series(2), nullptr).ok());
  EXPECT_TRUE(recorder.put(frame(0)).ok());
  std::this_thread::sleep_for(600ms);
  disk.make_room();
  EXPECT_TRUE(recorder.put(frame(1)).ok());
  EXPECT_TRUE(recorder.end({1, "s1"}).ok());
  EXPECT_TRUE(recorder.wait_for_limit(60s));
  recorder.stop();
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{4, 1}));
}

TEST_F(RecorderTest, ASeriesEndsWhoseFileAFailingStorageNeverTakes) {
  penstock::testing::FullDisk disk(true, Errc::io);
  config_.idle_timeout_s = 0.5;
  Recorder recorder(disk.env(), config_, *events_, team_);
  ASSERT_TRUE(recorder.start().ok());
  ASSERT_TRUE(recorder.begin(series(6), nullptr).ok());
  bool has_ended = false;
  for (int i = 0; i < 1000 && !has_ended; ++i) {
    (void)recorder.put(frame(0));
    has_ended = recorder.wait_for_limit(50ms);
  }
  EXPECT_TRUE(has_ended);
  recorder.stop();
  EXPECT_EQ(event("series_end")["ended_by"], "failure");
  EXPECT_NE(event("series_end")["problem"].dump().find("io"), std::string::npos);
}

}  // namespace
}  // namespace penstock::recorder
