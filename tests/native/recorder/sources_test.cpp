/// Sources that hear no answer: several of them deal a series, one starts anew, and files of one name.

#include <gtest/gtest.h>
#include <hdf5.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "../support/fault_env.hpp"
#include "recorder_fixture.hpp"

namespace penstock::recorder {
namespace {

using namespace std::chrono_literals;

class Sources : public RecorderFixture {
 protected:
  void SetUp() override {
    RecorderFixture::SetUp();
    config_ = small_config();
    config_.idle_timeout_s = 20;
    config_.sources.clear();
    for (const auto* endpoint : {"tcp://a:1", "tcp://b:1"}) {
      auto& source = config_.sources.emplace_back();
      source.kind = SourceConfig::Kind::zmq;
      source.endpoint = endpoint;
    }
  }

  std::unique_ptr<Recorder> start() {
    auto recorder = std::make_unique<Recorder>(posix_env(), config_, *events_, team_);
    EXPECT_TRUE(recorder->start().ok());
    return recorder;
  }

  static Series series(const std::string& source, std::uint64_t frames = 0, const std::string& unique_id = "s1") {
    Series series;
    series.id = 1;
    series.unique_id = unique_id;
    series.frames = frames;
    series.channels = {"1"};
    series.frame = {ElementType::u16, {4, 8}};
    series.source = source;
    return series;
  }
  static Frame frame(std::uint64_t number, const std::string& unique_id = "s1", std::uint64_t generation = 0) {
    auto pixels = std::make_shared<std::vector<std::uint16_t>>(32, static_cast<std::uint16_t>(number + 1));
    Frame frame;
    frame.series_unique_id = unique_id;
    frame.generation = generation;
    frame.number = FrameNumber{number};
    frame.spec = {ElementType::u16, {4, 8}};
    frame.payload = std::as_bytes(std::span(*pixels));
    frame.owner = pixels;
    return frame;
  }
  static SeriesEnd end(const std::string& source, const std::string& unique_id = "s1") {
    SeriesEnd end{1, unique_id};
    end.source = source;
    return end;
  }
  /// What a source that begins another series says of the one before.
  static SeriesEnd last_word(const std::string& source, std::uint64_t generation, bool by_start) {
    auto before = end(source);
    before.by_start = by_start;
    before.anew = true;
    before.generation = generation;
    return before;
  }
  std::vector<std::uint16_t> pixels(const std::string& file) const {
    const hid_t id = H5Fopen((folder_ / file).c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t dataset = H5Dopen2(id, "/entry/data/data", H5P_DEFAULT), space = H5Dget_space(dataset);
    std::vector<std::uint16_t> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    EXPECT_GE(H5Dread(dataset, H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    H5Sclose(space);
    H5Dclose(dataset);
    H5Fclose(id);
    return values;
  }

  std::string ended_by(const std::string& file) const {
    const hid_t id = H5Fopen((folder_ / file).c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t dataset = H5Dopen2(id, "/entry/penstock/ended_by", H5P_DEFAULT), type = H5Dget_type(dataset);
    char* words = nullptr;
    EXPECT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, static_cast<void*>(&words)), 0);
    std::string text = words == nullptr ? "" : words;
    H5free_memory(words);
    H5Tclose(type);
    H5Dclose(dataset);
    H5Fclose(id);
    return text;
  }

  Config config_;
};

TEST_F(Sources, TheLastEndIsTheEnd) {
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series("tcp://a:1"), nullptr).ok());
  ASSERT_TRUE(recorder->begin(series("tcp://b:1"), nullptr).ok());
  EXPECT_EQ(recorder->begin(series("tcp://a:1"), nullptr).error().code(), Errc::out_of_order);
  std::thread other([&] {
    for (std::uint64_t number = 1; number < 40; number += 2) EXPECT_TRUE(recorder->put(frame(number)).ok());
    std::this_thread::sleep_for(600ms);  // longer than end_timeout_s
    EXPECT_TRUE(recorder->put(frame(41)).ok());
    EXPECT_TRUE(recorder->end(end("tcp://b:1")).ok());
  });
  for (std::uint64_t number = 0; number < 42; number += 2) EXPECT_TRUE(recorder->put(frame(number)).ok());
  EXPECT_TRUE(recorder->end(end("tcp://a:1")).ok());
  other.join();
  EXPECT_TRUE(recorder->wait_for_limit(60s)) << "both have ended, and nobody is waited for";
  EXPECT_TRUE(recorder->end(end("tcp://b:1")).ok()) << "an end that comes after the close is no error";
  recorder->stop();
  const auto read = pixels("s1.h5");
  ASSERT_EQ(read.size(), 42u * 32);
  for (std::size_t number = 0; number < 42; ++number) EXPECT_EQ(read[number * 32], number + 1);
}

TEST_F(Sources, OneThatIsLateWhenAllFramesAreThereMakesNoFile) {
  config_.series_limit = 0;
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series("tcp://a:1", 1), nullptr).ok());
  ASSERT_TRUE(recorder->put(frame(0)).ok());
  ASSERT_TRUE(recorder->end(end("tcp://a:1")).ok());
  for (int i = 0; i < 1200 && recorder->snapshot().complete_series == 0; ++i) std::this_thread::sleep_for(50ms);
  const auto late = recorder->begin(series("tcp://b:1", 1), nullptr);
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().message().find("is closed already, with all of its frames"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s1-2.h5"));
  auto anew = series("tcp://b:1", 1);
  anew.arm_date = "2026-11-20T10:00:00Z";
  EXPECT_TRUE(recorder->begin(std::move(anew), nullptr).ok()) << "another one of that name, which was armed anew";
  EXPECT_TRUE(recorder->put(frame(0)).ok());
  recorder->stop();
  EXPECT_EQ(pixels("s1-2.h5")[0], 1u);
}

TEST_F(Sources, AnotherSeriesOfASourceIsTheEndOfTheOneBefore) {
  config_.series_limit = 2;
  config_.file_name = "run{series_id}.h5";
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series("tcp://a:1", 3, "before"), nullptr).ok());
  ASSERT_TRUE(recorder->put(frame(0, "before")).ok());
  ASSERT_TRUE(recorder->begin(series("tcp://a:1", 3, "after"), nullptr).ok());
  for (std::uint64_t number = 0; number < 3; ++number) ASSERT_TRUE(recorder->put(frame(number, "after")).ok());
  ASSERT_TRUE(recorder->end(end("tcp://a:1", "after")).ok());
  EXPECT_TRUE(recorder->wait_for_limit(60s));
  recorder->stop();
  EXPECT_EQ(ended_by("run1.h5"), "new_start");
  EXPECT_EQ(ended_by("run1-2.h5"), "message");
  EXPECT_EQ(pixels("run1.h5")[0], 1u);
  EXPECT_EQ(pixels("run1.h5")[32], 0xFFFF) << "missing";
  EXPECT_EQ(pixels("run1-2.h5")[64], 3u);
}

/// Its source has no more of the one before, whatever becomes of the new one.
TEST_F(Sources, AStartWhoseFileCannotBeMadeEndsTheSeriesBeforeAllTheSame) {
  std::filesystem::create_directory(folder_ / "after.h5");
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series("tcp://a:1", 3, "before"), nullptr).ok());
  ASSERT_TRUE(recorder->put(frame(0, "before")).ok());
  auto after = series("tcp://a:1", 3, "after");
  after.resumed = true;  // nothing is replaced, and there is no other name for it
  EXPECT_FALSE(recorder->begin(std::move(after), nullptr).ok());
  for (int i = 0; i < 200 && recorder->snapshot().complete_series == 0; ++i) std::this_thread::sleep_for(50ms);
  EXPECT_EQ(recorder->snapshot().complete_series, 1u) << "it would be open until the stop";
  recorder->stop();
  EXPECT_EQ(ended_by("before.h5"), "new_start");
}

/// Somebody looks at the file of yesterday, which is to be replaced: a detector over ZeroMQ cannot be told.
TEST_F(Sources, AFileInUseIsNotReplacedAndCostsNoSeries) {
  config_.store.overwrite = true;
  {
    auto recorder = start();
    ASSERT_TRUE(recorder->begin(series("tcp://a:1", 1), nullptr).ok());
    ASSERT_TRUE(recorder->put(frame(0)).ok());
    EXPECT_TRUE(recorder->wait_for_limit(60s));
    recorder->stop();
  }
  const auto viewer = posix_env().open((folder_ / "s1.h5").string(), {.mode = OpenOptions::Mode::read}).value();
  ASSERT_TRUE(viewer->lock(false).ok());
  std::ofstream(folder_ / "s1-2.h5") << "of another series";
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series("tcp://a:1", 2), nullptr).ok());
  for (std::uint64_t number = 0; number < 2; ++number) ASSERT_TRUE(recorder->put(frame(number)).ok());
  EXPECT_TRUE(recorder->wait_for_limit(60s));
  recorder->stop();
  EXPECT_EQ(pixels("s1.h5").size(), 32u) << "the viewer's";
  EXPECT_EQ(std::filesystem::file_size(folder_ / "s1-2.h5"), 17u) << "nobody said that this one may be overwritten";
  EXPECT_EQ(pixels("s1-3.h5")[32], 2u);
}

/// Nothing but one endpoint is listened to, so that nothing of the one before can come any more.
TEST_F(Sources, AnotherSeriesOfTheSameNameGetsAFileAtOnce) {
  config_.sources.pop_back();
  config_.series_limit = 3;
  config_.end_timeout_s = 600;
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series("tcp://a:1", 3), nullptr).ok());
  ASSERT_TRUE(recorder->put(frame(0)).ok());
  ASSERT_TRUE(recorder->begin_anew(series("tcp://a:1", 3), last_word("tcp://a:1", 1, true)).ok());
  EXPECT_EQ(recorder->generation("s1"), 2u);
  for (std::uint64_t number = 0; number < 3; ++number) ASSERT_TRUE(recorder->put(frame(number)).ok());
  ASSERT_TRUE(recorder->end(end("tcp://a:1")).ok());
  // The same again, behind the end of a series that is whole.
  ASSERT_TRUE(recorder->begin_anew(series("tcp://a:1", 3), last_word("tcp://a:1", 2, false)).ok());
  for (std::uint64_t number = 0; number < 3; ++number) ASSERT_TRUE(recorder->put(frame(number)).ok());
  ASSERT_TRUE(recorder->end(end("tcp://a:1")).ok());
  EXPECT_TRUE(recorder->wait_for_limit(60s)) << "nothing is waited for";
  recorder->stop();
  EXPECT_EQ(recorder->refused_series(), 0u);
  EXPECT_EQ(ended_by("s1.h5"), "new_start");
  EXPECT_EQ(ended_by("s1-2.h5"), "message");
  EXPECT_EQ(pixels("s1.h5")[32], 0xFFFF) << "missing";
  for (const auto* file : {"s1-2.h5", "s1-3.h5"}) EXPECT_EQ(pixels(file)[64], 3u);
}

TEST_F(Sources, OverwritingDoesNotTakeTheFileOfTheOneBefore) {
  config_.sources.pop_back();
  config_.series_limit = 2;
  config_.store.overwrite = true;
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series("tcp://a:1", 1), nullptr).ok());
  ASSERT_TRUE(recorder->put(frame(0)).ok());
  ASSERT_TRUE(recorder->begin_anew(series("tcp://a:1", 1), last_word("tcp://a:1", 1, true)).ok());
  ASSERT_TRUE(recorder->put(frame(0)).ok());
  ASSERT_TRUE(recorder->end(end("tcp://a:1")).ok());
  EXPECT_TRUE(recorder->wait_for_limit(60s));
  recorder->stop();
  for (const auto* file : {"s1.h5", "s1-2.h5"}) EXPECT_EQ(pixels(file)[0], 1u);
}

TEST_F(Sources, AFileWithAnotherNameIsLoggedWithItsReason) {
  config_.sources.pop_back();
  config_.series_limit = 1;
  config_.store.overwrite = true;
  std::filesystem::create_symlink("elsewhere.h5", config_.folder + "/s1.h5");
  const auto log = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(100);
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", log));
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series("tcp://a:1", 1), nullptr).ok());
  ASSERT_TRUE(recorder->put(frame(0)).ok());
  ASSERT_TRUE(recorder->end(end("tcp://a:1")).ok());
  EXPECT_TRUE(recorder->wait_for_limit(60s));
  recorder->stop();
  spdlog::set_default_logger(before);
  std::string text;
  for (const auto& line : log->last_formatted()) text += line;
  EXPECT_NE(text.find("s1-2.h5: "), std::string::npos) << text;
  EXPECT_NE(text.find("s1.h5 is a symbolic link, which Penstock does not follow"), std::string::npos) << text;
  EXPECT_EQ(pixels("s1-2.h5")[0], 1u);
}

TEST_F(Sources, WhenAllPushersStartAnewNoFrameGoesAstray) {
  config_.series_limit = 2;
  auto recorder = start();
  for (const auto* source : {"tcp://a:1", "tcp://b:1"}) ASSERT_TRUE(recorder->begin(series(source, 4), nullptr).ok());
  ASSERT_TRUE(recorder->put(frame(0)).ok());
  std::thread first([&] {
    EXPECT_TRUE(recorder->begin_anew(series("tcp://a:1", 4), last_word("tcp://a:1", 1, true)).ok());
    for (const std::uint64_t number : {0, 2}) EXPECT_TRUE(recorder->put(frame(number, "s1", 2)).ok());
  });
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(recorder->generation("s1"), 1u) << "the other one has more of it";
  ASSERT_TRUE(recorder->put(frame(1, "s1", 1)).ok());
  ASSERT_TRUE(recorder->begin_anew(series("tcp://b:1", 4), last_word("tcp://b:1", 1, true)).ok());
  first.join();
  EXPECT_EQ(recorder->generation("s1"), 2u);
  const auto late = recorder->put(frame(3, "s1", 1));
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().message().find("another one of that name is open"), std::string::npos);
  auto of_before = end("tcp://b:1");
  of_before.generation = 1;
  ASSERT_TRUE(recorder->end(of_before).ok());
  ASSERT_TRUE(recorder->end(end("tcp://a:1")).ok());
  std::this_thread::sleep_for(500ms);  // longer than end_timeout_s
  for (const std::uint64_t number : {1, 3}) ASSERT_TRUE(recorder->put(frame(number, "s1", 2)).ok());
  ASSERT_TRUE(recorder->end(end("tcp://b:1")).ok());
  EXPECT_TRUE(recorder->wait_for_limit(60s));
  recorder->stop();
  const auto before = pixels("s1.h5"), after = pixels("s1-2.h5");
  EXPECT_EQ((std::vector{before[0], before[32], before[64], before[96]}),
            (std::vector<std::uint16_t>{1, 2, 0xFFFF, 0xFFFF}));
  EXPECT_EQ((std::vector{after[0], after[32], after[64], after[96]}), (std::vector<std::uint16_t>{1, 2, 3, 4}));
}

TEST_F(Sources, ASeriesWhoseNameIsTakenForTooLongIsRefused) {
  config_.series_limit = 0;
  config_.idle_timeout_s = 5;
  auto recorder = start();
  for (const auto* source : {"tcp://a:1", "tcp://b:1"}) ASSERT_TRUE(recorder->begin(series(source), nullptr).ok());
  std::atomic<bool> goes_on{true};
  std::thread other([&] {
    for (std::uint64_t number = 0; goes_on; ++number) {
      EXPECT_TRUE(recorder->put(frame(number)).ok());
      std::this_thread::sleep_for(50ms);
    }
  });
  const auto refused = recorder->begin_anew(series("tcp://a:1"), last_word("tcp://a:1", 1, true));
  goes_on = false;
  other.join();
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("still receives frames from other senders"), std::string::npos);
  EXPECT_EQ(recorder->refused_series(), 1u);
  recorder->stop();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s1-2.h5"));
}

TEST_F(Sources, NobodyWaitsForANameWhenTheRecorderStops) {
  config_.series_limit = 0;
  auto recorder = start();
  for (const auto* source : {"tcp://a:1", "tcp://b:1"}) ASSERT_TRUE(recorder->begin(series(source), nullptr).ok());
  std::thread stops([&] {
    std::this_thread::sleep_for(200ms);
    recorder->stop_waiting();
  });
  const auto begun = recorder->begin_anew(series("tcp://a:1"), last_word("tcp://a:1", 1, true));
  EXPECT_EQ(begun.error().code(), Errc::cancelled) << "and not refused, as after idle_timeout_s";
  EXPECT_EQ(recorder->refused_series(), 0u);
  stops.join();
  recorder->stop();
}

TEST_F(Sources, AStartThatHearsNoAnswerWaitsForAFileThatIsBeingClosed) {
  config_.series_limit = 2;
  penstock::testing::FaultEnv slow;
  std::atomic<bool> is_slow{false}, closing{false};
  slow.faults->on_call = [&](penstock::testing::Call call) -> Result<void> {
    if (!is_slow || call != penstock::testing::Call::truncate) return {};
    closing = true;
    std::this_thread::sleep_for(500ms);
    return {};
  };
  Recorder recorder(slow, config_, *events_, team_);
  ASSERT_TRUE(recorder.start().ok());
  ASSERT_TRUE(recorder.begin(series("tcp://a:1", 1), nullptr).ok());
  ASSERT_TRUE(recorder.put(frame(0)).ok());
  is_slow = true;
  ASSERT_TRUE(recorder.end(end("tcp://a:1")).ok());
  for (int i = 0; i < 6000 && !closing; ++i) std::this_thread::sleep_for(10ms);
  is_slow = false;
  auto other = series("tcp://b:1", 1);
  other.arm_date = "2026-11-20T10:00:00Z";
  const auto begun = recorder.begin(std::move(other), nullptr);
  ASSERT_TRUE(begun.ok()) << begun.error().message();
  ASSERT_TRUE(recorder.put(frame(0)).ok());
  ASSERT_TRUE(recorder.end(end("tcp://b:1")).ok());
  EXPECT_TRUE(recorder.wait_for_limit(60s));
  recorder.stop();
  EXPECT_EQ(pixels("s1-2.h5")[0], 1u);
}

/// One endpoint is a single ordered connection: nothing can follow the end, however many frames were announced.
TEST_F(Sources, EndOnTheOnlyEndpointClosesAnIncompleteSeriesAtOnce) {
  constexpr int count = 100;
  config_.sources.pop_back();
  config_.series_limit = count;
  config_.end_timeout_s = config_.idle_timeout_s = 3600;
  auto recorder = start();
  for (int i = 0; i < count; ++i) {
    const auto name = fmt::format("run-{}", i);
    const auto begun = recorder->begin(series("tcp://a:1", 1000, name), nullptr);
    ASSERT_TRUE(begun.ok()) << begun.error().message();
    for (std::uint64_t number = 0; number < 2; ++number) ASSERT_TRUE(recorder->put(frame(number, name)).ok());
    ASSERT_TRUE(recorder->end(end("tcp://a:1", name)).ok());
  }
  EXPECT_TRUE(recorder->wait_for_limit(120s));
  recorder->stop();
  EXPECT_EQ(recorder->refused_series(), 0u);
  EXPECT_EQ(recorder->snapshot().complete_series, static_cast<std::uint64_t>(count));
  for (const auto* name : {"run-0.h5", "run-99.h5"}) EXPECT_EQ(pixels(name)[32], 2u);
}

/// Of two endpoints the other one may be late with its start, so each series waits for it. Nothing is refused for that.
TEST_F(Sources, SeriesThatWaitForAnotherEndpointKeepNobodyOut) {
  constexpr int count = 80;  // more than there may be files
  config_.series_limit = count;
  config_.end_timeout_s = 0.5;
  auto recorder = start();
  for (int i = 0; i < count; ++i) {
    const auto name = fmt::format("run-{}", i);
    const auto begun = recorder->begin(series("tcp://a:1", 1000, name), nullptr);
    ASSERT_TRUE(begun.ok()) << begun.error().message();
    for (std::uint64_t number = 0; number < 2; ++number) {
      const auto put = recorder->put(frame(number, name));
      ASSERT_TRUE(put.ok()) << put.error().message();
    }
    ASSERT_TRUE(recorder->end(end("tcp://a:1", name)).ok());
  }
  EXPECT_TRUE(recorder->wait_for_limit(120s));
  recorder->stop();
  EXPECT_EQ(recorder->refused_series(), 0u);
  for (int i = 0; i < count; ++i) EXPECT_EQ(pixels(fmt::format("run-{}.h5", i))[32], 2u) << i;
}

TEST_F(Sources, StartsThatAreRefusedAreCountedUntilTheyAreTaken) {
  config_.series_limit = 0;
  std::filesystem::create_directory(folder_ / "taken.h5");
  auto recorder = start();
  auto again = series("", 1, "taken");
  again.resumed = true;
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(recorder->begin(again, nullptr).ok());
    EXPECT_EQ(recorder->refused_series(), 1u);
    EXPECT_EQ(recorder->snapshot().refused_series, 1u);
  }
  std::filesystem::remove(folder_ / "taken.h5");
  EXPECT_TRUE(recorder->begin(series("tcp://b:1", 1, "taken"), nullptr).ok());
  EXPECT_EQ(recorder->refused_series(), 0u);
  EXPECT_EQ(recorder->snapshot().refused_series, 1u) << "what was counted stays counted";
  recorder->stop();
}

TEST_F(Sources, WhereTheyDisagreeFieldAndValuesAreTold) {
  config_.series_limit = 0;
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series("tcp://a:1", 3), nullptr).ok());
  const auto refusal = [&](auto change) {
    auto other = series("tcp://b:1", 3);
    change(other);
    return recorder->begin(std::move(other), nullptr).error().message();
  };
  EXPECT_EQ(refusal([](Series& s) { s.id = 8; }), "series_id is 8; series \"s1\" started with 1");
  EXPECT_EQ(refusal([](Series& s) {
              s.frame.shape = {5, 8};
            }),
            "the images' shape is [5, 8]; series \"s1\" started with [4, 8]");
  EXPECT_EQ(refusal([](Series& s) { s.frame.type = ElementType::u32; }),
            "image_dtype is uint32; series \"s1\" started with uint16");
  EXPECT_EQ(refusal([](Series& s) { s.frames = 4; }), "number_of_images is 4; series \"s1\" started with 3");
  EXPECT_EQ(refusal([](Series& s) { s.channels = {"2"}; }), "channels is [2]; series \"s1\" started with [1]");
  recorder->stop();
}

TEST_F(Sources, ElementsOfEveryOrderAreMadeRightByTheWorkers) {
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series("tcp://a:1", 2), nullptr).ok());
  auto swapped = frame(0);
  swapped.form.big_endian = true;  // 1 becomes 256
  swapped.metadata = {{"m", MetaArray{{ElementType::u16, {2}},
                                      {std::byte{0}, std::byte{1}, std::byte{0}, std::byte{2}},
                                      Encoding::none,
                                      {.big_endian = true}}}};
  ASSERT_TRUE(recorder->put(std::move(swapped)).ok());
  ASSERT_TRUE(recorder->put(frame(1)).ok());
  ASSERT_TRUE(recorder->end(end("tcp://a:1")).ok());
  EXPECT_TRUE(recorder->wait_for_limit(60s));
  recorder->stop();
  const auto read = pixels("s1.h5");
  EXPECT_EQ(read[0], 256u);
  EXPECT_EQ(read[32], 2u);
}

}  // namespace
}  // namespace penstock::recorder
