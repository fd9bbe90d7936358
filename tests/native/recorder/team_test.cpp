/// Several recorders as ranks of one team, in one process: frames go into their sinks, the file is read with
/// plain HDF5.

#include "recorder/team/team.hpp"

#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "../support/fault_env.hpp"
#include "../support/last_event.hpp"
#include "../support/thread_job.hpp"
#include "base/time/clock.hpp"
#include "recorder/service/recorder.hpp"

namespace penstock::recorder {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::uint64_t rows = 16, columns = 32;

/// One rank with all that a process has.
struct Rank {
  Rank(penstock::testing::ThreadWorld& world, unsigned number, const Config& config)
      : job(world.rank(number)),
        team(*job),
        out(std::tmpfile()),
        events(team.events(out)),
        recorder(env, config, events, team) {}
  ~Rank() { std::fclose(out); }

  std::unique_ptr<job::Job> job;
  Team team;
  std::FILE* out;
  Events events;
  penstock::testing::FaultEnv env;
  Recorder recorder;
};

class Session final : public AckListener {
 public:
  void safe_below(const std::string&, FrameNumber below) override { safe = value(below); }
  void closed(const std::string&, const std::string& why) override {
    std::lock_guard lock(mutex);
    is_closed = true;
    problem = why;
  }
  std::atomic<std::uint64_t> safe{0};
  std::mutex mutex;
  bool is_closed = false;
  std::string problem;
};

class TeamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("penstock-team-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    config_.folder = folder_;
    config_.codec.encoding = Encoding::bitshuffle_lz4;
    config_.pool_bytes = 128 << 20;
    config_.end_timeout_s = 0.3;
    config_.idle_timeout_s = 5;
    config_.threads = 1;
    config_.store.segment_bytes = 64 << 10;
    config_.store.extent_bytes = 1 << 20;
    config_.store.flush_interval = 50ms;
    config_.sources.push_back({});
  }
  void TearDown() override {
    EXPECT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL), 0) << "HDF5 objects stay open";
    std::filesystem::remove_all(folder_);
  }

  void start(
      unsigned ranks, const std::function<void()>& prepare = [] {}) {
    world_ = std::make_unique<penstock::testing::ThreadWorld>(ranks);
    for (unsigned i = 0; i < ranks; ++i)
      ranks_.push_back(std::make_unique<Rank>(*world_, i, config_.for_rank(i, ranks).value()));
    prepare();
    for (auto& rank : ranks_) ASSERT_TRUE(rank->recorder.start().ok());
  }

  /// As the programs end: each rank on its own, all of them together.
  void stop() {
    std::vector<std::thread> threads;
    for (auto& rank : ranks_)
      threads.emplace_back([&rank] {
        rank->recorder.stop();
        rank->team.stop();
      });
    for (auto& thread : threads) thread.join();
  }

  void begin_anew() {
    ranks_.clear();
    for (const auto& file : std::filesystem::directory_iterator(folder_)) std::filesystem::remove(file.path());
  }

  static Series series(std::uint64_t frames, std::vector<std::string> channels = {"1"}) {
    Series series;
    series.id = 1;
    series.unique_id = "s1";
    series.frames = frames;
    series.channels = std::move(channels);
    series.frame = {ElementType::u16, {rows, columns}};
    return series;
  }

  static Frame frame(std::uint64_t number, std::shared_ptr<AckListener> session = {}, std::uint32_t channel = 0) {
    auto pixels = std::make_shared<std::vector<std::uint16_t>>(rows * columns);
    for (std::size_t i = 0; i < pixels->size(); ++i) (*pixels)[i] = static_cast<std::uint16_t>(number);
    Frame frame;
    frame.series_unique_id = "s1";
    frame.number = FrameNumber{number};
    frame.channel = channel;
    frame.spec = {ElementType::u16, {rows, columns}};
    frame.payload = std::as_bytes(std::span(*pixels));
    frame.owner = pixels;
    frame.received_ns = realtime_ns();
    frame.session = std::move(session);
    return frame;
  }

  json event(const std::string& name) const { return last_event(ranks_[0]->out, name); }

  bool closes_by_itself() const {
    for (int i = 0; i < 1200; ++i) {
      if (!event("series_end").is_null()) return true;
      std::this_thread::sleep_for(50ms);
    }
    return false;
  }

  std::vector<std::uint8_t> states() const {
    const auto file = H5Fopen((folder_ / "s1.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    EXPECT_GE(file, 0);
    const auto dataset = H5Dopen2(file, "/entry/penstock/frame_state", H5P_DEFAULT);
    const auto space = H5Dget_space(dataset);
    std::vector<std::uint8_t> found(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    H5Dread(dataset, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, found.data());
    H5Sclose(space);
    H5Dclose(dataset);
    H5Fclose(file);
    return found;
  }

  /// As many series as there may be files, so that the next start waits.
  void fill_house() {
    for (unsigned i = 0; i < config_.open_files_max(); ++i) {
      auto one = series(1);
      one.unique_id = "full-" + std::to_string(i);
      ASSERT_TRUE(ranks_[0]->recorder.begin(std::move(one), nullptr).ok());
    }
  }
  void make_room() { ASSERT_TRUE(ranks_[0]->recorder.end({1, "full-0"}).ok()); }

  std::filesystem::path folder_;
  Config config_;
  std::unique_ptr<penstock::testing::ThreadWorld> world_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST_F(TeamTest, FramesOfThreeRanksAreInOneFileAndTheirSendersAreTold) {
  config_.end_timeout_s = 60;  // on a busy machine a rank begins after the others have ended
  start(3);
  constexpr std::uint64_t frames = 300;
  std::vector<std::shared_ptr<Session>> sessions;
  std::vector<std::thread> senders;
  for (unsigned i = 0; i < 3; ++i) sessions.push_back(std::make_shared<Session>());
  for (unsigned i = 0; i < 3; ++i)
    senders.emplace_back([&, i] {
      auto& sink = ranks_[i]->recorder;
      ASSERT_TRUE(sink.begin(series(frames), sessions[i]).ok());
      for (std::uint64_t number = i; number < frames; number += 3)
        ASSERT_TRUE(sink.put(frame(number, sessions[i])).ok());
      ASSERT_TRUE(sink.end({1, "s1"}).ok());
    });
  for (auto& sender : senders) sender.join();
  stop();
  EXPECT_EQ(states(), std::vector<std::uint8_t>(frames, 1));
  for (const auto& session : sessions) {
    EXPECT_TRUE(session->is_closed);
    EXPECT_EQ(session->problem, "");
    EXPECT_GE(session->safe, frames - 2);
  }
  const auto end = event("series_end");
  EXPECT_EQ(end["frames_received"], frames);
  EXPECT_EQ(end["frames_written"], frames);
  EXPECT_EQ(end["duplicate"], 0);
  EXPECT_TRUE(end["problem"].is_null());
}

/// As where each rank has a client with a mount of its own: what the others call the file is of no use to a rank.
TEST_F(TeamTest, EachRankWritesThroughItsOwnFolder) {
  config_.files.folders = {folder_, folder_ / ".", folder_ / "./."};
  for (const auto layout : {Files::one, Files::per_writer}) {
    config_.files.layout = layout;
    start(3);
    std::mutex mutex;
    std::map<unsigned, std::set<std::string>> folders;
    for (unsigned i = 0; i < 3; ++i)
      ranks_[i]->env.on_open = [&, i](const std::string& path) {
        std::lock_guard lock(mutex);
        folders[i].insert(path.substr(0, path.rfind('/')));
      };
    std::vector<std::shared_ptr<Session>> sessions;
    for (auto& rank : ranks_) {
      sessions.push_back(std::make_shared<Session>());
      ASSERT_TRUE(rank->recorder.begin(series(30), sessions.back()).ok());
    }
    for (std::uint64_t number = 0; number < 30; ++number)
      ASSERT_TRUE(ranks_[number % 3]->recorder.put(frame(number, sessions[number % 3])).ok());
    for (auto& rank : ranks_) ASSERT_TRUE(rank->recorder.end({1, "s1"}).ok());
    stop();
    EXPECT_EQ(states(), std::vector<std::uint8_t>(30, 1));
    for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(folders[i], std::set<std::string>{config_.files.folders[i]}) << i;
    begin_anew();
  }
}

/// As with a network file system that shows another machine's file late.
TEST_F(TeamTest, ARankThatDoesNotSeeTheFileAtOnceTakesItsFramesAllTheSame) {
  world_ = std::make_unique<penstock::testing::ThreadWorld>(2);
  for (unsigned i = 0; i < 2; ++i) ranks_.push_back(std::make_unique<Rank>(*world_, i, config_));
  std::atomic<int> opened{0};
  ranks_[1]->env.faults->on_call = [&](penstock::testing::Call call) -> Result<void> {
    if (call != penstock::testing::Call::open || ++opened > 8) return {};
    return errno_error(opened % 2 == 0 ? ENOENT : ESTALE, "open");
  };
  for (auto& rank : ranks_) ASSERT_TRUE(rank->recorder.start().ok());
  const auto session = std::make_shared<Session>();
  ASSERT_TRUE(ranks_[1]->recorder.begin(series(20), session).ok());
  for (std::uint64_t number = 0; number < 20; ++number)
    EXPECT_TRUE(ranks_[1]->recorder.put(frame(number, session)).ok()) << number;
  ASSERT_TRUE(ranks_[1]->recorder.end({1, "s1"}).ok());
  stop();
  EXPECT_GT(opened, 8);
  EXPECT_EQ(states(), std::vector<std::uint8_t>(20, 1));
  EXPECT_EQ(session->problem, "");
}

/// A client that lost its connection sends again what was not acknowledged, to a rank that has handed over its part.
TEST_F(TeamTest, AFrameThatComesAgainWhileTheCoordinatorClosesTheFileIsNoError) {
  std::promise<void> asked, answer;
  std::atomic<bool> is_asked{true};
  const auto on_call = [&, waits = answer.get_future().share()](penstock::testing::Call call) {
    if (call != penstock::testing::Call::truncate || is_asked.exchange(true)) return Result<void>{};
    asked.set_value();
    waits.wait();
    return Result<void>{};
  };
  start(2, [&] { ranks_[0]->env.faults->on_call = on_call; });
  const auto session = std::make_shared<Session>();
  for (auto& rank : ranks_) ASSERT_TRUE(rank->recorder.begin(series(2), session).ok());
  for (unsigned i = 0; i < 2; ++i) ASSERT_TRUE(ranks_[i]->recorder.put(frame(i, session)).ok());
  while (session->safe == 0) std::this_thread::sleep_for(1ms);
  is_asked = false;
  for (auto& rank : ranks_) ASSERT_TRUE(rank->recorder.end({1, "s1"}).ok());
  EXPECT_EQ(asked.get_future().wait_for(60s), std::future_status::ready);
  for (int i = 0; i < 10; ++i, std::this_thread::sleep_for(10ms)) {
    const auto put = ranks_[1]->recorder.put(frame(1, session));
    EXPECT_TRUE(put.ok()) << put.error().message();
  }
  answer.set_value();
  stop();
  EXPECT_EQ(states(), std::vector<std::uint8_t>(2, 1));
  EXPECT_TRUE(session->is_closed);
  EXPECT_EQ(session->problem, "");
}

/// A rank that waits for a lease must not keep the lead's thread waiting, which has to give it.
TEST_F(TeamTest, ManyLeasesAndManyRecordsDoNotWaitForEachOther) {
  config_.codec.encoding = Encoding::none;
  config_.store.segment_bytes = 64 << 10;
  config_.store.extent_bytes = 64 << 10;
  config_.end_timeout_s = 60;  // on a busy machine a rank begins after the other has ended
  start(2);
  constexpr std::uint64_t frames = 6000;
  std::vector<std::thread> senders;
  for (unsigned i = 0; i < 2; ++i)
    senders.emplace_back([&, i] {
      auto session = std::make_shared<Session>();
      ASSERT_TRUE(ranks_[i]->recorder.begin(series(frames), session).ok());
      for (std::uint64_t number = i; number < frames; number += 2)
        ASSERT_TRUE(ranks_[i]->recorder.put(frame(number, session)).ok());
      ASSERT_TRUE(ranks_[i]->recorder.end({1, "s1"}).ok());
    });
  for (auto& sender : senders) sender.join();
  stop();
  EXPECT_EQ(states(), std::vector<std::uint8_t>(frames, 1));
}

TEST_F(TeamTest, WhatTwoRanksReceivedCountsOnce) {
  config_.end_timeout_s = 60;  // it is whole once the first rank has all frames, and is to wait for the other one
  start(2);
  constexpr std::uint64_t frames = 200;
  for (auto& rank : ranks_) ASSERT_TRUE(rank->recorder.begin(series(frames), std::make_shared<Session>()).ok());
  std::vector<std::thread> senders;
  for (auto& rank : ranks_)
    senders.emplace_back([&rank] {
      for (std::uint64_t number = 0; number < frames; ++number) ASSERT_TRUE(rank->recorder.put(frame(number)).ok());
    });
  for (auto& sender : senders) sender.join();
  for (auto& rank : ranks_) ASSERT_TRUE(rank->recorder.end({1, "s1"}).ok());
  stop();
  EXPECT_EQ(states(), std::vector<std::uint8_t>(frames, 1));
  const auto end = event("series_end");
  EXPECT_EQ(end["frames_received"], frames);
  EXPECT_EQ(end["duplicate"], frames);
  EXPECT_TRUE(end["problem"].is_null()) << end["problem"];
}

TEST_F(TeamTest, AFrameWhoseChannelsWentToDifferentRanksIsWhole) {
  start(2);
  const auto both = series(4, {"low", "high"});
  for (auto& rank : ranks_) ASSERT_TRUE(rank->recorder.begin(both, std::make_shared<Session>()).ok());
  for (std::uint64_t number = 0; number < 4; ++number) {
    ASSERT_TRUE(ranks_[number % 2]->recorder.put(frame(number, {}, 0)).ok());
    if (number != 2) {
      ASSERT_TRUE(ranks_[(number + 1) % 2]->recorder.put(frame(number, {}, 1)).ok());
    }
  }
  for (auto& rank : ranks_) ASSERT_TRUE(rank->recorder.end({1, "s1"}).ok());
  stop();
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{1, 1, 5, 1}));
  EXPECT_EQ(event("series_end")["frames_received"], 3);
}

TEST_F(TeamTest, FramesWhoseStartWentElsewhereFindTheirSeries) {
  start(3);
  std::thread early([&] { EXPECT_TRUE(ranks_[0]->recorder.put(frame(0)).ok()); });
  std::thread also_early([&] { EXPECT_TRUE(ranks_[2]->recorder.put(frame(2)).ok()); });
  std::this_thread::sleep_for(50ms);
  ASSERT_TRUE(ranks_[1]->recorder.begin(series(3), nullptr).ok());
  ASSERT_TRUE(ranks_[1]->recorder.put(frame(1)).ok());
  early.join();
  also_early.join();
  ASSERT_TRUE(ranks_[1]->recorder.end({1, "s1"}).ok());
  stop();
  EXPECT_EQ(states(), std::vector<std::uint8_t>(3, 1));
}

TEST_F(TeamTest, FramesOfOtherRanksWaitForASeriesWhoseStartWaitsForAPlace) {
  for (const unsigned begins : {0u, 1u}) {
    SCOPED_TRACE(begins);
    start(3);
    fill_house();
    ASSERT_TRUE(ranks_[begins]->recorder.begin(series(4), nullptr).ok()) << "it waits";
    for (const unsigned rank : {0u, 1u, 2u}) {
      ASSERT_TRUE(ranks_[rank]->recorder.put(frame(rank)).ok()) << "no source is held up";
      EXPECT_EQ(ranks_[rank]->recorder.channels("s1"), std::vector<std::string>{"1"});
    }
    ranks_[2]->recorder.damage("s1", FrameNumber{3});
    EXPECT_FALSE(std::filesystem::exists(folder_ / "s1.h5"));
    make_room();
    for (int i = 0; i < 1200 && !std::filesystem::exists(folder_ / "s1.h5"); ++i) std::this_thread::sleep_for(50ms);
    ASSERT_TRUE(ranks_[begins]->recorder.end({1, "s1"}).ok());
    stop();
    EXPECT_EQ(states(), (std::vector<std::uint8_t>{1, 1, 1, 2}));
    begin_anew();
  }
}

TEST_F(TeamTest, FramesOfOtherRanksAreRecordedWhereTheStartStillWaitsWhenTheRecorderStops) {
  for (const unsigned begins : {0u, 1u}) {
    SCOPED_TRACE(begins);
    start(3);
    fill_house();
    ASSERT_TRUE(ranks_[begins]->recorder.begin(series(3), nullptr).ok()) << "it waits";
    for (const unsigned rank : {0u, 1u, 2u}) ASSERT_TRUE(ranks_[rank]->recorder.put(frame(rank)).ok());
    stop();
    EXPECT_EQ(states(), std::vector<std::uint8_t>(3, 1));
    EXPECT_EQ(ranks_[begins]->recorder.failed_series(), 0u);
    begin_anew();
  }
}

TEST_F(TeamTest, AStartThatWaitsOnAnotherRankEndsAnIdleSeries) {
  config_.idle_timeout_s = 1;
  start(2);
  fill_house();
  const auto session = std::make_shared<Session>();
  ASSERT_TRUE(ranks_[1]->recorder.begin(series(1), session).ok()) << "it waits";
  ASSERT_TRUE(ranks_[1]->recorder.put(frame(0, session)).ok());
  for (int i = 0; i < 1200 && session->safe == 0; ++i) std::this_thread::sleep_for(50ms);
  EXPECT_EQ(session->safe, 1u);
  stop();
  EXPECT_EQ(states(), std::vector<std::uint8_t>{1});
}

/// Nobody is left to wait for: what came to other ranks has no file, and the recorder still stops.
TEST_F(TeamTest, WhatWaitsForAStartThatIsRefusedIsRefused) {
  start(2);
  fill_house();
  std::filesystem::create_directory(folder_ / "s1.h5");
  const auto session = std::make_shared<Session>();
  auto again = series(2);
  again.resumed = true;
  ASSERT_TRUE(ranks_[1]->recorder.begin(again, session).ok()) << "it waits";
  for (const unsigned rank : {0u, 1u}) ASSERT_TRUE(ranks_[rank]->recorder.put(frame(rank)).ok());
  make_room();
  for (int i = 0; i < 1200; ++i) {
    if (std::lock_guard lock(session->mutex); session->is_closed && !event("series_refused").is_null()) break;
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_TRUE(session->is_closed);
  EXPECT_FALSE(event("series_refused").is_null());
  EXPECT_EQ(ranks_[0]->recorder.refused_series(), 1u);
  stop();
}

TEST_F(TeamTest, WhatARankDroppedOrCouldNotUnderstandIsInTheLedger) {
  start(2);
  for (auto& rank : ranks_) ASSERT_TRUE(rank->recorder.begin(series(5), std::make_shared<Session>()).ok());
  ASSERT_TRUE(ranks_[0]->recorder.put(frame(0)).ok());
  ASSERT_TRUE(ranks_[1]->recorder.put(frame(1)).ok());
  ranks_[1]->recorder.drop("s1", FrameNumber{2});
  ranks_[1]->recorder.damage("s1", FrameNumber{3});
  for (auto& rank : ranks_) ASSERT_TRUE(rank->recorder.end({1, "s1"}).ok());
  stop();
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{1, 1, 3, 2, 0}));
  const auto end = event("series_end");
  EXPECT_EQ(end["dropped"], 1);
  EXPECT_EQ(end["damaged"], 1);
  EXPECT_EQ(end["missing"], 3);
}

TEST_F(TeamTest, MetadataOfEveryRankGoesIntoTheSameColumns) {
  start(2);
  for (auto& rank : ranks_) ASSERT_TRUE(rank->recorder.begin(series(40), std::make_shared<Session>()).ok());
  for (std::uint64_t number = 0; number < 40; ++number) {
    auto one = frame(number);
    one.metadata = {{"omega", 0.5 * static_cast<double>(number)}};
    ASSERT_TRUE(ranks_[number % 2]->recorder.put(std::move(one)).ok());
  }
  for (auto& rank : ranks_) ASSERT_TRUE(rank->recorder.end({1, "s1"}).ok());
  stop();
  const auto file = H5Fopen((folder_ / "s1.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const auto dataset = H5Dopen2(file, "/entry/metadata/omega", H5P_DEFAULT);
  ASSERT_GE(dataset, 0);
  std::vector<double> omega(40);
  H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, omega.data());
  H5Dclose(dataset);
  H5Fclose(file);
  for (std::size_t i = 0; i < omega.size(); ++i) EXPECT_EQ(omega[i], 0.5 * static_cast<double>(i));
}

TEST_F(TeamTest, ASecondSeriesOfTheSameNameIsRefusedWhicheverRankItComesTo) {
  start(2);
  ASSERT_TRUE(ranks_[1]->recorder.begin(series(5), nullptr).ok());
  EXPECT_EQ(ranks_[0]->recorder.begin(series(6), std::make_shared<Session>()).error().code(), Errc::out_of_order);
  EXPECT_EQ(ranks_[0]->recorder.begin(series(5), nullptr).error().code(), Errc::out_of_order);
  EXPECT_EQ(ranks_[1]->recorder.begin(series(5), nullptr).error().code(), Errc::out_of_order);
  stop();
}

TEST_F(TeamTest, AnEndThatOvertookItsStartIsNotForgotten) {
  config_.end_timeout_s = 30;  // frames are put after the end
  start(3);
  for (const unsigned rank : {0u, 2u}) ASSERT_TRUE(ranks_[rank]->recorder.end({1, "s1"}).ok());
  std::this_thread::sleep_for(50ms);
  ASSERT_TRUE(ranks_[1]->recorder.begin(series(2), nullptr).ok());
  ASSERT_TRUE(ranks_[1]->recorder.put(frame(0)).ok());
  ASSERT_TRUE(ranks_[0]->recorder.put(frame(1)).ok());
  EXPECT_TRUE(closes_by_itself());
  stop();
  EXPECT_EQ(states(), std::vector<std::uint8_t>(2, 1));
}

TEST_F(TeamTest, ALateEndOfAClosedSeriesDoesNotEndTheNextOfItsName) {
  config_.store.overwrite = true;
  start(2);
  ASSERT_TRUE(ranks_[1]->recorder.begin(series(1), nullptr).ok());
  ASSERT_TRUE(ranks_[1]->recorder.put(frame(0)).ok());
  ASSERT_TRUE(ranks_[1]->recorder.end({1, "s1"}).ok());
  ASSERT_TRUE(closes_by_itself());
  ASSERT_TRUE(ranks_[1]->recorder.end({1, "s1"}).ok());
  std::this_thread::sleep_for(50ms);
  ASSERT_TRUE(ranks_[1]->recorder.begin(series(3), nullptr).ok());
  std::this_thread::sleep_for(1s);
  for (std::uint64_t number = 0; number < 3; ++number)
    ASSERT_TRUE(ranks_[number % 2]->recorder.put(frame(number)).ok());
  stop();
  EXPECT_EQ(states(), std::vector<std::uint8_t>(3, 1));
}

TEST_F(TeamTest, ARankWhoseFirstFrameComesLateInAnOpenEndedSeriesTakesIt) {
  start(2);
  ASSERT_TRUE(ranks_[0]->recorder.begin(series(0), nullptr).ok());
  ASSERT_TRUE(ranks_[0]->recorder.put(frame(999'999)).ok());
  ASSERT_TRUE(ranks_[1]->recorder.put(frame(1'500'000)).ok());
  EXPECT_FALSE(ranks_[1]->recorder.put(frame(900'000'000)).ok());
  stop();
  EXPECT_EQ(event("series_end")["frames_received"], 2);
}

TEST_F(TeamTest, WhatARankWithoutAFrameDroppedIsInTheLedgerToo) {
  start(2);
  ASSERT_TRUE(ranks_[0]->recorder.begin(series(2), nullptr).ok());
  ASSERT_TRUE(ranks_[0]->recorder.put(frame(0)).ok());
  ranks_[1]->recorder.drop("s1", FrameNumber{1});
  stop();
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{1, 3}));
}

TEST_F(TeamTest, AnImageThatNobodyStartedIsRefusedInBoundedTime) {
  config_.when_full = WhenFull::drop;  // which has the shorter patience
  start(2);
  const auto started = std::chrono::steady_clock::now();
  for (auto& rank : ranks_) {
    EXPECT_EQ(rank->recorder.put(frame(0)).error().code(), Errc::out_of_order);
    EXPECT_EQ(rank->recorder.put(frame(1)).error().code(), Errc::out_of_order) << "the second at once";
  }
  EXPECT_LT(std::chrono::steady_clock::now() - started, 60s);
  stop();
}

}  // namespace
}  // namespace penstock::recorder
