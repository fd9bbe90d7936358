#include "load_hdf5/store_backend.hpp"

#include <filesystem>
#include <fstream>

#include "../support/fault_env.hpp"
#include "load_fixture.hpp"

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
      return load_hdf5::make_store_backend(chosen, context.env);
    };
    auto outcome = run_load(*parsed, {env, emit, stop, no_team(), make});
    EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().message());
    return outcome ? std::move(outcome->document) : Json();
  }
};

TEST_F(StoreFiles, WhatThreadsWroteIsReadBackWhole) {
  for (const bool shared : {false, true})
    for (const auto* order : {"sequential", "random"})
      // Transfers that are copied into segments, and some that are written from where they are; fewer than fill one.
      for (const unsigned transfer : {4096U, 65536U, 1U << 20}) {
        std::filesystem::remove_all(folder_);
        std::filesystem::create_directories(folder_);
        const auto document = stored(plan({{"shared", shared},
                                           {"segments", shared ? 5 : 1},
                                           {"order", order},
                                           {"thread_bytes", 40 * transfer},
                                           {"transfer_bytes", transfer}}));
        EXPECT_TRUE(document["problem"].is_null()) << document["problem"];
        ASSERT_EQ(document["phases"].size(), 2U);
        for (const auto& phase : document["phases"]) EXPECT_EQ(phase["operations"], 120);
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
  std::ifstream file(folder_ / "stream-000000000.bin", std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), there);
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
