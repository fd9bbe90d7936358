#include <sys/resource.h>

#include <array>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "../support/whole_file.hpp"
#include "base/time/clock.hpp"
#include "load/workloads/metadata_plan.hpp"
#include "load/workloads/tree.hpp"
#include "load/workloads/workload.hpp"
#include "load_fixture.hpp"

namespace penstock::load {
namespace {

namespace fs = std::filesystem;

/// The real back end, whose calls a test can count, and fail or disturb before they are made.
struct Calls {
  std::function<Result<void>(const std::string& call, const std::string& path)> before = [](auto&, auto&) {
    return Result<void>();
  };
  std::mutex mutex;
  std::map<std::string, std::multiset<std::thread::id>> by_path;  ///< "stat m-000000000/f000-000000000"
  std::size_t begun = 0, passed_on = 0;
};

class WatchedNames final : public Names {
 public:
  WatchedNames(std::unique_ptr<Names> real, Calls& calls) : real_(std::move(real)), calls_(calls) {}
  Result<void> make_folder(const char* path) override {
    PEN_TRY(note("make", path));
    return real_->make_folder(path);
  }
  Result<void> remove_folder(const char* path) override {
    PEN_TRY(note("rmdir", path));
    return real_->remove_folder(path);
  }
  Result<void> look_up(const char* path) override {
    PEN_TRY(note("stat", path));
    return real_->look_up(path);
  }
  Result<void> create(const char* path, Bytes bytes, bool sync, bool& made) override {
    PEN_TRY(note(sync ? "create and sync" : "create", path));
    return real_->create(path, bytes, sync, made);
  }
  Result<std::size_t> read(const char* path, MutableBytes into) override {
    PEN_TRY(note("read", path));
    return real_->read(path, into);
  }
  Result<void> rename(const char* from, const char* to) override {
    PEN_TRY(note("rename", from));
    return real_->rename(from, to);
  }
  Result<void> remove(const char* path) override {
    PEN_TRY(note("remove", path));
    return real_->remove(path);
  }

 private:
  Result<void> note(const char* call, const char* path) {
    {
      std::lock_guard lock(calls_.mutex);
      calls_.by_path[fmt::format("{} {}", call, path)].insert(std::this_thread::get_id());
      ++calls_.begun;
    }
    auto may = calls_.before(call, path);
    std::lock_guard lock(calls_.mutex);
    ++calls_.passed_on;
    return may;
  }

  const std::unique_ptr<Names> real_;
  Calls& calls_;
};

class WatchedBackend final : public Backend {
 public:
  WatchedBackend(std::shared_ptr<Backend> real, Calls& calls) : real_(std::move(real)), calls_(calls) {}
  void start(std::int64_t start_ns) override { real_->start(start_ns); }
  std::uint64_t alignment() const override { return real_->alignment(); }
  Result<std::unique_ptr<StoredFile>> create(const std::string& name, bool& made) override {
    return real_->create(name, made);
  }
  Result<std::unique_ptr<StoredFile>> open(const std::string& name) override { return real_->open(name); }
  std::optional<std::uint64_t> cached_bytes(const std::string& name) override { return real_->cached_bytes(name); }
  Result<std::unique_ptr<Names>> names() override {
    PEN_ASSIGN(auto names, real_->names());
    return std::unique_ptr<Names>(std::make_unique<WatchedNames>(std::move(names), calls_));
  }
  Sync sync() const override { return real_->sync(); }
  Json describe() const override { return real_->describe(); }

 private:
  const std::shared_ptr<Backend> real_;
  Calls& calls_;
};

class Metadata : public LoadTest {
 protected:
  /// 2 threads, trees of 7 folders, 3 items of each kind in each: 42 a phase.
  Json plan(const Json& changes = Json::object()) const {
    Json plan = {
        {"backend", {{"kind", "posix"}, {"folder", folder_.string()}, {"direct", false}, {"sync", "none"}}},
        {"workload",
         {{"kind", "metadata"}, {"threads", 2}, {"items", 3}, {"depth", 2}, {"branch", 2}, {"file_bytes", 700}}},
        {"prefix", "m-"}};
    plan["workload"].update(changes);
    return plan;
  }

  Result<Measured> watched(const Json& plan) {
    PEN_ASSIGN(const auto parsed, LoadPlan::from_json(plan.dump()));
    auto backend = std::make_shared<WatchedBackend>(make_backend(parsed, posix_env()), calls_);
    const RunContext context{posix_env(), [](auto, auto&) {}, stop};
    auto measured = run_metadata(parsed, std::move(backend), context);
    run_made = context.made->to_json();
    return measured;
  }

  std::size_t entries() const {
    const fs::recursive_directory_iterator all(folder_);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

  Calls calls_;
};

TEST_F(Metadata, EachOperationIsAPhaseOfAllThreadsAndNothingStays) {
  const auto document = document_of(plan({{"iterations", 2}, {"rename", true}}));
  EXPECT_TRUE(document["problem"].is_null());
  const std::vector<std::pair<std::string, int>> expected = {
      {"tree_create", 14},   {"folder_create", 42}, {"folder_stat", 42}, {"folder_rename", 42},
      {"folder_remove", 42}, {"file_create", 42},   {"file_stat", 42},   {"file_read", 42},
      {"file_rename", 42},   {"file_remove", 42},   {"tree_remove", 14}};
  const auto& phases = document["metadata"]["phases"];
  ASSERT_EQ(phases.size(), 2 * expected.size());
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const auto& [operation, count] = expected[i % expected.size()];
    EXPECT_EQ(phases[i]["operation"], operation);
    EXPECT_EQ(phases[i]["iteration"], i / expected.size());
    EXPECT_EQ(phases[i]["operations"], count);
    EXPECT_EQ(phases[i]["complete"], true);
    EXPECT_GT(phases[i]["first_done_s"].get<double>(), 0);
    EXPECT_GE(phases[i]["last_done_s"], phases[i]["first_done_s"]);
    EXPECT_EQ(document["metadata"]["times"][operation]["count"], 2 * count);
  }
  EXPECT_EQ(entries(), 0U);
}

TEST_F(Metadata, TreesAndItemsAreWhereTheirNamesSay) {
  document_of(plan({{"remove", false}, {"iterations", 2}}));
  EXPECT_EQ(entries(), 2U * (14 + 42 + 42));
  std::set<std::string> contents;
  for (unsigned tree = 0; tree < 4; ++tree)
    for (const auto& place : tree_places(7, 2)) {
      const auto folder = folder_ / (fmt::format("m-{:09}", tree) + place);
      for (int item = 0; item < 3; ++item) {
        const auto file = folder / fmt::format("f{:03}-{:09}", tree % 2, item);
        EXPECT_TRUE(fs::is_directory(folder / fmt::format("d{:03}-{:09}", tree % 2, item)));
        ASSERT_EQ(fs::file_size(file), 700U) << file;
        contents.insert(whole_file(file));
      }
    }
  EXPECT_EQ(contents.size(), 84U) << "storage could store once what is there twice";
}

TEST_F(Metadata, ASharedTreeIsMadeOnceAndHoldsTheItemsOfAll) {
  const auto document = document_of(plan({{"shared", true}, {"remove", false}, {"files", false}, {"file_bytes", 0}}));
  EXPECT_EQ(document["metadata"]["phases"][0]["operations"], 7);
  EXPECT_EQ(entries(), 7U + 42);
  for (const auto* item : {"d000-000000002", "d001-000000000"})
    EXPECT_TRUE(fs::is_directory(folder_ / "m-000000000" / "t1" / "t0" / item));
}

TEST_F(Metadata, RenamedItemsHaveTheirNewNames) {
  document_of(plan({{"remove", false}, {"rename", true}, {"depth", 0}, {"threads", 1}}));
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_ / "m-000000000")) names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"e000-000000000", "e000-000000001", "e000-000000002", "g000-000000000",
                                          "g000-000000001", "g000-000000002"}));
}

TEST_F(Metadata, WithAShiftThreadsWorkOnWhatAnotherOneMade) {
  for (const int shift : {0, 1}) {
    calls_.by_path.clear();
    ASSERT_TRUE(watched(plan({{"shift", shift}})).ok());
    for (const auto* call : {"stat", "read", "remove"}) {
      const std::string path = " m-000000001/t0/f001-000000002";
      const auto made_by = calls_.by_path.at("create" + path), done_by = calls_.by_path.at(call + path);
      ASSERT_EQ(done_by.size(), 1U) << call;
      EXPECT_EQ(done_by == made_by, shift == 0) << call;
    }
  }
}

/// Two ranks that meet in memory; each knows what it called.
class PairOfRanks final : public Team {
 public:
  PairOfRanks(unsigned rank, std::barrier<>& all) : rank_(rank), all_(all) {}
  unsigned rank() const override { return rank_; }
  unsigned ranks() const override { return 2; }
  Result<Meeting> meet(Json note) override {
    all_.arrive_and_wait();
    return Meeting{monotonic_ns(), {std::move(note)}};
  }

 private:
  const unsigned rank_;
  std::barrier<>& all_;
};

class MetadataOfRanks : public Metadata {
 protected:
  /// Of a plan without errors: with one, a rank would wait for ever.
  void run_by_both(const Json& plan) {
    const auto parsed = LoadPlan::from_json(plan.dump());
    ASSERT_TRUE(parsed);
    std::barrier<> all(2);
    const auto as_rank = [&](unsigned rank) {
      PairOfRanks team(rank, all);
      auto backend = std::make_shared<WatchedBackend>(make_backend(*parsed, posix_env()), calls_of_[rank]);
      return run_metadata(*parsed, std::move(backend), {posix_env(), [](auto, auto&) {}, stop, team});
    };
    auto other = std::async(std::launch::async, as_rank, 1);
    measured_[0] = as_rank(0);
    measured_[1] = other.get();
    for (const auto& one : measured_) {
      ASSERT_TRUE(one);
      ASSERT_EQ(one->problem.text(), "");
    }
  }

  std::array<Calls, 2> calls_of_;
  std::array<Result<Measured>, 2> measured_ = {Error(Errc::internal, ""), Error(Errc::internal, "")};
};

TEST_F(MetadataOfRanks, WithTheShiftOfItsThreadsARankWorksOnWhatAnotherOneMade) {
  for (const int shift : {0, 2}) {
    for (auto& calls : calls_of_) calls.by_path.clear();
    run_by_both(plan({{"shift", shift}, {"rename", true}}));
    for (const unsigned rank : {0U, 1U})
      for (unsigned thread = 2 * rank; thread < 2 * rank + 2; ++thread) {
        const auto path = fmt::format("m-{0:09}/t1/t0/f{0:03}-000000001", thread);
        const auto& makes = calls_of_[rank].by_path;
        const auto& works = calls_of_[shift == 0 ? rank : 1 - rank].by_path;
        EXPECT_TRUE(makes.contains("create " + path));
        for (const auto* call : {"stat ", "read ", "rename "}) EXPECT_TRUE(works.contains(call + path)) << call << path;
        EXPECT_TRUE(works.contains(fmt::format("rmdir m-{:09}", thread)));
      }
    EXPECT_EQ(entries(), 0U);
  }
}

TEST_F(MetadataOfRanks, NobodyLooksForWhatAnotherRankHasNotMade) {
  for (const auto* call : {"create", "stat", "read", "remove"}) {
    // Rank 0 takes its time with one kind of call after the other, and rank 1 works on its items.
    calls_of_[0].before = [call](const std::string& made, const std::string&) -> Result<void> {
      if (made == call) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return {};
    };
    run_by_both(plan({{"threads", 1}, {"depth", 0}, {"shift", 1}}));
    EXPECT_EQ(entries(), 0U) << call;
  }
}

TEST_F(MetadataOfRanks, OneOfThemMakesTheTreeThatTheyShare) {
  run_by_both(plan({{"shared", true}, {"shift", 2}, {"remove", false}}));
  EXPECT_EQ(entries(), 7U + 2 * 2 * 2 * 7 * 3);
  for (const unsigned thread : {0U, 1U, 2U, 3U})
    EXPECT_TRUE(fs::exists(folder_ / "m-000000000" / "t0" / fmt::format("f{:03}-000000002", thread)));
  const auto trees = [&](unsigned rank) { return measured_[rank]->fields["metadata"]["phases"][0]; };
  EXPECT_EQ(trees(0)["operations"], 7);
  EXPECT_EQ(trees(1)["operations"], 0);
  EXPECT_EQ(trees(1)["complete"], true);
  EXPECT_TRUE(trees(1)["first_done_s"].is_null()) << "it had no part in it, and was not the first one done";
}

TEST_F(MetadataOfRanks, NoTwoFilesOfTheirsAreEqual) {
  run_by_both(plan({{"remove", false}, {"folders", false}}));
  std::set<std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    if (!entry.is_regular_file()) continue;
    contents.insert(whole_file(entry.path()));
  }
  EXPECT_EQ(contents.size(), 2U * 2 * 7 * 3);
}

TEST_F(Metadata, WhatItCreatedIsKnownUpToTheNameInTheWay) {
  calls_.before = [&](const std::string& call, const std::string& path) -> Result<void> {
    if (call == "create" && path == "m-000000001/t0/f001-000000002") std::ofstream(folder_ / path) << "the user's";
    return {};
  };
  const auto measured = watched(plan());
  ASSERT_TRUE(measured) << measured.error().message();
  EXPECT_EQ(measured->problem.to_json()["code"], "already_exists") << measured->problem.text();
  EXPECT_EQ(measured->problem.to_json()["path"], "m-000000001/t0/f001-000000002");
  const auto handled = [&](const std::string& operation, int thread) {
    for (const auto& one : run_made["names"])
      if (one["operation"] == operation && one["thread"] == thread) return one;
    return Json();
  };
  EXPECT_EQ(handled("tree_create", 1)["attempted"], 7);
  EXPECT_EQ(handled("folder_remove", 0)["done"], 21);
  EXPECT_EQ(handled("file_create", 1)["done"], 5) << "3 in the tree's top, 2 in its first directory";
  EXPECT_EQ(handled("file_create", 1)["attempted"], 5);
  EXPECT_TRUE(handled("folder_stat", 0).is_null());
}

TEST_F(Metadata, AFileThatItCouldNotFillIsItsOwn) {
  const auto measured = [&] {
    const FileSizeLimit limit(300);
    return watched(plan({{"threads", 1}, {"folders", false}}));
  }();
  ASSERT_TRUE(measured) << measured.error().message();
  EXPECT_EQ(measured->problem.to_json()["path"], "m-000000000/f000-000000000");
  EXPECT_EQ(run_made["names"].back()["operation"], "file_create");
  EXPECT_EQ(run_made["names"].back()["done"], 0);
  EXPECT_EQ(run_made["names"].back()["attempted"], 1);
  EXPECT_EQ(entries(), 8U);
}

TEST_F(Metadata, AShiftThatLeadsToNobodyIsRefused) {
  const auto refused = run(plan({{"shift", 2}}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "workload.shift: 2 exceeds the maximum of 1");
  EXPECT_EQ(entries(), 0U);
}

TEST_F(Metadata, FilesAreForcedToStorageWhereThePlanSaysSo) {
  auto synced = plan();
  synced["backend"]["sync"] = "each";
  ASSERT_TRUE(watched(synced).ok());
  EXPECT_EQ(calls_.by_path.count("create and sync m-000000000/f000-000000000"), 1U);
  EXPECT_EQ(calls_.by_path.count("create m-000000000/f000-000000000"), 0U);
}

TEST_F(Metadata, WhatIsThereIsNotOverwritten) {
  std::ofstream(folder_ / "m-000000001") << "somebody's";
  const auto document = document_of(plan());
  EXPECT_NE(document["problem"].get<std::string>().find("m-000000001"), std::string::npos) << document["problem"];
  EXPECT_EQ(fs::file_size(folder_ / "m-000000001"), 10U);
  EXPECT_EQ(document["metadata"]["phases"].size(), 1U);
  EXPECT_EQ(document["metadata"]["phases"][0]["complete"], false);
}

TEST_F(Metadata, ANameThatIsTakenIsNotRenamedOver) {
  calls_.before = [this](const std::string& call, const std::string& path) -> Result<void> {
    if (call == "rename" && path.ends_with("f000-000000001"))
      std::ofstream(folder_ / "m-000000000" / "g000-000000001") << "somebody's";
    return {};
  };
  const auto measured = watched(plan({{"rename", true}, {"depth", 0}, {"threads", 1}}));
  ASSERT_TRUE(measured);
  EXPECT_NE(measured->problem.text().find("rename m-000000000/f000-000000001"), std::string::npos)
      << measured->problem.text();
  EXPECT_EQ(fs::file_size(folder_ / "m-000000000" / "g000-000000001"), 10U);
}

TEST_F(Metadata, AnErrorEndsTheRunWithWhatWasMeasured) {
  std::atomic<int> created{0};
  calls_.before = [&created](const std::string& call, const std::string&) -> Result<void> {
    if (call == "create" && ++created == 5) return make_error(Errc::no_space, "no space left on the device");
    return {};
  };
  const auto measured = watched(plan({{"threads", 1}}));
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->problem.text(), "no space left on the device");
  const auto& phases = measured->fields["metadata"]["phases"];
  ASSERT_EQ(phases.size(), 5U);  // the tree, three of folders, and the one that failed
  EXPECT_EQ(phases[3]["complete"], true);
  EXPECT_EQ(phases[4]["complete"], false);
  EXPECT_EQ(phases[4]["operations"], 4);
  EXPECT_TRUE(phases[4]["last_done_s"].is_null());
}

TEST_F(Metadata, AThreadInTheMiddleThatFailsEndsTheOthersSoon) {
  calls_.before = [](const std::string& call, const std::string& path) -> Result<void> {
    if (call == "create" && path.ends_with("f001-000000010")) return make_error(Errc::io, "the server is gone");
    if (call == "create") std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return {};
  };
  const auto measured = watched(plan({{"threads", 3}, {"items", 5000}, {"depth", 0}, {"folders", false}}));
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->problem.text(), "the server is gone");
  EXPECT_FALSE(measured->left_behind);
  const auto& phases = measured->fields["metadata"]["phases"];
  ASSERT_EQ(phases.size(), 2U) << "nothing is found that was not made";
  EXPECT_EQ(phases[0]["complete"], true);
  EXPECT_EQ(phases[1]["complete"], false);
  EXPECT_GE(phases[1]["operations"], 10);
  EXPECT_LT(phases[1]["operations"], 10'000) << "of 15 000; the other two have 5000 each";
}

TEST_F(Metadata, AThreadThatHangsIsLeftBehindAlone) {
  auto impatient = plan({{"threads", 3}, {"folders", false}, {"depth", 0}});
  impatient["drain_timeout_s"] = 1;
  const auto still_calls = [&] {
    std::lock_guard lock(calls_.mutex);
    return calls_.passed_on < calls_.begun;
  };
  Result<Measured> measured = make_error(Errc::internal, "not run");
  // The other threads have a moment to end, in which a busy machine may not let them: then once more.
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::promise<void> answer;
    const auto answered = answer.get_future().share();
    calls_.before = [answered](const std::string& call, const std::string& path) -> Result<void> {
      if (call == "stat" && path.ends_with("f001-000000001")) answered.wait();
      return {};
    };
    measured = watched(impatient);
    answer.set_value();
    for (int i = 0; i < 6000 && still_calls(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_FALSE(still_calls());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it uses the folder of the test
    if (!measured.ok() || !measured->problem.text().ends_with(" threads are stalled in the storage")) break;
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ASSERT_TRUE(measured);
  EXPECT_TRUE(measured->left_behind);
  EXPECT_EQ(measured->problem.text(), "1 thread is stalled in the storage");
  const auto& phases = measured->fields["metadata"]["phases"];
  ASSERT_EQ(phases.size(), 3U);
  EXPECT_EQ(phases[1]["complete"], true);
  EXPECT_EQ(phases[2]["complete"], false);
  EXPECT_EQ(phases[2]["operations"], 7) << "of 9";
}

TEST_F(Metadata, AFolderThatDisappearsIsNamed) {
  calls_.before = [this](const std::string& call, const std::string& path) -> Result<void> {
    if (call == "stat" && path.ends_with("t1/f000-000000001")) fs::remove_all(folder_ / "m-000000000");
    return {};
  };
  const auto measured = watched(plan({{"threads", 1}}));
  ASSERT_TRUE(measured);
  EXPECT_NE(measured->problem.text().find("stat m-000000000/t1/f000-000000001"), std::string::npos)
      << measured->problem.text();
}

TEST_F(Metadata, TooManyOpenFilesAreNamedAndTheDocumentComes) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  calls_.before = [&before](const std::string& call, const std::string& path) -> Result<void> {
    const rlimit none{0, before.rlim_max};
    if (call == "create" && path.ends_with("000000002")) ::setrlimit(RLIMIT_NOFILE, &none);
    return {};
  };
  const auto measured = watched(plan({{"threads", 1}, {"depth", 0}}));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(measured);
  EXPECT_NE(measured->problem.text().find(
                "create m-000000000/f000-000000002: this process has too many open files (ulimit -n)"),
            std::string::npos)
      << measured->problem.text();
  EXPECT_EQ(measured->fields["metadata"]["phases"].back()["operations"], 2);
}

TEST_F(Metadata, AFileThatIsShorterThanItWasIsFound) {
  calls_.before = [this](const std::string& call, const std::string& path) -> Result<void> {
    if (call == "read" && path.ends_with("f000-000000001")) fs::resize_file(folder_ / path, 699);
    return {};
  };
  const auto measured = watched(plan({{"threads", 1}, {"depth", 0}}));
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->problem.text(), "m-000000000/f000-000000001 has 699 bytes, and 700 were written");
}

TEST_F(Metadata, AnInterruptionLeavesWhatWasMeasured) {
  auto slow = plan({{"items", 100'000}});
  slow["backend"] = {{"kind", "null"}, {"delay_s", 0.001}};
  on_progress = [this](const Json& fields) { stop = fields["phase"] == "folder_create" && fields["done"] > 0; };
  const auto document = document_of(slow);
  EXPECT_TRUE(document["interrupted"].get<bool>());
  EXPECT_TRUE(document["problem"].is_null());
  const auto& phases = document["metadata"]["phases"];
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(phases[0]["complete"], true);
  EXPECT_EQ(phases[1]["complete"], false);
  EXPECT_GT(phases[1]["operations"].get<int>(), 0);
}

TEST_F(Metadata, StorageThatHangsIsLeftBehind) {
  auto hanging = plan();
  hanging["backend"] = {{"kind", "null"}, {"freeze_s", 60}};
  hanging["drain_timeout_s"] = 3;
  auto outcome = run(hanging);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->left_behind);
  EXPECT_EQ(outcome->document["problem"], "2 threads are stalled in the storage");
  const auto& phases = outcome->document["metadata"]["phases"];
  ASSERT_EQ(phases.size(), 1U);
  EXPECT_EQ(phases[0]["complete"], false);
}

TEST_F(Metadata, AFolderThatIsNotThereIsAnError) {
  fs::remove_all(folder_);
  const auto failed = run(plan());
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), Errc::not_found);
}

TEST(ItemPath, HasRoomForTheThreadsOfManyRanks) {
  ItemPath path('d', 65535);
  path.enter("m-000000000", "");
  EXPECT_STREQ(path.text(), "m-000000000/d65535-000000000");
}

TEST(ItemPath, CountsInDecimal) {
  ItemPath path('f', 7);
  path.enter("m-000000000", "/t1");
  EXPECT_STREQ(path.text(), "m-000000000/t1/f007-000000000");
  for (int i = 0; i < 1099; ++i) path.next();
  EXPECT_STREQ(path.text(), "m-000000000/t1/f007-000001099");
  path.next();
  EXPECT_STREQ(path.text(), "m-000000000/t1/f007-000001100");
}

}  // namespace
}  // namespace penstock::load
