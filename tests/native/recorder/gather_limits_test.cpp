/// Chunks of several frames where memory, windows or the shape of the series set limits.

#include "gather_test.hpp"

namespace penstock::recorder::gathering {
namespace {

TEST_F(GatherTest, ARefusedSeriesEndsNoOther) {
  const auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(100), nullptr).ok());
  for (std::uint64_t n = 0; n < 10; ++n) ASSERT_TRUE(recorder->put(frame(n)).ok());
  auto other = series(10);
  other.unique_id = "t";
  other.frame.shape = {30000, 30000};
  EXPECT_FALSE(recorder->begin(other, nullptr).ok());
  EXPECT_FALSE(recorder->wait_for_limit(0s)) << "the recorder ends in the midst of s";
  recorder->stop();
}

TEST_F(GatherTest, AWindowOfTooFewFramesIsRefusedWithTheNumberNeeded) {
  const auto recorder = start();
  auto small = series(40);
  small.window_frames = 7;
  const auto begun = recorder->begin(small, nullptr);
  ASSERT_FALSE(begun.ok());
  EXPECT_NE(begun.error().message().find("at least 8"), std::string::npos) << begun.error().message();
  small.window_frames = 8;
  ASSERT_TRUE(recorder->begin(small, nullptr).ok());
  EXPECT_EQ(recorder->window_needed("s"), 8u);
  finish(*recorder);
}

TEST_F(GatherTest, APoolThatIsTooSmallIsNamedAndTheOneNamedSuffices) {
  config_.pool_bytes = 64 << 20;
  config_.chunk.frames = 32;
  auto large = series(64);
  large.frame.shape = {256, 256};
  auto recorder = start();
  const auto begun = recorder->begin(large, nullptr);
  ASSERT_FALSE(begun.ok());
  const auto message = begun.error().message();
  const std::string words = "pool_bytes of at least ";
  ASSERT_NE(message.find(words), std::string::npos) << message;
  config_.pool_bytes = std::stoull(message.substr(message.find(words) + words.size()));
  recorder->stop();
  recorder = start();
  EXPECT_TRUE(recorder->begin(large, nullptr).ok()) << config_.pool_bytes;
  finish(*recorder);
}

TEST_F(GatherTest, AScanOfTheStartMessageHasChunksOfOneFrame) {
  auto scanned = series(4);
  scanned.user_data_json = R"({"penstock": {"scan": {"axes": [{"name": "y", "points": 4}]}}})";
  const auto recorder = start();
  ASSERT_TRUE(recorder->begin(scanned, nullptr).ok());
  for (std::uint64_t n = 0; n < 4; ++n) ASSERT_TRUE(recorder->put(frame(n)).ok());
  finish(*recorder);
  config_.chunk.frames = 1;
  expect_pixels(4);
}

TEST_F(GatherTest, MoreFramesThanMemoryWaitAndNoneIsLost) {
  rows = columns = 120;
  config_.pool_bytes = 64 << 20;  // three buffers: two blocks may be open, and one be written
  config_.chunk.frames = 32;
  config_.threads = 4;
  config_.codec.encoding = Encoding::deflate;
  const auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(400), nullptr).ok());
  for (std::uint64_t n = 0; n < 400; ++n) ASSERT_TRUE(recorder->put(frame(n)).ok());
  finish(*recorder);
  EXPECT_EQ(states(), std::vector<std::uint8_t>(400, 1));
  expect_pixels(400);
}

TEST_F(GatherTest, ABlockOfWhichSomeChunksAreLostIsFormedAnew) {
  config_.chunk.shape = {5, 9};
  config_.end_timeout_s = 10;
  config_.store.segment_bytes = 8192;
  std::atomic<bool> shaky{false};
  std::atomic<int> asked{0};
  env_.faults->on_write = [&](std::uint64_t, std::uint64_t bytes) -> Result<void> {
    return shaky && bytes >= 4096 && ++asked % 2 == 0 ? Result<void>(make_error(Errc::no_space, "full"))
                                                      : Result<void>{};
  };
  const auto session = std::make_shared<Acks>();
  const auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(40), session).ok());
  shaky = true;
  for (std::uint64_t n = 0; n < 40; ++n) ASSERT_TRUE(recorder->put(frame(n, session)).ok());
  ASSERT_TRUE(soon([&] { return session->asked > 0; }));
  EXPECT_LT(session->safe, 40u);
  shaky = false;
  // Writes that were on their way meanwhile may still fail: then it is asked again.
  auto safe = session->safe.load();
  for (int round = 0; round < 5 && safe < 40; ++round) {
    const auto back = std::make_shared<Acks>();
    for (auto n = safe; n < 40; ++n) ASSERT_TRUE(recorder->put(frame(n, back)).ok()) << n;
    ASSERT_TRUE(soon([&] { return back->safe == 40 || back->asked > 0; }));
    safe = std::max(safe, back->safe.load());
  }
  finish(*recorder);
  EXPECT_EQ(safe, 40u);
  EXPECT_EQ(states(), std::vector<std::uint8_t>(40, 1));
  expect_pixels(40);
}

}  // namespace
}  // namespace penstock::recorder::gathering
