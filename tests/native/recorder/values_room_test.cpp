/// Memory for the values that frames bring along.
#include <algorithm>
#include <thread>

#include "recorder_test.hpp"
#include "store/hdf5/column_memory.hpp"

namespace penstock::recorder {
namespace {

constexpr std::size_t values = 1000;
constexpr std::uint64_t frames = 48;

class ValuesRoomTest : public RecorderTest {
 protected:
  static Frame frame_with_texts(std::uint64_t number) {
    auto with_texts = frame(number);
    for (std::size_t i = 0; i < values; ++i)
      with_texts.metadata.emplace_back("value" + std::to_string(i), std::string(1000, static_cast<char>('a' + i % 26)));
    return with_texts;
  }
};

TEST_F(ValuesRoomTest, MoreTextThanThereIsMemoryForHoldsTheSourceAndIsAllRecorded) {
  ASSERT_GT(frames * memory_bytes(frame_with_texts(0).metadata), config_.values_bytes());
  std::vector<Frame> all;  // made before the first is put, so that they come faster than they are written
  for (std::uint64_t number = 0; number < frames; ++number) all.push_back(frame_with_texts(number));
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(frames), nullptr).ok());
  for (auto& each : all) ASSERT_TRUE(recorder->put(std::move(each)).ok());
  const auto used_bytes_max = recorder->snapshot().values_used_bytes_max;
  EXPECT_GT(used_bytes_max, config_.values_bytes() / 2);
  EXPECT_LE(used_bytes_max, config_.values_bytes());
  finish(*recorder);
  EXPECT_EQ(event("series_end")["frames_received"], frames);
  const auto last = read<std::int64_t>("s1.h5", "/entry/penstock/timing/written", H5T_NATIVE_INT64);
  ASSERT_EQ(last.size(), frames);
  for (const auto time : last) EXPECT_GT(time, 0);
}

TEST_F(ValuesRoomTest, WithoutRoomForItsValuesAFrameIsDroppedAndCountedWhereThePolicyIsThat) {
  config_.when_full = WhenFull::drop;
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(frames), nullptr).ok());
  std::uint64_t refused = 0;
  for (std::uint64_t number = 0; number < frames; ++number) {
    const auto taken = recorder->put(frame_with_texts(number));
    if (taken.ok()) continue;
    ++refused;
    EXPECT_NE(taken.error().message().find("metadata values of frames use"), std::string::npos)
        << taken.error().message();
  }
  EXPECT_LE(recorder->snapshot().values_used_bytes_max, config_.values_bytes());
  finish(*recorder);
  const auto end = event("series_end");
  EXPECT_EQ(end["frames_received"].get<std::uint64_t>() + refused, frames);
  EXPECT_EQ(end["dropped"], refused);
}

/// A chunk holds the values of its frames until the last one is here, which must not wait for their memory.
TEST_F(ValuesRoomTest, AChunkWhoseValuesNeedAllMemoryGetsItsLastFrames) {
  config_.chunk.frames = 32;
  const std::uint64_t large = 2 * config_.values_bytes() / 32 / 1000;  // texts of a frame: a chunk needs 2/3 more
  config_.series_limit = 1;
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(64), nullptr).ok());
  for (std::uint64_t number = 0; number < 64; ++number) {
    auto with_texts = frame(number);
    for (std::size_t i = 0; i < large * 5 / 6; ++i)
      with_texts.metadata.emplace_back("value" + std::to_string(i), std::string(1000, 'x'));
    ASSERT_TRUE(recorder->put(std::move(with_texts)).ok()) << number;
  }
  finish(*recorder);
  EXPECT_EQ(event("series_end")["frames_received"], 64);
}

/// One of its frames never comes, and all memory is with those that did.
TEST_F(ValuesRoomTest, AChunkThatLacksAFrameDoesNotKeepTheMemoryForEver) {
  config_.chunk.frames = 32;
  config_.end_timeout_s = 0.5;
  for (const auto policy : {WhenFull::hold, WhenFull::drop}) {
    config_.when_full = policy;
    auto recorder = start();
    const auto name = policy == WhenFull::hold ? "hold" : "drop";
    ASSERT_TRUE(recorder->begin(series(frames + 1, name), nullptr).ok());
    std::uint64_t refused = 0;
    for (std::uint64_t number = 1; number < frames; ++number) {  // 0 is lost
      auto with_texts = frame_with_texts(number);
      with_texts.series_unique_id = name;
      auto& texts = with_texts.metadata;
      for (std::size_t i = 0; i < values; ++i) texts.emplace_back("more" + std::to_string(i), std::string(1000, 'x'));
      if (policy == WhenFull::drop) std::this_thread::sleep_for(20ms);
      refused += recorder->put(std::move(with_texts)).ok() ? 0 : 1;
    }
    // Sooner or later there is room again.
    auto last = frame_with_texts(frames);
    last.series_unique_id = name;
    bool taken = recorder->put(last).ok();
    for (int i = 0; i < 400 && !taken; ++i) {
      std::this_thread::sleep_for(50ms);
      taken = recorder->put(last).ok();
    }
    EXPECT_TRUE(recorder->end({1, name}).ok());
    EXPECT_TRUE(recorder->wait_for_limit(60s));
    recorder->stop();
    const auto all = states(std::string(name) + ".h5");
    EXPECT_EQ(all.at(frames), 1) << name;
    EXPECT_EQ(static_cast<std::uint64_t>(std::count(all.begin(), all.end(), 1)), frames - refused);
    if (policy == WhenFull::hold) {
      EXPECT_EQ(refused, 0u);
    }
  }
}

/// However many series are open, no value is left out.
TEST_F(ValuesRoomTest, EachOfManyOpenFilesHasAllColumns) {
  constexpr std::size_t series_count = 6;
  config_.series_limit = series_count;
  auto recorder = start();
  for (std::size_t i = 0; i < series_count; ++i) {
    const auto name = "s" + std::to_string(i);
    ASSERT_TRUE(recorder->begin(series(2, name), nullptr).ok());
    auto with_values = frame(0, name);
    for (std::size_t value = 0; value < values; ++value)
      with_values.metadata.emplace_back("value" + std::to_string(value), static_cast<double>(value));
    ASSERT_TRUE(recorder->put(std::move(with_values)).ok());
  }
  EXPECT_LE(store::hdf5::ColumnMemory::used_bytes(), store::hdf5::ColumnMemory::bytes_max);
  for (std::size_t i = 0; i < series_count; ++i) EXPECT_TRUE(recorder->end({1, "s" + std::to_string(i)}).ok());
  EXPECT_TRUE(recorder->wait_for_limit(60s));
  recorder->stop();
  EXPECT_TRUE(event("note").is_null());
  for (std::size_t i = 0; i < series_count; ++i)
    EXPECT_EQ(read<double>("s" + std::to_string(i) + ".h5", "/entry/metadata/value999", H5T_NATIVE_DOUBLE).at(0),
              999.0);
}

TEST(MemoryBytes, CountNamesTextsAndArraysThatLieOutsideOfTheirList) {
  Metadata metadata;
  EXPECT_EQ(memory_bytes(metadata), 0u);
  metadata.reserve(1);
  metadata.emplace_back("n", std::int64_t{1});
  const auto number = memory_bytes(metadata);
  EXPECT_EQ(number, sizeof(metadata[0]));
  metadata[0].second = std::string(1000, 'x');
  EXPECT_GE(memory_bytes(metadata), number + 1000);
  metadata[0].second = MetaArray{{ElementType::u8, {500}}, std::vector<std::byte>(500)};
  EXPECT_GE(memory_bytes(metadata), number + 500);
  metadata[0].first = std::string(200, 'y');
  EXPECT_GE(memory_bytes(metadata), number + 700);
}

}  // namespace
}  // namespace penstock::recorder
