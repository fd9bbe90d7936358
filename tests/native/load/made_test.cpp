// What a run reports to have created is all that may be removed.

#include "load/made/made.hpp"

#include <algorithm>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "../support/fault_env.hpp"
#include "load_fixture.hpp"
#include "load_hdf5/hdf5_backend.hpp"
#include "load_hdf5/store_backend.hpp"

namespace penstock::load {
namespace {

namespace fs = std::filesystem;
using Name = Made::Name;

std::set<std::uint64_t> numbers_in(const Json& ranges) {
  std::set<std::uint64_t> numbers;
  for (const auto& range : ranges)
    for (auto number = range[0].get<std::uint64_t>(); number <= range[1].get<std::uint64_t>(); ++number)
      EXPECT_TRUE(numbers.insert(number).second) << ranges.dump();
  return numbers;
}

TEST(MadeRecord, KeepsTheNumbersOfASetInAsFewRangesAsPossible) {
  std::mt19937 random(1);
  Made made;
  std::set<std::uint64_t> expected;
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t number = random() % 40;
    if (random() % 2 == 0) {
      ASSERT_TRUE(made.ask(number, Name::partial));
      expected.insert(number);
    } else {
      made.gone(number, Name::partial);
      expected.erase(number);
    }
    const auto ranges = made.to_json()["partial"];
    ASSERT_EQ(numbers_in(ranges), expected);
    for (std::size_t k = 1; k < ranges.size(); ++k) ASSERT_GT(ranges[k][0], ranges[k - 1][1].get<std::uint64_t>() + 1);
  }
  EXPECT_EQ(made.to_json()["files"], Json::array());
}

TEST(MadeRecord, OfRanksIsUnknownIfOneOfThemHasNotReported) {
  Made one, other;
  ASSERT_TRUE(one.ask(0));
  ASSERT_TRUE(other.ask(1));
  other.handled({"file_create", 3, 1, 4, 5});
  const auto all = Made::merged({one.to_json(), other.to_json()});
  EXPECT_EQ(numbers_in(all["files"]), (std::set<std::uint64_t>{0, 1}));
  EXPECT_EQ(all["names"].size(), 1U);
  EXPECT_TRUE(Made::merged({one.to_json(), nullptr}).is_null());
}

class MadeByARun : public LoadTest {
 protected:
  Json frames(const Json& changes) const {
    Json plan = {
        {"backend", {{"kind", "posix"}, {"folder", folder_.string()}, {"direct", false}, {"sync", "none"}}},
        {"workload",
         {{"kind", "frames"}, {"frames", 20}, {"frame_bytes", 500}, {"rate_hz", 0}, {"writers", 2}, {"record", false}}},
        {"prefix", "frame-"}};
    plan["workload"].update(changes);
    return plan;
  }
  Json stream(const std::string& kind, const Json& changes) const {
    Json plan = {{"backend", {{"kind", kind}, {"folder", folder_.string()}, {"sync", "end"}}},
                 {"workload",
                  {{"kind", "stream"},
                   {"threads", 2},
                   {"thread_bytes", 20 * 65536},
                   {"transfer_bytes", 65536},
                   {"read", false}}},
                 {"prefix", "frame-"}};
    plan["workload"].update(changes);
    return plan;
  }
  void put(const std::string& name) const { std::ofstream(folder_ / name) << "the user's"; }
  /// Numbers of the files in the directory.
  std::set<std::uint64_t> there(const std::string& ending = ".bin") const {
    std::set<std::uint64_t> numbers;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const auto name = entry.path().filename().string();
      if (name.substr(15) == ending) numbers.insert(std::stoull(name.substr(6, 9)));
    }
    return numbers;
  }
};

TEST_F(MadeByARun, AreTheFilesOfItsFrames) {
  for (const auto& changes : {Json::object(), Json{{"rename", true}}, Json{{"layout", "file_a_writer"}},
                              Json{{"ring_frames", 4}}, Json{{"layout", "file_a_writer"}, {"ring_frames", 8}}}) {
    EXPECT_TRUE(document_of(frames(changes))["failure"].is_null());
    const auto made = numbers_in(run_made["files"]), left = there();
    EXPECT_TRUE(std::includes(made.begin(), made.end(), left.begin(), left.end())) << changes.dump();
    // A ring may be about to note what it has just removed.
    EXPECT_LE(made.size(), left.size() + (changes.contains("ring_frames") ? 1 : 0)) << changes.dump();
    EXPECT_TRUE(run_made["partial"].empty());
    for (const auto& entry : fs::directory_iterator(folder_)) fs::remove(entry);
  }
}

TEST_F(MadeByARun, IsNotWhatWasInTheWay) {
  for (const std::string in_the_way : {"frame-000000007.bin", "frame-000000007.bin.partial"}) {
    put(in_the_way);
    put("frame-000000019.bin");
    const auto document = document_of(frames({{"rename", true}, {"writers", 1}}));
    EXPECT_EQ(document["failure"]["code"], "already_exists");
    EXPECT_EQ(document["failure"]["path"], in_the_way);
    EXPECT_EQ(document["failure"]["detail"], document["problem"]);
    const bool is_complete = in_the_way.ends_with(".bin");
    std::set<std::uint64_t> there;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const auto name = entry.path().filename().string();
      if (name.ends_with(".bin") && name != in_the_way && name != "frame-000000019.bin")
        there.insert(std::stoull(name.substr(std::string("frame-").size())));
    }
    EXPECT_EQ(numbers_in(run_made["files"]), there);
    EXPECT_TRUE(there.contains(6) && !there.contains(7));
    EXPECT_EQ(numbers_in(run_made["partial"]), is_complete ? std::set<std::uint64_t>{7} : std::set<std::uint64_t>{});
    for (const auto& entry : fs::directory_iterator(folder_)) fs::remove(entry);
  }
}

/// The storage hangs, the run gives up, and then the storage goes on.
TEST_F(MadeByARun, IsAllThatIsEverCreated) {
  static testing::FaultEnv env;  // threads that are left behind use it
  static std::atomic<bool> hangs{true};
  env.faults->on_write = [](auto, auto) -> Result<void> {
    for (int i = 0; hangs && i < 10'000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return {};
  };
  on_progress = [&](const Json&) { stop = env.faults->writes >= 2; };  // both writers hang
  const auto outcome = run(frames({{"frames", 100'000}, {"rate_hz", 1000}, {"buffer_frames", 20}}), env);
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_TRUE(outcome->left_behind);
  hangs = false;
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(numbers_in(run_made["files"]), there()) << i;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// Another file may fail first, for another reason; then the problem does not name this one.
TEST_F(MadeByARun, IsNotWhatWasInTheWayOfASecondWriter) {
  put("frame-000000001.bin");
  testing::FaultEnv env;
  env.faults->on_write = [](auto, auto) -> Result<void> {
    return make_error(Errc::no_space, "no space left on the storage");
  };
  (void)document_of(frames({{"frames", 2}}), env);
  EXPECT_EQ(numbers_in(run_made["files"]), std::set<std::uint64_t>{0});
}

TEST_F(MadeByARun, IsKnownWhereItEndsBeforeItMeasures) {
  put("frame-000000001.bin");
  EXPECT_EQ(run(frames({{"layout", "file_a_writer"}})).error().code(), Errc::already_exists);
  EXPECT_EQ(numbers_in(run_made["files"]), std::set<std::uint64_t>{0});
  fs::remove(folder_ / "frame-000000000.bin");
  put("frame-000000000.bin");
  EXPECT_EQ(run(stream("posix", {{"shared", true}})).error().code(), Errc::already_exists);
  EXPECT_TRUE(run_made["files"].empty());
}

TEST_F(MadeByARun, IsNotAFileInTheWayOfALibrary) {
  for (const std::string kind : {"store", "hdf5"}) {
    put("frame-000000001.bin");
    const auto parsed = LoadPlan::from_json(stream(kind, Json::object()).dump());
    ASSERT_TRUE(parsed) << parsed.error().message();
    const auto make = [](const LoadPlan& plan, const RunContext& context) {
      return std::holds_alternative<Hdf5Plan>(plan.backend)
                 ? load_hdf5::make_hdf5_backend(plan, context.team, context.env)
                 : Result<std::shared_ptr<Backend>>(load_hdf5::make_store_backend(plan, context.team, context.env));
    };
    const RunContext context{posix_env(), [](auto, auto&) {}, stop, no_team(), make};
    const auto outcome = run_load(*parsed, context);
    ASSERT_TRUE(outcome) << outcome.error().message();
    EXPECT_EQ(outcome->document["failure"]["code"], "already_exists") << outcome->document["problem"];
    EXPECT_EQ(outcome->document["failure"]["path"], "frame-000000001.bin");
    EXPECT_EQ(numbers_in(context.made->to_json()["files"]), std::set<std::uint64_t>{0}) << kind;
    for (const auto& entry : fs::directory_iterator(folder_)) fs::remove(entry);
  }
}

}  // namespace
}  // namespace penstock::load
