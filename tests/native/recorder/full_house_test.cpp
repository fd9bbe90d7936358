/// Starts that find no file free, and what comes behind them.

#include <array>
#include <filesystem>
#include <fstream>
#include <semaphore>
#include <thread>

#include "recorder_test.hpp"

namespace penstock::recorder {
namespace {

/// Of a client that hears that its start is refused.
struct Refused final : Acks {
  void refused(const std::string& series, const std::optional<ElementPlace>&, const std::string& why) override {
    refused_ = true;
    closed(series, why);
  }
  bool is_refused() const override { return refused_; }
  std::atomic<bool> refused_{false};
};

/// Whoever lets its frame in waits.
struct Slow final : Acks {
  bool is_refused() const override {
    is_asked.release();
    may_go_on.acquire();
    return false;
  }
  mutable std::binary_semaphore is_asked{0}, may_go_on{0};
};

/// As many series as there may be files; frames are small, so that they gather in chunks and memory is needed for each.
class FullHouse : public RecorderTest {
 protected:
  void SetUp() override {
    RecorderTest::SetUp();
    config_.chunk.frames = 2;
    config_.series_limit = 0;
    config_.idle_timeout_s = 3600;
    places_ = config_.open_files_max();
  }
  std::unique_ptr<Recorder> full_house(std::uint64_t frames = 2) {
    auto recorder = start();
    for (unsigned i = 0; i < places_; ++i)
      EXPECT_TRUE(recorder->begin(series(frames, "s" + std::to_string(i)), nullptr).ok());
    return recorder;
  }
  unsigned places_ = 0;
};

TEST_F(FullHouse, WhatFollowsAStartThatWaitsIsRecordedWhenAFileIsClosed) {
  auto recorder = full_house(3);  // or two frames would complete a series
  auto acks = std::make_shared<Acks>();
  ASSERT_TRUE(recorder->begin(series(3, "late"), acks).ok()) << "it waits";
  recorder->expect("late", acks);
  for (std::uint64_t number = 0; number < 2; ++number) {
    auto of_client = frame(number, "late");
    of_client.session = acks;
    ASSERT_TRUE(recorder->put(std::move(of_client)).ok());
  }
  recorder->damage("late", FrameNumber{2});
  ASSERT_TRUE(recorder->end({.id = 1, .unique_id = "late", .answered = true}).ok());
  EXPECT_EQ(recorder->channels("late"), std::vector<std::string>{"1"});
  for (std::uint64_t number = 0; number < 2; ++number) ASSERT_TRUE(recorder->put(frame(number, "s0")).ok()) << "others";
  EXPECT_EQ(recorder->snapshot().complete_series, 0u);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "late.h5"));
  EXPECT_EQ(acks->safe, 0u);
  ASSERT_TRUE(recorder->end({1, "s0"}).ok());
  for (int i = 0; i < 1200 && !acks->is_closed; ++i) std::this_thread::sleep_for(50ms);
  EXPECT_TRUE(acks->is_closed);
  EXPECT_EQ(acks->problem, "");
  EXPECT_EQ(acks->safe, 2u);
  recorder->stop();
  EXPECT_EQ(recorder->refused_series(), 0u);
  EXPECT_EQ(states("late.h5"), (std::vector<std::uint8_t>{1, 1, 2}));
  EXPECT_EQ(pixels("late.h5").at(rows * columns), 1000);
}

/// Its frames are no others' of its name, though it waits: a detector numbers its series anew after each start.
TEST_F(FullHouse, AnotherSeriesOfTheNameOfOneThatWaitsGoesIntoAFileOfItsOwn) {
  config_.sources.front().kind = SourceConfig::Kind::zmq;
  config_.sources.front().endpoint = "tcp://a:1";
  auto recorder = full_house();
  auto first = series(2, "late");
  first.source = first.endpoint = "tcp://a:1";
  auto second = first;
  ASSERT_TRUE(recorder->begin(std::move(first), nullptr).ok()) << "it waits";
  const auto generation = recorder->generation("late");
  EXPECT_NE(generation, 0u);
  auto of_first = frame(0, "late");
  of_first.generation = generation;
  ASSERT_TRUE(recorder->put(std::move(of_first)).ok());
  SeriesEnd before;
  before.unique_id = "late";
  before.source = "tcp://a:1";
  before.anew = before.by_start = true;
  before.generation = generation;
  std::thread closer([&] {
    std::this_thread::sleep_for(200ms);
    EXPECT_TRUE(recorder->end({1, "s0"}).ok());
  });
  const auto begun = recorder->begin_anew(std::move(second), before);
  closer.join();
  ASSERT_TRUE(begun.ok()) << begun.error().message();
  EXPECT_NE(recorder->generation("late"), generation);
  auto late = frame(1, "late");
  late.generation = generation;
  EXPECT_FALSE(recorder->put(std::move(late)).ok()) << "it is of the series before";
  auto of_second = frame(1, "late");
  of_second.generation = recorder->generation("late");
  ASSERT_TRUE(recorder->put(std::move(of_second)).ok());
  recorder->stop();
  EXPECT_EQ(states("late.h5"), (std::vector<std::uint8_t>{1, 0}));
  EXPECT_EQ(states("late-2.h5"), (std::vector<std::uint8_t>{0, 1}));
}

/// Masks of a large detector are larger than what may wait while its start was waiting.
TEST_F(FullHouse, AStartWithLargeTablesWaitsLikeAnyOther) {
  config_.pool_bytes = 16 << 20;
  config_.store.segment_bytes = 256 << 10;
  auto recorder = full_house();
  auto with_table = series(1, "late");
  const auto bytes = config_.waiting_bytes_max() + 1;
  with_table.user_data_cbor.resize(bytes);
  EXPECT_TRUE(recorder->begin(std::move(with_table), nullptr).ok());
  recorder->stop();
}

/// Four series that never end: their place is free once they have been silent for idle_timeout_s.
TEST_F(FullHouse, SeriesThatNeverEndKeepNoStartWaitingForEver) {
  config_.idle_timeout_s = 1;
  auto recorder = full_house();
  for (unsigned i = 0; i < 2 * places_; ++i) {
    const auto name = "later-" + std::to_string(i);
    ASSERT_TRUE(recorder->begin(series(1, name), nullptr).ok());
    ASSERT_TRUE(recorder->put(frame(0, name)).ok());
    ASSERT_TRUE(recorder->end({1, name}).ok());
  }
  for (int i = 0; i < 600 && recorder->snapshot().complete_series < 3 * places_; ++i) std::this_thread::sleep_for(50ms);
  EXPECT_EQ(event("series_refused"), json());
  recorder->stop();
  for (unsigned i = 0; i < 2 * places_; ++i)
    EXPECT_EQ(states("later-" + std::to_string(i) + ".h5"), std::vector<std::uint8_t>{1});
  EXPECT_EQ(recorder->snapshot().complete_series, 3 * places_);
}

/// A pusher that is one of many: the others must not wait for it.
TEST_F(FullHouse, FramesBehindAStartThatWaitsAreBoundedAndTheRestIsInTheLedger) {
  config_.pool_bytes = 16 << 20;
  config_.store.segment_bytes = 256 << 10;
  auto recorder = full_house();
  const auto bound = config_.waiting_bytes_max();
  const auto frames = 2 * bound / 1024;
  ASSERT_TRUE(recorder->begin(series(frames, "late"), nullptr).ok());
  std::uint64_t refused = 0;
  std::string why;
  for (std::uint64_t number = 0; number < frames; ++number)
    if (const auto put = recorder->put(frame(number, "late")); !put.ok()) {
      ++refused;
      why = put.error().message();
    }
  EXPECT_GT(refused, frames / 3);
  EXPECT_LT(refused, frames);
  EXPECT_NE(why.find("cannot wait until one of"), std::string::npos) << why;
  ASSERT_TRUE(recorder->end({1, "late"}).ok());
  recorder->stop();
  const auto all = states("late.h5");
  EXPECT_EQ(static_cast<std::uint64_t>(std::count(all.begin(), all.end(), 3)), refused);
  EXPECT_EQ(static_cast<std::uint64_t>(std::count(all.begin(), all.end(), 1)), frames - refused);
}

TEST_F(FullHouse, StartsBeyondTheLineAreRefusedAndCounted) {
  auto recorder = full_house();
  for (unsigned i = 0; i < 64; ++i)
    ASSERT_TRUE(recorder->begin(series(1, "line-" + std::to_string(i)), nullptr).ok()) << i;
  const auto refused = recorder->begin(series(1, "one too many"), nullptr);
  EXPECT_EQ(refused.error().code(), Errc::refused);
  EXPECT_NE(refused.error().message().find("no more starts may wait"), std::string::npos);
  EXPECT_EQ(recorder->refused_series(), 1u);
  recorder->stop();
  EXPECT_EQ(recorder->failed_series(), 0u) << "those that waited have a file";
  EXPECT_TRUE(std::filesystem::exists(folder_ / "line-63.h5"));
}

TEST_F(FullHouse, AStartThatWaitedInVainIsTold) {
  std::ofstream(folder_ / "late.h5") << "precious";
  auto recorder = full_house();
  auto acks = std::make_shared<Acks>();
  ASSERT_TRUE(recorder->begin(series(1, "late"), acks).ok());
  ASSERT_TRUE(recorder->put(frame(0, "late")).ok());
  for (const auto* name : {"s0", "s1"}) ASSERT_TRUE(recorder->end({1, name}).ok());
  for (int i = 0; i < 1200 && !acks->is_closed; ++i) std::this_thread::sleep_for(50ms);
  EXPECT_NE(acks->problem.find("late.h5"), std::string::npos) << acks->problem;
  EXPECT_TRUE(recorder->begin(series(1, "another"), nullptr).ok());
  ASSERT_TRUE(recorder->put(frame(0, "another")).ok());
  recorder->stop();
  EXPECT_EQ(states("another.h5"), std::vector<std::uint8_t>{1});
  EXPECT_EQ(std::filesystem::file_size(folder_ / "late.h5"), 8u);
}

TEST_F(FullHouse, ASeriesWhoseSenderDiedGivesItsPlaceToAnother) {
  config_.idle_timeout_s = 4;
  constexpr std::uint64_t frames = 6000;
  auto recorder = full_house(frames);
  ASSERT_TRUE(recorder->begin(series(1, "another"), nullptr).ok());
  std::uint64_t number = 0;
  for (; number < frames - 1 && recorder->snapshot().complete_series == 0; ++number) {
    for (unsigned i = 1; i < places_; ++i) ASSERT_TRUE(recorder->put(frame(number, "s" + std::to_string(i))).ok());
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(recorder->put(frame(0, "s0")).error().code(), Errc::out_of_order) << "the idle one is closed";
  EXPECT_TRUE(recorder->put(frame(number, "s1")).ok()) << "the others go on";
  recorder->stop();
  EXPECT_EQ(states("s0.h5"), std::vector<std::uint8_t>(frames, 0));
  std::vector<std::uint8_t> of_others(frames, 0);
  std::fill_n(of_others.begin(), number + 1, 1);
  EXPECT_EQ(states("s1.h5"), of_others);
}
/// Two elements of a detector, or two pushers, may begin one series at the same moment.
TEST_F(FullHouse, StartsOfOneSeriesThatComeTogetherWaitAsOne) {
  for (int round = 0; round < 20; ++round) {
    auto recorder = full_house(1);
    const auto name = "together-" + std::to_string(round);
    std::vector<std::thread> pushers;
    for (const auto* source : {"a", "b", "c"})
      pushers.emplace_back([&, source] {
        auto one = series(1, name);
        one.source = source;
        EXPECT_TRUE(recorder->begin(std::move(one), nullptr).ok());
      });
    for (unsigned i = 0; i < places_; ++i) EXPECT_TRUE(recorder->end({1, "s" + std::to_string(i)}).ok());
    for (auto& pusher : pushers) pusher.join();
    EXPECT_TRUE(recorder->put(frame(0, name)).ok());
    recorder->stop();
    EXPECT_EQ(states(name + ".h5"), std::vector<std::uint8_t>{1});
    for (unsigned i = 0; i < places_; ++i) std::filesystem::remove(folder_ / ("s" + std::to_string(i) + ".h5"));
  }
}

/// It was acknowledged when it came, so that its client waits for a word.
TEST_F(FullHouse, AnotherStartThatIsRefusedWhenTheSeriesOpensIsTold) {
  auto recorder = full_house();
  const auto first = std::make_shared<Acks>();
  const auto second = std::make_shared<Refused>();
  ASSERT_TRUE(recorder->begin(series(2, "late"), first).ok()) << "it waits";
  auto other = series(2, "late");
  other.frame.shape = {rows, columns * 2};
  ASSERT_TRUE(recorder->begin(std::move(other), second).ok()) << "it waits as well";
  ASSERT_TRUE(recorder->put(frame(0, "late")).ok());
  auto of_refused = frame(1, "late");
  of_refused.session = second;
  ASSERT_TRUE(recorder->put(std::move(of_refused)).ok()) << "it waits";
  ASSERT_TRUE(recorder->end({1, "s0"}).ok());
  for (int i = 0; i < 1200 && !second->is_closed; ++i) std::this_thread::sleep_for(50ms);
  EXPECT_TRUE(second->is_closed);
  EXPECT_NE(second->problem.find("shape"), std::string::npos) << second->problem;
  EXPECT_FALSE(first->is_closed) << "its series goes on";
  recorder->stop();
  EXPECT_EQ(states("late.h5"), (std::vector<std::uint8_t>{1, 0}));
}

/// Letting in what waited behind one start may take as long as the storage, or a client, does.
TEST_F(FullHouse, WhatWaitsBehindOneStartHoldsUpNoOther) {
  auto recorder = full_house();
  auto slow = std::make_shared<Slow>();
  ASSERT_TRUE(recorder->begin(series(1, "slow"), nullptr).ok());
  auto of_slow = frame(0, "slow");
  of_slow.session = slow;
  ASSERT_TRUE(recorder->put(std::move(of_slow)).ok());
  ASSERT_TRUE(recorder->begin(series(1, "next"), nullptr).ok());
  ASSERT_TRUE(recorder->put(frame(0, "next")).ok());
  ASSERT_TRUE(recorder->end({1, "next"}).ok());
  for (const auto* name : {"s0", "s1"}) ASSERT_TRUE(recorder->end({1, name}).ok());
  slow->is_asked.acquire();
  for (int i = 0; i < 1200 && recorder->snapshot().complete_series < 3; ++i) std::this_thread::sleep_for(50ms);
  EXPECT_EQ(recorder->snapshot().complete_series, 3u) << "those that made room, and the one behind it";
  slow->may_go_on.release();
  recorder->stop();
  for (const auto* name : {"slow.h5", "next.h5"}) EXPECT_EQ(states(name), std::vector<std::uint8_t>{1});
}

/// Its frames are worth more than its masks.
TEST_F(FullHouse, AStartWhoseTablesFindNoRoomWaitsWithoutThem) {
  config_.tables_bytes = 1 << 20;
  auto recorder = full_house();
  for (const auto* name : {"first", "second"}) {
    auto with_mask = series(1, name);
    NamedArray mask;
    mask.channel = "1";
    mask.data = std::vector<std::byte>(600 << 10);
    with_mask.pixel_mask.push_back(std::move(mask));
    ASSERT_TRUE(recorder->begin(std::move(with_mask), nullptr).ok()) << name;
    ASSERT_TRUE(recorder->put(frame(0, name)).ok());
  }
  EXPECT_NE(event("note")["message"].get<std::string>().find("tables_bytes"), std::string::npos);
  recorder->stop();
  EXPECT_EQ(recorder->refused_series(), 0u);
  EXPECT_EQ(states("second.h5"), std::vector<std::uint8_t>{1});
}

}  // namespace
}  // namespace penstock::recorder
