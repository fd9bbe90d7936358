/// Between the start of a series and its first frame, which shows what the file is to be made for: a recorder that is
/// killed at any change of its files leaves one that can be recovered.

#include <sys/stat.h>

#include <cstdlib>

#include "../support/dying_env.hpp"
#include "../support/full_disk.hpp"
#include "recorder_test.hpp"
#include "recover/recover.hpp"
#include "store/recovery/replacement.hpp"

namespace penstock::recorder {
namespace {

using testing::DyingEnv;

class ReplacedFile : public RecorderTest {
 protected:
  void SetUp() override {
    RecorderTest::SetUp();
    config_.store.extent_bytes = config_.store.segment_bytes = 64 << 10;
  }

  std::string path() const { return (folder_ / "s1.h5").string(); }
  std::string beside() const { return store::replacement_path(path()); }

  /// A frame that brings a value along, for which the file has no column yet.
  static Frame frame_with_value(std::uint64_t number) {
    auto with_value = frame(number);
    with_value.metadata.emplace_back("motor", static_cast<std::int64_t>(number));
    return with_value;
  }

  void expect_recoverable() const {
    ASSERT_TRUE(std::filesystem::exists(path())) << path() << " does not exist";
    recover::RecoverPlan plan;
    plan.file = path();
    plan.index_timeout_s = 20;
    const auto report = recover::run_recover(
        posix_env(), plan, [](auto, auto, const auto&) {}, [] { return false; });
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_FALSE(std::filesystem::exists(beside())) << "a recovery removes what was left beside the file";
  }
};

TEST_F(ReplacedFile, IsThereAtEveryMomentBeforeItsFirstFrame) {
  const bool is_torture = std::getenv("PENSTOCK_TORTURE_ROUNDS") != nullptr;
  for (const auto durability : {store::Durability::none, store::Durability::segment}) {
    if (durability == store::Durability::none && !is_torture) continue;
    config_.store.durability = durability;
    bool died = true;
    // Of each of the first changes, while the old file makes way; then of a few of those that recur.
    const std::uint64_t step = is_torture ? 1 : 151;
    for (std::uint64_t kill = 1; died; kill += kill < 8 ? 1 : step) {
      SCOPED_TRACE(fmt::format("killed at change {} after the start", kill));
      ASSERT_LT(kill, 1000u);
      std::filesystem::remove_all(folder_);
      std::filesystem::create_directories(folder_);
      DyingEnv env;
      {
        Recorder recorder(env, config_, *events_, team_);
        ASSERT_TRUE(recorder.start().ok());
        ASSERT_TRUE(recorder.begin(series(4), nullptr).ok());
        env.die_at(env.changes() + kill, 4);
        (void)recorder.put(frame_with_value(0));
        died = env.died();
        recorder.stop();
      }
      expect_recoverable();
      if (HasFailure()) return;
    }
  }
}

/// The file is not removed to make room for another one: what it had reserved is room enough, or the series waits.
TEST_F(ReplacedFile, StaysWhileTheStorageHasNoRoomForAnotherOne) {
  config_.store.extent_bytes = 16 << 20;
  penstock::testing::FullDisk disk(false);
  Recorder recorder(disk.env(), config_, *events_, team_);
  ASSERT_TRUE(recorder.start().ok());
  ASSERT_TRUE(recorder.begin(series(4), nullptr).ok());
  disk.fill();
  EXPECT_TRUE(recorder.put(frame_with_value(0)).ok());
  EXPECT_TRUE(std::filesystem::exists(path()));
  EXPECT_FALSE(std::filesystem::exists(beside()));
  struct stat left {};
  ASSERT_EQ(::stat(path().c_str(), &left), 0);
  EXPECT_LT(left.st_blocks * 512, 4 << 20) << "it keeps what it reserved for frames that it will not get";
  recorder.stop();
  disk.make_room();
  expect_recoverable();
}

}  // namespace
}  // namespace penstock::recorder
