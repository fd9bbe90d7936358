/// A recorder makes a file where no lock shows it, and another program recovers every file that it finds.

#include <mutex>

#include "../check/check_fixture.hpp"
#include "../support/fault_env.hpp"
#include "check/members.hpp"
#include "recover/recover.hpp"
#include "store/recovery/own_superblock.hpp"
#include "store/recovery/replacement.hpp"

namespace penstock::recover {
namespace {

using namespace check::testing;
using penstock::testing::FaultEnv;

class BegunFile : public CheckTest {
 protected:
  void SetUp() override {
    CheckTest::SetUp();
    elsewhere_ = folder_.string() + "-seen";
    std::filesystem::create_directories(elsewhere_);
    env_.faults->locks = false;
  }
  void TearDown() override {
    std::filesystem::remove_all(elsewhere_);
    CheckTest::TearDown();
  }

  struct Seen {
    std::string name;
    std::vector<char> bytes;
    bool operator==(const Seen&) const = default;
  };

  static store::StoreOptions options(bool swmr = true, bool overwrite = false) {
    store::StoreOptions options;
    options.segment_bytes = 8 << 10;
    options.extent_bytes = 64 << 10;
    options.buffer_bytes = 1 << 20;
    options.swmr = swmr;
    options.overwrite = overwrite;
    return options;
  }

  static std::vector<char> bytes_at(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    return bytes_of(file);
  }
  static std::vector<char> bytes_of(std::ifstream& at_end) {
    std::vector<char> bytes(static_cast<std::size_t>(at_end.tellg()));
    at_end.seekg(0).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }

  /// What is in the folder before each change that the recorder makes.
  void see(penstock::testing::Call call) {
    using penstock::testing::Call;
    if (call == Call::read || call == Call::size) return;
    const std::lock_guard lock(mutex_);
    if (!sees_) return;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      std::ifstream file(entry.path(), std::ios::binary | std::ios::ate);
      if (!file) continue;  // another thread has renamed it
      Seen now{entry.path().filename(), bytes_of(file)};
      const auto before =
          std::find_if(seen_.rbegin(), seen_.rend(), [&](const auto& each) { return each.name == now.name; });
      if (before == seen_.rend() || *before != now) seen_.push_back(std::move(now));
    }
  }

  /// Its recorder is done with it.
  static bool is_closed(const std::string& file) {
    const auto superblock = store::read_own_superblock(*posix_env().open(file, {}).value()).value();
    return superblock && !superblock->open_for_writing;
  }

  /// Makes a file with these frames, in members of `frames_a_member` if that is not 0.
  void record(const store::StoreOptions& options, std::uint64_t frames_a_member,
              const std::vector<std::uint64_t>& frames = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) {
    env_.faults->on_call = [this](auto call) {
      see(call);
      return Result<void>{};
    };
    sees_ = true;
    const FileSpec spec{.frames = 12, .announced = 12, .encoding = Encoding::none};
    auto layout = layout_of(spec);
    if (frames_a_member > 0)
      layout.members = {.stem = "a_part_", .suffix = ".h5", .frames = frames_a_member, .overwrite = options.overwrite};
    StateListener listener(spec);
    auto store = store::Store::create(env_, path(), layout, options, &listener);
    ASSERT_TRUE(store.ok()) << store.error().message();
    auto writer = (*store)->make_writer();
    for (const auto frame : frames) {
      const auto pixels = simulated(frame);
      ASSERT_TRUE(writer->select_file(frame).ok());
      ASSERT_TRUE(writer->put({store::DatasetId{0}, frame, 0, 1, frame}, pixels, nullptr, pixels.size()).ok());
    }
    ASSERT_TRUE(writer->flush().ok());
    see(penstock::testing::Call::write);
    {
      const std::lock_guard lock(mutex_);
      sees_ = false;
    }
    writer.reset();
    ASSERT_TRUE((*store)->finish({}).ok());
  }

  static RecoverPlan plan(const std::string& file) {
    RecoverPlan plan;
    plan.file = file;
    plan.index_timeout_s = 20;
    return plan;
  }
  Result<RecoverReport> recover(const RecoverPlan& plan) {
    FaultEnv env;
    env.faults->locks = false;
    return run_recover(
        env, plan, [](auto, auto, const auto&) {}, [] { return false; });
  }

  void expect_untouched() {
    EXPECT_GT(seen_.size(), 10U);
    for (const auto& each : seen_) {
      const auto copy = elsewhere_ / each.name;
      write_bytes(copy, each.bytes);
      if (is_closed(copy)) continue;
      const auto report = recover(plan(copy));
      const auto what = report.ok() ? std::string("recovered") : report.error().message();
      ASSERT_TRUE(bytes_at(copy) == each.bytes) << each.name << " was changed: " << what;
    }
    seen_.clear();
  }

  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  FaultEnv env_;
  std::filesystem::path elsewhere_;
  std::mutex mutex_;
  bool sees_ = false;
  std::vector<Seen> seen_;
};

TEST_F(BegunFile, IsNotTouchedAtAnyMomentOfItsCreation) {
  for (const bool swmr : {true, false}) {
    std::filesystem::remove(path());
    record(options(swmr), 0);
    expect_untouched();
    if (HasFailure()) return;
  }
  EXPECT_EQ(files(), 1U);
}

TEST_F(BegunFile, IsNotTouchedWhileItReplacesAnother) {
  record(options(), 0);
  seen_.clear();
  record(options(true, true), 0);
  expect_untouched();
  EXPECT_EQ(files(), 1U);
}

TEST_F(BegunFile, OfASplitSeriesIsNotTouchedEither) {
  record(options(), 5);
  expect_untouched();
  EXPECT_EQ(files(), 4U);
}

/// A recorder was killed: its file has no name yet, or a source file of its series has none.
TEST_F(BegunFile, ThatWasLeftIsNamedAndRemoved) {
  record(options(), 5, {0, 1, 2, 10, 11});
  const auto find = [&](const std::string& name) {
    const auto found = std::find_if(seen_.begin(), seen_.end(), [&](const auto& each) { return each.name == name; });
    EXPECT_NE(found, seen_.end()) << name;
    return found;
  };
  const auto left = find(".a_part_2.h5.new");
  // As it was first: the states of its frames are behind the other files.
  write_bytes(path(), find("a.h5")->bytes);
  write_bytes(path(".a_part_1.h5.new"), left->bytes);
  const auto before = check(path());
  EXPECT_TRUE(has(before, check::half_made_member)) << text(before);
  EXPECT_FALSE(has(before, check::member_is_gone)) << text(before);

  auto how = plan(path());
  EXPECT_EQ(recover(how).error().code(), Errc::locked);
  EXPECT_TRUE(std::filesystem::exists(path(".a_part_1.h5.new"))) << "another recorder may make it";
  how.not_in_use = true;
  ASSERT_TRUE(recover(how).ok());
  EXPECT_FALSE(std::filesystem::exists(path(".a_part_1.h5.new")));
  EXPECT_EQ(files(), 3U);

  write_bytes(path(".b.h5.new"), left->bytes);
  const auto report = recover(plan(path("b.h5")));
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::not_found);
  EXPECT_TRUE(std::filesystem::exists(path(".b.h5.new"))) << "another recorder may make it";
  how.file = path("b.h5");
  const auto removed = recover(how);
  ASSERT_FALSE(removed.ok());
  EXPECT_NE(removed.error().message().find(".b.h5.new, is removed"), std::string::npos) << removed.error().message();
  EXPECT_FALSE(std::filesystem::exists(path(".b.h5.new")));
}

TEST_F(BegunFile, ThatWasLeftIsNotInTheWayOfTheNextRecorder) {
  record(options(), 0);
  const auto left = std::find_if(seen_.begin(), seen_.end(), [](const Seen& each) { return each.bytes.size() > 8192; });
  ASSERT_NE(left, seen_.end());
  ASSERT_EQ(left->name, ".a.h5.new");
  std::filesystem::remove(path());
  write_bytes(path(".a.h5.new"), left->bytes);
  record(options(), 0);
  EXPECT_EQ(files(), 1U);

  std::filesystem::remove(path());
  write_bytes(path(".a.h5.new"), std::vector<char>(100, 'x'));
  const FileSpec spec;
  const auto refused = store::Store::create(env_, path(), layout_of(spec), options(), nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::already_exists) << "a user made it";
  EXPECT_EQ(std::filesystem::file_size(path(".a.h5.new")), 100U);
}

/// A user's file that comes while another is made stays.
TEST_F(BegunFile, TakesNoNameThatIsTakenMeanwhile) {
  for (const bool overwrite : {false, true}) {
    env_.faults->on_call = [&](auto call) -> Result<void> {
      if (call == penstock::testing::Call::rename) write_bytes(path(), std::vector<char>(5, 'x'));
      return {};
    };
    const FileSpec spec;
    const auto refused = store::Store::create(env_, path(), layout_of(spec), options(true, overwrite), nullptr);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), Errc::already_exists) << refused.error().message();
    EXPECT_EQ(std::filesystem::file_size(path()), 5U);
    EXPECT_EQ(files(), 1U);
    std::filesystem::remove(path());
  }
}

}  // namespace
}  // namespace penstock::recover
