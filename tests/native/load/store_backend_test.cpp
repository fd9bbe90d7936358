#include "load_hdf5/store_backend.hpp"

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <utility>

#include "../support/fault_env.hpp"
#include "../support/rounds.hpp"
#include "../support/whole_file.hpp"
#include "load_fixture.hpp"
#include "team_fixture.hpp"

namespace penstock::load {
namespace {

class StoreFiles : public LoadTest {
 protected:
  Json plan(const Json& workload = Json::object()) const {
    Json plan = {{"backend", {{"kind", "store"}, {"folder", folder_.string()}, {"direct", false}}},
                 {"workload",
                  {{"kind", "stream"},
                   {"threads", 3},
                   {"thread_bytes", 40 * 65536},
                   {"transfer_bytes", 65536},
                   {"verify", true}}},
                 {"prefix", "stream-"}};
    plan["workload"].update(workload);
    return plan;
  }
  Json stored(const Json& plan, Env& env = posix_env()) {
    const auto parsed = LoadPlan::from_json(plan.dump());
    EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message());
    const auto emit = [](std::string_view, const Json&) {};
    const auto make = [](const LoadPlan& chosen, const RunContext& context) -> Result<std::shared_ptr<Backend>> {
      return load_hdf5::make_store_backend(chosen, context.team, context.env);
    };
    auto outcome = run_load(*parsed, {env, emit, stop, no_team(), make});
    EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().message());
    return outcome ? std::move(outcome->document) : Json();
  }
};

TEST_F(StoreFiles, WhatThreadsWroteIsReadBackWhole) {
  constexpr auto transfers = testing::rounds(40U, 4U);  // of a thread
  for (const bool shared : {false, true})
    for (const auto* order : {"sequential", "random"})
      // Transfers that are copied into segments, and some that are written from where they are; fewer than fill one.
      for (const unsigned transfer : {4096U, 65536U, 1U << 20}) {
        std::filesystem::remove_all(folder_);
        std::filesystem::create_directories(folder_);
        const auto document = stored(plan({{"shared", shared},
                                           {"segments", shared ? 5 : 1},
                                           {"order", order},
                                           {"thread_bytes", transfers * transfer},
                                           {"transfer_bytes", transfer}}));
        EXPECT_TRUE(document["problem"].is_null()) << document["problem"];
        ASSERT_EQ(document["phases"].size(), 2U);
        for (const auto& phase : document["phases"]) EXPECT_EQ(phase["operations"], 3 * transfers);
        EXPECT_EQ(document["phases"][1]["mismatches"], 0);
        EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), shared ? 1 : 3);
      }
}

TEST_F(StoreFiles, TellsHowLongItsOwnThreadsWaitedForAProcessor) {
  for (const bool shared : {false, true}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    const auto document = stored(plan({{"thread_bytes", 16 << 20}, {"transfer_bytes", 1 << 20}, {"shared", shared}}));
    const auto& phases = document["phases"];
    ASSERT_TRUE(phases[0]["storage_waited_ns"].is_number_integer()) << shared;
    EXPECT_GE(phases[0]["storage_waited_ns"], 0);
    EXPECT_TRUE(phases[1]["storage_waited_ns"].is_null()) << "they are gone when it is read";
  }
  auto posix = plan();
  posix["backend"]["kind"] = "posix";
  EXPECT_TRUE(document_of(posix)["phases"][0]["storage_waited_ns"].is_null()) << "it has none";
}

TEST_F(StoreFiles, ARunThatEndsEarlyLeavesWholeFiles) {
  const auto document = stored(plan({{"seconds_max", 1e-9}, {"shared", true}}));
  EXPECT_TRUE(document["problem"].is_null()) << document["problem"];
  EXPECT_EQ(document["phases"][0]["operations"], document["phases"][1]["operations"]);
  EXPECT_EQ(document["phases"][1]["mismatches"], 0);
}

TEST_F(StoreFiles, StorageThatTakesNoMoreIsAProblem) {
  testing::FaultEnv env;
  env.faults->on_write = [](std::uint64_t offset, std::uint64_t) -> Result<void> {
    if (offset > 20 << 20) return make_error(Errc::no_space, "no space left on the device");
    return {};
  };
  for (const bool shared : {false, true}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    const auto document =
        stored(plan({{"thread_bytes", 60 << 20}, {"transfer_bytes", 1 << 20}, {"shared", shared}}), env);
    ASSERT_TRUE(document["problem"].is_string());
    EXPECT_NE(document["problem"].get<std::string>().find("no space"), std::string::npos) << document["problem"];
    EXPECT_EQ(document["phases"].size(), 1U);
  }
}

TEST_F(StoreFiles, AFileThatIsThereIsNotOverwritten) {
  std::filesystem::create_directories(folder_);
  const std::string there(100'000, 'x');
  std::ofstream(folder_ / "stream-000000000.bin", std::ios::binary) << there;
  const auto document = stored(plan());
  EXPECT_NE(document["problem"].get<std::string>().find("stream-000000000.bin"), std::string::npos);
  EXPECT_EQ(whole_file(folder_ / "stream-000000000.bin"), there);
}

class StoreOfRanks : public TeamTest {
 protected:
  void SetUp() override {
    TeamTest::SetUp();
    make_other_ = [](const LoadPlan& chosen, const RunContext& context) -> Result<std::shared_ptr<Backend>> {
      return load_hdf5::make_store_backend(chosen, context.team, context.env);
    };
  }
  Json plan(const Json& workload = Json::object()) const {
    Json plan = {{"backend", {{"kind", "store"}, {"folder", folder_.string()}, {"direct", false}}},
                 {"workload",
                  {{"kind", "stream"},
                   {"threads", 2},
                   {"thread_bytes", 40 * 65536},
                   {"transfer_bytes", 65536},
                   {"shared", true},
                   {"verify", true}}}};
    plan["workload"].update(workload);
    return plan;
  }
  static void nothing(unsigned, std::string_view, const Json&) {}
};

TEST_F(StoreOfRanks, WhatTheyWroteTogetherIsReadBackWhole) {
  for (const bool shared : {true, false})
    for (const unsigned transfer : {4096U, 65536U, 1U << 20}) {
      std::filesystem::remove_all(folder_);
      std::filesystem::create_directories(folder_);
      const auto document = document_by_ranks(plan({{"shared", shared},
                                                    {"segments", shared ? 5 : 1},
                                                    {"order", "random"},
                                                    {"thread_bytes", 40 * transfer},
                                                    {"transfer_bytes", transfer}}));
      EXPECT_TRUE(document["problem"].is_null()) << document["problem"];
      ASSERT_EQ(document["phases"].size(), 2U);
      for (const auto& phase : document["phases"]) EXPECT_EQ(phase["operations"], 6 * 40);
      EXPECT_EQ(document["phases"][1]["mismatches"], 0);
      for (const auto& thread : document["phases"][0]["threads"]) EXPECT_GT(thread["done_s"].get<double>(), 0);
      EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), shared ? 1 : 6);
    }
}

TEST_F(StoreOfRanks, ARunThatEndsEarlyLeavesAWholeFile) {
  const auto document = document_by_ranks(plan({{"seconds_max", 1e-9}}));
  EXPECT_TRUE(document["problem"].is_null()) << document["problem"];
  EXPECT_EQ(document["phases"][0]["operations"], document["phases"][1]["operations"]);
  EXPECT_EQ(document["phases"][1]["mismatches"], 0);
}

/// Storage that takes no more behind the first 20 MiB from whoever opened the file so.
class HalfGoneEnv final : public Env {
 public:
  explicit HalfGoneEnv(OpenOptions::Mode of) : of_(of) {
    failing_.faults->on_write = [](std::uint64_t offset, std::uint64_t) -> Result<void> {
      if (offset > 20 << 20) return make_error(Errc::io, "the device is gone");
      return {};
    };
  }
  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) override {
    return options.mode == of_ ? failing_.open(path, options) : posix_env().open(path, options);
  }
  Result<std::uint64_t> free_bytes(const std::string& path) override { return posix_env().free_bytes(path); }
  Result<std::vector<std::string>> list(const std::string& folder) override { return posix_env().list(folder); }
  Result<void> remove(const std::string& path) override { return posix_env().remove(path); }

 private:
  const OpenOptions::Mode of_;
  testing::FaultEnv failing_;
};

TEST_F(StoreOfRanks, RanksWhoseStorageFailsEndAllOfThem) {
  // The lead makes the file, and the others join it.
  for (const auto mode : {OpenOptions::Mode::create_new, OpenOptions::Mode::update}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    HalfGoneEnv env(mode);
    const auto outcomes =
        run_by_ranks(plan({{"thread_bytes", 16 << 20}, {"transfer_bytes", 1 << 20}}), nothing, 60, {}, env);
    ASSERT_TRUE(outcomes[0]) << outcomes[0].error().message();
    const auto& document = outcomes[0]->document;
    EXPECT_NE(document["problem"].dump().find("the device is gone"), std::string::npos) << document["problem"];
    for (const auto& outcome : outcomes) EXPECT_FALSE(outcome->left_behind) << "nobody waits for what does not come";
    EXPECT_EQ(document["phases"].size(), 1U);
    EXPECT_EQ(document["job"]["parts"].size(), 3U);
  }
}

/// Not where a killed recorder may have left one, nor before the file is made.
bool joins(const std::string& path, const OpenOptions& options) {
  return options.mode == OpenOptions::Mode::update && !path.ends_with(".new") && std::filesystem::exists(path);
}

/// Puts another file in the place of the one that a rank is about to join.
class OtherFileEnv final : public Env {
 public:
  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) override {
    if (joins(path, options)) {
      std::lock_guard lock(mutex_);
      if (!std::exchange(replaced_, true)) {
        std::filesystem::rename(path, path + ".moved");
        std::ofstream(path) << "somebody's own";
      }
    }
    return posix_env().open(path, options);
  }
  Result<std::uint64_t> free_bytes(const std::string& path) override { return posix_env().free_bytes(path); }
  Result<std::vector<std::string>> list(const std::string& folder) override { return posix_env().list(folder); }
  Result<void> remove(const std::string& path) override { return posix_env().remove(path); }

 private:
  std::mutex mutex_;
  bool replaced_ = false;
};

TEST_F(StoreOfRanks, ARankThatFindsAnotherFileDoesNotWriteToIt) {
  OtherFileEnv env;
  const auto outcomes = run_by_ranks(plan(), nothing, 60, {}, env);
  ASSERT_TRUE(outcomes[0]) << outcomes[0].error().message();
  const auto problem = outcomes[0]->document["problem"].dump();
  // The lead finds at the end that its own file is elsewhere, unless somebody's error came first.
  const auto tells = [&](const char* words) { return problem.find(words) != std::string::npos; };
  EXPECT_TRUE(tells("load-000000000.bin is not the file that was created") || tells("removed or replaced during"))
      << problem;
  EXPECT_FALSE(outcomes[0]->left_behind) << "the lead does not wait for who does not come";
  EXPECT_EQ(whole_file(folder_ / "load-000000000.bin"), "somebody's own");
}

/// As a client of a network file system that shows another client's file late.
class LateEnv final : public Env {
 public:
  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) override {
    if (joins(path, options) && ++joined_ <= late_opens) return errno_error(ENOENT, "open " + path);
    return posix_env().open(path, options);
  }
  Result<std::uint64_t> free_bytes(const std::string& path) override { return posix_env().free_bytes(path); }
  Result<std::vector<std::string>> list(const std::string& folder) override { return posix_env().list(folder); }
  Result<void> remove(const std::string& path) override { return posix_env().remove(path); }

  static constexpr int late_opens = 5;
  int joined() const { return joined_; }

 private:
  std::atomic<int> joined_{0};
};

TEST_F(StoreOfRanks, RanksThatDoNotSeeTheFileAtOnceJoinItAllTheSame) {
  LateEnv env;
  const auto outcomes = run_by_ranks(plan(), nothing, 60, {}, env);
  ASSERT_TRUE(outcomes[0]) << outcomes[0].error().message();
  const auto& document = outcomes[0]->document;
  EXPECT_TRUE(document["problem"].is_null()) << document["problem"];
  EXPECT_EQ(document["phases"][1]["mismatches"], 0);
  EXPECT_GT(env.joined(), LateEnv::late_opens);
}

TEST_F(StoreOfRanks, MoreTransfersThanAFileTakesAreRefusedOfAllRanksTogether) {
  const auto much = plan({{"thread_bytes", 0x5000'0000ULL * 512}, {"transfer_bytes", 512}});
  EXPECT_TRUE(LoadPlan::from_json(much.dump())) << "of one rank";
  const auto outcomes = run_by_ranks(much, nothing);
  ASSERT_FALSE(outcomes[0]);
  EXPECT_NE(outcomes[0].error().message().find("8053063680 transfers in a file"), std::string::npos)
      << outcomes[0].error().message();
}

TEST_F(StoreFiles, IsForStreamsAndForQueues) {
  auto frames = plan();
  frames["workload"] = {{"kind", "frames"}, {"frames", 3}, {"frame_bytes", 1000}, {"rate_hz", 100}};
  auto each = plan(), alone = plan();
  each["backend"]["sync"] = "each";
  alone["backend"]["queue_depth"] = 1;
  for (const auto& wrong : {frames, each, alone}) EXPECT_FALSE(LoadPlan::from_json(wrong.dump())) << wrong;
}

}  // namespace
}  // namespace penstock::load
