#include <fstream>
#include <future>
#include <iterator>
#include <mutex>
#include <set>
#include <utility>

#include "../support/whole_file.hpp"
#include "one_file_fails.hpp"
#include "team_fixture.hpp"

namespace penstock::load {
namespace {

TEST_F(TeamTest, EachRankReadsWhatTheNextOneWrote) {
  const auto document = document_by_ranks(stream(2));
  EXPECT_TRUE(document["problem"].is_null()) << document["problem"];
  ASSERT_EQ(document["phases"].size(), 2U);
  for (const auto& phase : document["phases"]) {
    EXPECT_EQ(phase["bytes"], 6 * 20 * 65536);
    EXPECT_EQ(phase["times"]["service"]["count"], 6 * 20);
    std::vector<int> of_ranks;
    for (const auto& thread : phase["threads"]) of_ranks.push_back(thread["rank"]);
    EXPECT_EQ(of_ranks, (std::vector{0, 0, 1, 1, 2, 2}));
    int done = 0;
    for (const auto& interval : phase["series"]["done"]) done += interval.get<int>();
    EXPECT_EQ(done, 6 * 20);
  }
  EXPECT_EQ(document["phases"][1]["mismatches"], 0);
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) files.insert(entry.path().filename());
  EXPECT_EQ(files.size(), 6U);
  EXPECT_TRUE(files.contains("load-000000005.bin"));
  EXPECT_EQ(document["job"]["ranks"], 3);
  EXPECT_EQ(document["job"]["library"], "threads");
}

/// Notes through which folder files were made, and read.
class NotingEnv final : public Env {
 public:
  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) override {
    const auto cut = path.rfind('/');
    {
      std::lock_guard lock(mutex_);
      auto& folders = options.mode == OpenOptions::Mode::read ? read : made;
      folders[path.substr(cut + 1)] = path.substr(0, cut);
    }
    return posix_env().open(path, options);
  }
  Result<std::uint64_t> free_bytes(const std::string& path) override { return posix_env().free_bytes(path); }
  Result<std::vector<std::string>> list(const std::string& folder) override { return posix_env().list(folder); }
  Result<void> remove(const std::string& path) override { return posix_env().remove(path); }

  std::map<std::string, std::string> made, read;  // by the name of the file

 private:
  std::mutex mutex_;
};

/// Other paths of one folder, as clients with mounts of their own have.
std::vector<std::string> ways_to(const std::filesystem::path& folder, unsigned count) {
  std::vector<std::string> ways;
  for (unsigned way = 0; way < count; ++way) ways.push_back(way == 0 ? folder.string() : ways.back() + "/.");
  return ways;
}

TEST_F(TeamTest, EachRankUsesItsOwnFolderAndReadsWhatCameThroughAnother) {
  NotingEnv env;
  auto plan = stream(2);
  const auto ways = ways_to(folder_, 3);
  plan["folders"] = ways;
  const auto outcomes = run_by_ranks(
      plan, [](auto, auto, const auto&) {}, 60, {}, env);
  ASSERT_TRUE(outcomes[0]) << outcomes[0].error().message();
  const auto& document = outcomes[0]->document;
  EXPECT_TRUE(document["problem"].is_null()) << document["problem"];
  EXPECT_EQ(document["phases"][1]["mismatches"], 0);
  ASSERT_EQ(env.made.size(), 6U);
  ASSERT_EQ(env.read.size(), 6U);
  for (unsigned file = 0; file < 6; ++file) {
    const auto name = fmt::format("load-{:09}.bin", file);
    EXPECT_EQ(env.made[name], ways[file / 2]) << name;
    EXPECT_NE(env.read[name], env.made[name]) << name;
  }
  for (unsigned rank = 0; rank < ranks; ++rank) EXPECT_EQ(document["job"]["parts"][rank]["folder"], ways[rank]);
}

class TeamOfFour : public TeamOf<4> {};

TEST_F(TeamOfFour, ARankDoesNotReadWhatTheNextOneWroteThroughTheSameFolder) {
  NotingEnv env;
  auto plan = stream(1);
  plan["folders"] = ways_to(folder_, 3);
  const auto outcomes = run_by_ranks(
      plan, [](auto, auto, const auto&) {}, 60, {}, env);
  ASSERT_TRUE(outcomes[0]) << outcomes[0].error().message();
  EXPECT_EQ(outcomes[0]->document["phases"][1]["mismatches"], 0);
  ASSERT_EQ(env.read.size(), 4U);
  for (const auto& [name, folder] : env.read) EXPECT_NE(folder, env.made[name]) << name;
}

TEST_F(TeamTest, RanksThatWouldReadThroughTheFolderOfTheWriterAreRefused) {
  auto plan = stream(1);
  plan["folders"] = ways_to(folder_, 2);
  const auto outcomes = run_by_ranks(plan, [](auto, auto, const auto&) {});
  ASSERT_FALSE(outcomes[0]);
  EXPECT_NE(outcomes[0].error().message().find("use an even number of ranks"), std::string::npos)
      << outcomes[0].error().message();
  plan["workload"].update({{"read", false}, {"verify", false}});
  EXPECT_TRUE(document_by_ranks(plan)["problem"].is_null());
}

Json shared(Json stream) {
  stream["workload"].update({{"shared", true}, {"segments", 5}});
  return stream;
}

TEST_F(TeamTest, RanksShareTheFileThatTheLeadMade) {
  const auto document = document_by_ranks(shared(stream(2)));
  EXPECT_TRUE(document["problem"].is_null()) << document["problem"];
  EXPECT_EQ(document["phases"][1]["operations"], 120);
  EXPECT_EQ(document["phases"][1]["mismatches"], 0);
  EXPECT_EQ(std::filesystem::file_size(folder_ / "load-000000000.bin"), 120U * 65536);
}

/// Puts another file in the place of the one that a rank is about to join.
class SwappingEnv final : public Env {
 public:
  explicit SwappingEnv(std::string content) : content_(std::move(content)) {}
  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) override {
    if (options.mode == OpenOptions::Mode::update) {
      std::lock_guard lock(mutex_);
      if (!std::exchange(swapped_, true)) {
        std::filesystem::remove(path);
        std::ofstream(path) << content_;
      }
    }
    return posix_env().open(path, options);
  }
  Result<std::uint64_t> free_bytes(const std::string& path) override { return posix_env().free_bytes(path); }
  Result<std::vector<std::string>> list(const std::string& folder) override { return posix_env().list(folder); }
  Result<void> remove(const std::string& path) override { return posix_env().remove(path); }

 private:
  const std::string content_;
  std::mutex mutex_;
  bool swapped_ = false;
};

class SwappedFile : public TeamTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(SwappedFile, IsNotWrittenTo) {
  SwappingEnv env(GetParam());
  const auto outcomes = run_by_ranks(
      shared(stream(1)), [](auto, auto, const auto&) {}, 60, {}, env);
  ASSERT_TRUE(outcomes[0]) << outcomes[0].error().message();
  const auto problem = outcomes[0]->document["problem"].dump();
  EXPECT_NE(problem.find("load-000000000.bin is not the file that was created"), std::string::npos) << problem;
  EXPECT_EQ(whole_file(folder_ / "load-000000000.bin"), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Content, SwappedFile, ::testing::Values("", "somebody's own"));

TEST_F(TeamTest, FramesAreDealtInTurnAtTheirPlacesInTheSchedule) {
  const Json plan = {{"backend", {{"kind", "posix"}, {"folder", folder_.string()}, {"sync", "none"}}},
                     {"workload",
                      {{"kind", "frames"},
                       {"frames", 100},
                       {"frame_bytes", 5000},
                       {"rate_hz", 500},
                       {"buffer_frames", 300},
                       {"late_after_s", 60}}}};
  const auto document = document_by_ranks(plan);
  const auto& counts = document["frames"];
  EXPECT_EQ(counts["planned"], 100);
  EXPECT_EQ(counts["due"], 100);
  EXPECT_EQ(counts["written"], 100);
  EXPECT_EQ(counts["bytes"], 500'000);
  EXPECT_NEAR(document["seconds"]["last_due"].get<double>(), 99.0 / 500, 1e-6);
  EXPECT_EQ(document["times"]["latency"]["count"], 100);
  const auto offered = document["records"]["offered_ns"].get<std::vector<std::int64_t>>();
  const auto done = document["records"]["done_ns"].get<std::vector<std::int64_t>>();
  ASSERT_EQ(offered.size(), 100U);
  for (std::size_t frame = 0; frame < 100; ++frame) {
    EXPECT_GE(offered[frame], static_cast<std::int64_t>(frame) * 2'000'000 - 1) << frame;
    EXPECT_GT(done[frame], offered[frame]) << frame;
    EXPECT_TRUE(std::filesystem::exists(folder_ / fmt::format("load-{:09}.bin", frame))) << frame;
  }
}

TEST_F(TeamTest, AFileAWriterIsNamedAmongAllRanksWriters) {
  const Json plan = {{"backend", {{"kind", "posix"}, {"folder", folder_.string()}, {"sync", "end"}}},
                     {"workload",
                      {{"kind", "frames"},
                       {"frames", 12},
                       {"frame_bytes", 4096},
                       {"rate_hz", 0},
                       {"writers", 2},
                       {"buffer_frames", 6},
                       {"layout", "file_a_writer"}}}};
  const auto document = document_by_ranks(plan);
  EXPECT_EQ(document["frames"]["written"], 12);
  std::uint64_t bytes = 0;
  for (unsigned file = 0; file < 6; ++file)
    bytes += std::filesystem::file_size(folder_ / fmt::format("load-{:09}.bin", file));
  EXPECT_EQ(bytes, 12 * 4096U);
}

TEST_F(TeamTest, ProgressIsThatOfAllRanks) {
  std::atomic<std::uint64_t> seen{0};
  const auto outcomes =
      run_by_ranks(slow_frames(20'000), [&](unsigned rank, std::string_view event, const Json& fields) {
        if (rank != job::lead || event != "progress") return;
        const auto done = fields["done"].get<std::uint64_t>();
        // The lead writes at most 100 frames per second by itself.
        if (done == 0 || static_cast<double>(done) <= 100 * fields["seconds"].get<double>()) return;
        seen = done;
        stops_[job::lead] = true;
      });
  EXPECT_GT(seen, 0U) << "the progress is that of the lead alone";
  EXPECT_GE(outcomes[0]->document["frames"]["written"], seen.load());
}

TEST_F(TeamTest, WhoeverIsToldToEndEndsAll) {
  const auto outcomes = run_by_ranks(slow_frames(100'000), [&](unsigned rank, std::string_view, const Json&) {
    if (rank == 1) stops_[1] = true;
  });
  const auto& document = outcomes[0]->document;
  EXPECT_TRUE(document["interrupted"]);
  EXPECT_TRUE(document["problem"].is_null());
  EXPECT_GT(document["frames"]["written"], 0);
  EXPECT_LT(document["frames"]["written"], 100'000);
}

TEST_F(TeamTest, AnErrorOfOneRankEndsAllAndIsNamedWithIt) {
  std::ofstream(folder_ / "load-000000002.bin") << "in the way";
  const auto document = document_by_ranks(stream(1));
  EXPECT_NE(document["problem"].get<std::string>().find("rank 2: "), std::string::npos) << document["problem"];
  EXPECT_FALSE(document["interrupted"]);
}

TEST_F(TeamTest, AnErrorOfTheRankInTheMiddleInMidRunLeavesTheFiguresOfAll) {
  OneFileFailsEnv env("load-000000001.bin", 21);
  auto longer = stream(1);
  longer["workload"]["thread_bytes"] = 2000 * 65536;
  const auto outcomes = run_by_ranks(
      longer, [](auto, auto, const auto&) {}, 60, {}, env);
  ASSERT_TRUE(outcomes[0]) << outcomes[0].error().message();
  const auto& document = outcomes[0]->document;
  EXPECT_EQ(document["problem"], "rank 1: the device of load-000000001.bin is gone");
  EXPECT_FALSE(document["interrupted"]);
  ASSERT_EQ(document["phases"].size(), 1U);
  std::uint64_t bytes = 0;
  for (const auto& thread : document["phases"][0]["threads"]) {
    bytes += thread["bytes"].get<std::uint64_t>();
    EXPECT_LT(thread["bytes"], 2000 * 65536) << "it ended before it was done";
  }
  EXPECT_EQ(document["phases"][0]["bytes"], bytes);
  EXPECT_EQ(document["phases"][0]["threads"][1]["bytes"], 20 * 65536);
  EXPECT_EQ(document["job"]["parts"].size(), 3U);
}

TEST_F(TeamTest, ARankThatShowsNothingIsGivenUp) {
  const auto outcomes = run_by_ranks(slow_frames(30), [](auto, auto, const auto&) {}, 3, {2});
  const auto& document = outcomes[0]->document;
  const auto problem = document["problem"].get<std::string>();
  EXPECT_NE(problem.find("rank 2 has not reported progress"), std::string::npos) << problem;
  EXPECT_TRUE(outcomes[0]->left_behind) << "nobody waits for it at the end";
  EXPECT_EQ(document["job"]["parts"].size(), 2U);
}

TEST_F(TeamTest, WhatIsThereIsToldBeforeRanksThatMayNeverAnswer) {
  std::promise<Json> told;
  const auto partial = told.get_future().share();
  const auto answer_late = [&](unsigned rank) {
    const auto job = world_->rank(rank);
    JobTeam team(
        *job, stops_[rank], [] {}, 60);
    EXPECT_TRUE(team.start().ok());
    EXPECT_TRUE(team.meet(nullptr).ok());
    partial.wait();
    team.gather({{"document", nullptr},
                 {"problem", "it was late"},
                 {"failure", nullptr},
                 {"made", nullptr},
                 {"rank", team.describe()}},
                [](const auto&) {});
    job->stop();
  };
  const auto one = std::async(std::launch::async, answer_late, 1);
  const auto other = std::async(std::launch::async, answer_late, 2);
  const auto outcomes = run_by_ranks(slow_frames(100'000),
                                     [&](unsigned, std::string_view event, const Json& fields) {
                                       stops_[0] = true;
                                       if (event == "partial") told.set_value(fields["document"]);
                                     },
                                     60, {1, 2});
  EXPECT_EQ(partial.get()["problem"], "rank 1 has not reported; its metrics are missing");
  EXPECT_GT(partial.get()["frames"]["written"], 0);
  EXPECT_EQ(partial.get()["job"]["parts"].size(), 1U);
  EXPECT_EQ(outcomes[0]->document["problem"], "rank 1: it was late");
  EXPECT_EQ(outcomes[0]->document["job"]["parts"].size(), 3U);
}

TEST_F(TeamTest, NamesAreMadeAndFoundByAllRanksTogether) {
  auto plan = names(4);
  plan["workload"].update({{"depth", 1}, {"branch", 2}, {"shift", 2}, {"iterations", 2}});
  const auto document = document_by_ranks(plan);
  EXPECT_TRUE(document["problem"].is_null()) << document["problem"];
  const auto& metadata = document["metadata"];
  ASSERT_EQ(metadata["phases"].size(), 2 * metadata["times"].size());
  for (const auto& phase : metadata["phases"]) {
    const auto operation = phase["operation"].get<std::string>();
    EXPECT_EQ(phase["operations"], operation.starts_with("tree") ? 6 * 3 : 6 * 3 * 4) << operation;
    EXPECT_EQ(phase["complete"], true) << operation;
    EXPECT_GT(phase["first_done_s"].get<double>(), 0) << operation;
    EXPECT_GE(phase["last_done_s"], phase["first_done_s"]) << operation;
  }
  EXPECT_EQ(metadata["times"]["file_stat"]["count"], 2 * 6 * 3 * 4);
  EXPECT_EQ(metadata["waited_ns"].size(), 6U);
  EXPECT_EQ(document["job"]["ranks"], 3);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(TeamTest, ATreeThatRanksShareIsMadeByOneOfThem) {
  auto plan = names(4);
  plan["workload"]["shared"] = true;
  const auto document = document_by_ranks(plan);
  const auto& tree = document["metadata"]["phases"][0];
  EXPECT_EQ(tree["operations"], 1);
  EXPECT_EQ(tree["complete"], true);
  EXPECT_EQ(tree["first_done_s"], tree["last_done_s"]) << "only one had a part in it";
}

TEST_F(TeamTest, ARankThatMakesNoNameEndsAllWithWhatWasMeasured) {
  std::ofstream(folder_ / "load-000000003") << "in the way of rank 1";
  const auto document = document_by_ranks(names(4));
  const auto problem = document["problem"].dump();
  EXPECT_NE(problem.find("rank 1: make the folder load-000000003"), std::string::npos) << problem;
  EXPECT_FALSE(document["interrupted"]);
  const auto& phases = document["metadata"]["phases"];
  ASSERT_EQ(phases.size(), 1U);
  EXPECT_EQ(phases[0]["complete"], false) << "though the others have done their part";
  EXPECT_TRUE(phases[0]["last_done_s"].is_null());
}

TEST_F(TeamTest, WhoeverIsToldToEndEndsAllInNamesToo) {
  auto slow = names(1'000'000);
  slow["backend"] = {{"kind", "null"}, {"delay_s", 0.001}};
  std::atomic<std::uint64_t> most{0};
  const auto outcomes = run_by_ranks(slow, [&](unsigned rank, std::string_view event, const Json& fields) {
    if (event != "progress" || fields["phase"] != "folder_create") return;
    if (rank == job::lead) most = std::max(most.load(), fields["total"].get<std::uint64_t>());
    stops_[1] = most == 6'000'000;
  });
  const auto& document = outcomes[0]->document;
  EXPECT_TRUE(document["interrupted"]);
  EXPECT_TRUE(document["problem"].is_null()) << document["problem"];
  const auto& phases = document["metadata"]["phases"];
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(phases[0]["complete"], true);
  EXPECT_EQ(phases[1]["complete"], false);
  EXPECT_GT(phases[1]["operations"], 0);
}

TEST_F(TeamTest, MoreNamesThanARunMayMakeAreRefused) {
  auto plan = names(10'000'000);
  plan["workload"].update({{"threads", 40}, {"files", false}, {"file_bytes", 0}});
  EXPECT_TRUE(LoadPlan::from_json(plan.dump())) << "a rank alone may make them";
  const auto outcomes = run_by_ranks(plan, [](auto, auto, const auto&) {});
  ASSERT_FALSE(outcomes[0]);
  EXPECT_EQ(outcomes[0].error().message(),
            "rank 0: workload.items: 10000000 makes 1200000120 files and directories, which exceeds the maximum of "
            "1000000000");
}

TEST_F(TeamTest, FewerFramesThanRanksAreRefused) {
  const auto outcomes = run_by_ranks(slow_frames(2), [](auto, auto, const auto&) {});
  ASSERT_FALSE(outcomes[0]);
  EXPECT_EQ(outcomes[0].error().message(), "rank 0: workload.frames is 2, expected one for each of 3 ranks at least");
}

}  // namespace
}  // namespace penstock::load
