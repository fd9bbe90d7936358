#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "../support/fault_env.hpp"
#include "load_fixture.hpp"

namespace penstock::load {
namespace {

class Stream : public LoadTest {
 protected:
  Json plan(bool direct = false) const {
    return {{"backend", {{"kind", "posix"}, {"folder", folder_.string()}, {"direct", direct}, {"sync", "end"}}},
            {"workload",
             {{"kind", "stream"},
              {"threads", 3},
              {"thread_bytes", 40 * 65536},
              {"transfer_bytes", 65536},
              {"verify", true}}},
            {"prefix", "stream-"}};
  }
};

TEST_F(Stream, WritesAndReadsBackEveryByte) {
  for (const bool direct : {false, true}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    const auto document = document_of(plan(direct));
    ASSERT_EQ(document["phases"].size(), 2U);
    for (const auto& phase : document["phases"]) {
      EXPECT_EQ(phase["bytes"], 3 * 40 * 65536);
      EXPECT_EQ(phase["operations"], 3 * 40);
      EXPECT_EQ(phase["times"]["service"]["count"], 3 * 40);
      for (const auto& thread : phase["threads"]) EXPECT_GT(thread["done_s"].get<double>(), 0);
    }
    EXPECT_EQ(document["phases"][0]["phase"], "write");
    EXPECT_TRUE(document["phases"][0]["mismatches"].is_null());
    EXPECT_EQ(document["phases"][1]["mismatches"], 0);
    EXPECT_TRUE(document["problem"].is_null());
  }
}

/// Changes a byte of each file when reading begins.
class RottenEnv final : public Env {
 public:
  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) override {
    if (options.mode == OpenOptions::Mode::read) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(5 * 65536 + 1000);
      const int before = file.peek();
      file.seekp(5 * 65536 + 1000);
      file.put(static_cast<char>(before ^ 1));
    }
    return posix_env().open(path, options);
  }
  Result<std::uint64_t> free_bytes(const std::string& path) override { return posix_env().free_bytes(path); }
  Result<std::vector<std::string>> list(const std::string& folder) override { return posix_env().list(folder); }
  Result<void> remove(const std::string& path) override { return posix_env().remove(path); }
};

TEST_F(Stream, ABitThatStorageTurnedIsFound) {
  RottenEnv env;
  const auto document = document_of(plan(), env);
  EXPECT_EQ(document["phases"][1]["mismatches"], 3) << "one block of each file";
}

TEST_F(Stream, SaysHowMuchOfAReadWasInMemory) {
  auto unsynced = plan();
  unsynced["backend"]["sync"] = "none";
  const auto cached = document_of(unsynced)["phases"][1]["cached_bytes"];
  ASSERT_TRUE(cached.is_number());
  EXPECT_GT(cached.get<std::uint64_t>(), 0U) << "what is not on storage cannot be forgotten";
}

TEST_F(Stream, AnErrorEndsThePhaseForAll) {
  testing::FaultEnv env;
  std::atomic<int> writes{0};
  env.faults->on_write = [&](auto, auto) -> Result<void> {
    const auto number = ++writes;
    if (number == 20) return make_error(Errc::io, "the device is gone");
    if (number > 20) std::this_thread::sleep_for(std::chrono::milliseconds(20));  // time for the others to hear of it
    return {};
  };
  const auto document = document_of(plan(), env);
  ASSERT_EQ(document["phases"].size(), 1U);
  EXPECT_NE(document["problem"].get<std::string>().find("the device is gone"), std::string::npos);
  EXPECT_LT(document["phases"][0]["operations"].get<int>(), 60) << "of 120";
}

TEST_F(Stream, ALimitOfTimeEndsAPhaseAndTheNextReadsWhatThereIs) {
  auto slow = Json{{"backend", {{"kind", "null"}, {"delay_s", 0.005}}},
                   {"workload",
                    {{"kind", "stream"},
                     {"threads", 2},
                     {"thread_bytes", 1000 * 1000},
                     {"transfer_bytes", 1000},
                     {"seconds_max", 0.1}}}};
  const auto document = document_of(slow);
  ASSERT_EQ(document["phases"].size(), 2U);
  const auto wrote = document["phases"][0]["operations"].get<int>();
  EXPECT_GT(wrote, 0);
  EXPECT_LE(wrote, 42);
  EXPECT_LE(document["phases"][1]["operations"].get<int>(), wrote);
}

TEST_F(Stream, StorageThatHangsIsLeftBehind) {
  const auto hanging =
      Json{{"backend", {{"kind", "null"}, {"freeze_at_s", 0}, {"freeze_s", 3}}},
           {"workload", {{"kind", "stream"}, {"threads", 2}, {"thread_bytes", 4000}, {"transfer_bytes", 1000}}},
           {"drain_timeout_s", 0.2}};
  auto outcome = run(hanging);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->left_behind);
  EXPECT_EQ(outcome->document["problem"], "2 threads hang in the storage");
  EXPECT_TRUE(outcome->document["phases"][0]["threads"][0]["done_s"].is_null());
}

}  // namespace
}  // namespace penstock::load
