#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "../support/fault_env.hpp"
#include "load/workloads/content.hpp"
#include "load/workloads/permutation.hpp"
#include "load_fixture.hpp"
#include "one_file_fails.hpp"

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

/// How many transfers of a file are what the seed says for their place.
int right_transfers(const std::filesystem::path& path, int transfers) {
  const Content content(ContentKind::random, 1, 65536, static_cast<std::uint64_t>(transfers));
  std::vector<std::byte> ground(content.ground_bytes()), stored(65536);
  content.lay(ground);
  std::ifstream file(path, std::ios::binary);
  int right = 0;
  for (int i = 0; i < transfers; ++i) {
    file.read(reinterpret_cast<char*>(stored.data()), 65536);
    if (content.is_block(stored, ground, 0, static_cast<std::uint64_t>(i) * 65536)) ++right;
  }
  return right;
}

TEST_F(Stream, ASharedFileIsFilledByAllThreadsAndReadBack) {
  for (const auto* order : {"sequential", "random"})
    for (const int segments : {1, 8, 40}) {
      std::filesystem::remove_all(folder_);
      std::filesystem::create_directories(folder_);
      auto shared = plan();
      shared["workload"].update({{"shared", true}, {"segments", segments}, {"order", order}});
      const auto document = document_of(shared);
      EXPECT_TRUE(document["problem"].is_null()) << document["problem"];
      ASSERT_EQ(document["phases"].size(), 2U);
      EXPECT_EQ(document["phases"][1]["operations"], 120);
      EXPECT_EQ(document["phases"][1]["mismatches"], 0);
      ASSERT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
      const auto path = folder_ / "stream-000000000.bin";
      ASSERT_EQ(std::filesystem::file_size(path), 120U * 65536);
      EXPECT_EQ(right_transfers(path, 120), 120) << order << " " << segments;
    }
}

TEST_F(Stream, SeveralTransfersOfAThreadAreUnderWayAtOnce) {
  for (const auto* order : {"sequential", "random"})
    for (const bool shared : {false, true})
      for (const int depth : {2, 64}) {
        std::filesystem::remove_all(folder_);
        std::filesystem::create_directories(folder_);
        auto queued = plan();
        queued["backend"].update({{"queue_depth", depth}, {"sync", "end"}});
        queued["workload"].update({{"order", order}, {"shared", shared}, {"segments", shared ? 8 : 1}});
        const auto document = document_of(queued);
        EXPECT_TRUE(document["problem"].is_null()) << document["problem"];
        EXPECT_EQ(document["storage"]["queue_depth"], depth);
        ASSERT_EQ(document["phases"].size(), 2U);
        for (const auto& phase : document["phases"]) EXPECT_EQ(phase["operations"], 120);
        EXPECT_EQ(document["phases"][1]["mismatches"], 0);
        if (shared) {
          EXPECT_EQ(right_transfers(folder_ / "stream-000000000.bin", 120), 120) << order << " " << depth;
        }
      }
}

TEST_F(Stream, AQueueThatIsEndedEarlyHasWrittenWhatItCounts) {
  auto queued = plan();
  queued["backend"].update({{"queue_depth", 16}, {"sync", "none"}});
  queued["workload"].update({{"seconds_max", 1e-9}});
  const auto document = document_of(queued);
  EXPECT_TRUE(document["problem"].is_null()) << document["problem"];
  EXPECT_EQ(document["phases"][0]["operations"], document["phases"][1]["operations"]);
  EXPECT_EQ(document["phases"][1]["mismatches"], 0);
}

TEST_F(Stream, AWriteThatIsCutShortInAQueueIsAnError) {
  Json document;
  {
    const FileSizeLimit limited(10 * 65536 + 1000);
    auto queued = plan();
    queued["backend"].update({{"queue_depth", 4}, {"sync", "end"}, {"direct", false}});
    document = document_of(queued);
  }
  ASSERT_TRUE(document["problem"].is_string());
  EXPECT_NE(document["problem"].get<std::string>().find("write"), std::string::npos) << document["problem"];
  EXPECT_EQ(document["phases"].size(), 1U);
  EXPECT_LE(document["phases"][0]["operations"].get<int>(), 30);
}

TEST_F(Stream, AQueueNeedsFilesOfTheKernelAndNoSyncOfEach) {
  testing::FaultEnv env;
  auto queued = plan();
  queued["backend"].update({{"queue_depth", 4}, {"sync", "end"}});
  const auto document = document_of(queued, env);
  EXPECT_NE(document["problem"].get<std::string>().find("io_uring"), std::string::npos) << document["problem"];
  queued["backend"]["sync"] = "each";
  const auto refused = LoadPlan::from_json(queued.dump());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("queue_depth"), std::string::npos) << refused.error().message();
}

/// Notes where each thread writes and reads.
class PlacesEnv final : public Env {
 public:
  class Noted final : public File {
   public:
    Noted(std::shared_ptr<File> real, PlacesEnv& env) : real_(std::move(real)), env_(env) {}
    Result<std::size_t> read_at(MutableBytes into, std::uint64_t offset) override {
      env_.note(false, offset);
      return real_->read_at(into, offset);
    }
    Result<void> write_at(std::span<const iovec> pieces, std::uint64_t offset) override {
      env_.note(true, offset);
      return real_->write_at(pieces, offset);
    }
    Result<void> sync() override { return real_->sync(); }
    Result<void> sync_name() override { return real_->sync_name(); }
    Result<void> truncate(std::uint64_t size) override { return real_->truncate(size); }
    Result<void> reserve(std::uint64_t offset, std::uint64_t size) override { return real_->reserve(offset, size); }
    bool reserves() const override { return real_->reserves(); }
    Result<std::uint64_t> size() override { return real_->size(); }
    Result<void> lock(bool exclusive) override { return real_->lock(exclusive); }
    Result<void> unlock() override { return real_->unlock(); }
    bool direct() const override { return real_->direct(); }
    bool still_named() const override { return real_->still_named(); }

   private:
    const std::shared_ptr<File> real_;
    PlacesEnv& env_;
  };
  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) override {
    PEN_ASSIGN(auto real, posix_env().open(path, options));
    return std::shared_ptr<File>(std::make_shared<Noted>(std::move(real), *this));
  }
  Result<std::uint64_t> free_bytes(const std::string& path) override { return posix_env().free_bytes(path); }
  Result<std::vector<std::string>> list(const std::string& folder) override { return posix_env().list(folder); }
  Result<void> remove(const std::string& path) override { return posix_env().remove(path); }

  void note(bool write, std::uint64_t offset) {
    std::lock_guard lock(mutex_);
    (write ? written : read)[std::this_thread::get_id()].push_back(offset / 65536);
  }
  using Places = std::map<std::thread::id, std::vector<std::uint64_t>>;
  Places written, read;

 private:
  std::mutex mutex_;
};

TEST_F(Stream, ThreadsReadWhatAnotherOneWroteInAnOrderOfTheirOwn) {
  for (const std::string order : {"sequential", "random"}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    PlacesEnv env;
    auto shared = plan();
    shared["workload"].update({{"shared", true}, {"segments", 40}, {"order", order}});
    document_of(shared, env);
    ASSERT_EQ(env.written.size(), 3U);
    std::set<std::vector<std::uint64_t>> written, read, in_order;
    for (auto& [thread, places] : env.written) {
      EXPECT_EQ(std::is_sorted(places.begin(), places.end()), order == "sequential");
      for (const auto place : places) EXPECT_EQ(place % 3, places.front() % 3) << "every third block is a thread's";
      written.insert(places);
      std::sort(places.begin(), places.end());
      in_order.insert(places);
    }
    for (auto& [thread, places] : env.read) {
      EXPECT_EQ(written.count(places), order == "sequential" ? 1U : 0U);
      std::sort(places.begin(), places.end());
      EXPECT_EQ(in_order.count(places), 1U);
    }
    EXPECT_EQ(in_order.size(), 3U);
  }
}

TEST_F(Stream, RandomOrderCutShortReadsWhatWasWritten) {
  testing::FaultEnv env;
  env.faults->on_write = [](auto, auto) -> Result<void> {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return {};
  };
  auto shared = plan();
  shared["workload"].update({{"shared", true}, {"segments", 8}, {"order", "random"}, {"seconds_max", 0.6}});
  const auto document = document_of(shared, env);
  ASSERT_EQ(document["phases"].size(), 2U);
  const auto wrote = document["phases"][0]["operations"].get<int>();
  EXPECT_GT(wrote, 0);
  EXPECT_LT(wrote, 120);
  EXPECT_TRUE(document["problem"].is_null());
  EXPECT_EQ(document["phases"][1]["mismatches"], 0);
}

TEST(Permutation, HasEachNumberOnce) {
  for (const std::uint64_t bound : {1U, 2U, 3U, 5U, 64U, 1000U, 4097U}) {
    std::set<std::uint64_t> numbers;
    std::vector<std::uint64_t> order;
    const Permutation one(bound, 7), other(bound, 8);
    for (std::uint64_t i = 0; i < bound; ++i) {
      order.push_back(one.at(i));
      numbers.insert(one.at(i));
      EXPECT_LT(one.at(i), bound);
    }
    EXPECT_EQ(numbers.size(), bound);
    if (bound < 64) continue;
    std::uint64_t same = 0, ascents = 0;
    for (std::uint64_t i = 0; i < bound; ++i) {
      if (other.at(i) == order[i]) ++same;
      if (i > 0 && order[i] > order[i - 1]) ++ascents;
    }
    EXPECT_LT(same, bound / 8) << "another key, another order";
    EXPECT_NEAR(static_cast<double>(ascents), static_cast<double>(bound) / 2, static_cast<double>(bound) / 6);
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
    if (number > 20) std::this_thread::sleep_for(std::chrono::milliseconds(100));  // time for the others to hear of it
    return {};
  };
  const auto document = document_of(plan(), env);
  ASSERT_EQ(document["phases"].size(), 1U);
  EXPECT_NE(document["problem"].get<std::string>().find("the device is gone"), std::string::npos);
  EXPECT_LT(document["phases"][0]["operations"].get<int>(), 119) << "not all but the one that failed";
}

TEST_F(Stream, AThreadInTheMiddleThatFailsEndsTheOthersSoonAndTheirFiguresCount) {
  OneFileFailsEnv env("stream-000000002.bin", 11);
  auto five = plan();
  five["workload"].update({{"threads", 5}, {"thread_bytes", 2000 * 65536}});
  const auto document = document_of(five, env);
  EXPECT_EQ(document["problem"], "the device of stream-000000002.bin is gone");
  ASSERT_EQ(document["phases"].size(), 1U) << "what is not whole is not read";
  const auto& phase = document["phases"][0];
  ASSERT_EQ(phase["threads"].size(), 5U);
  std::uint64_t bytes = 0;
  for (std::size_t number = 0; number < 5; ++number) {
    const auto& thread = phase["threads"][number];
    bytes += thread["bytes"].get<std::uint64_t>();
    EXPECT_EQ(thread["done_s"].is_null(), number == 2) << number;
    EXPECT_LT(thread["bytes"], 2000 * 65536) << "it ended before it was done";
    EXPECT_EQ(thread["bytes"], std::filesystem::file_size(folder_ / fmt::format("stream-{:09}.bin", number)));
  }
  EXPECT_EQ(phase["threads"][2]["bytes"], 10 * 65536);
  EXPECT_EQ(phase["bytes"], bytes);
  EXPECT_EQ(phase["times"]["service"]["count"], bytes / 65536);
  EXPECT_EQ(phase["operations"], bytes / 65536);
}

TEST_F(Stream, TellsHowLongItComparedWhatItRead) {
  auto verified = plan();
  verified["workload"].update({{"thread_bytes", 400 * 65536}});
  const auto document = document_of(verified);
  EXPECT_TRUE(document["phases"][0]["verify_ns"].is_null());
  const auto& read = document["phases"][1];
  const auto compared_ns = read["verify_ns"].get<std::int64_t>();
  // A processor compares less than 200 GB/s; and threads do nothing else while they compare.
  EXPECT_GT(compared_ns, 3 * 400 * 65536 / 200);
  double busy_s = 0, reading_s = 0;
  for (const auto& thread : read["threads"]) busy_s += thread["done_s"].get<double>();
  for (const auto& bucket : read["times"]["service"]["buckets"])
    reading_s += bucket[0].get<double>() * bucket[2].get<double>() * 1e-9;
  EXPECT_LT(static_cast<double>(compared_ns) * 1e-9 + reading_s, busy_s);
  verified["workload"]["verify"] = false;
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directories(folder_);
  const auto unverified = document_of(verified);
  ASSERT_EQ(unverified["phases"].size(), 2U) << unverified["problem"];
  EXPECT_TRUE(unverified["phases"][1]["verify_ns"].is_null());
}

TEST_F(Stream, TellsHowLongItMadeWhatItWrote) {
  for (const unsigned depth : {1, 4}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    auto written = plan();
    written["workload"].update({{"thread_bytes", 400 * 65536}});
    written["backend"].update({{"queue_depth", depth}, {"sync", "end"}});
    const auto document = document_of(written);
    ASSERT_TRUE(document["problem"].is_null()) << document["problem"];
    const auto& write = document["phases"][0];
    const auto made_ns = write["fill_ns"].get<std::int64_t>();
    // Each sector has a number of its own: no processor has ten of them in a nanosecond.
    EXPECT_GT(made_ns, 3 * 400 * 65536 / 512 / 10);
    double busy_s = 0;
    for (const auto& thread : write["threads"]) busy_s += thread["done_s"].get<double>();
    EXPECT_LT(static_cast<double>(made_ns) * 1e-9, busy_s);
    EXPECT_TRUE(document["phases"][1]["fill_ns"].is_null());
  }
}

TEST_F(Stream, ALimitOfTimeEndsAPhaseAndTheNextReadsWhatThereIs) {
  auto slow = Json{{"backend", {{"kind", "null"}, {"delay_s", 0.005}}},
                   {"workload",
                    {{"kind", "stream"},
                     {"threads", 2},
                     {"thread_bytes", 1000 * 1000},
                     {"transfer_bytes", 1000},
                     {"seconds_max", 0.6}}}};
  const auto document = document_of(slow);
  ASSERT_EQ(document["phases"].size(), 2U);
  const auto wrote = document["phases"][0]["operations"].get<int>();
  EXPECT_GT(wrote, 0);
  EXPECT_LE(wrote, 2 * 121) << "each takes 5 ms";
  EXPECT_LE(document["phases"][1]["operations"].get<int>(), wrote);
}

/// New threads want more address space than there is, so that there are none.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 48);
    EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

TEST_F(Stream, ALimitOnThreadsIsAnErrorOfEveryWorkload) {
  const std::vector<Json> workloads = {
      {{"kind", "stream"}, {"threads", 3}, {"thread_bytes", 4000}, {"transfer_bytes", 1000}},
      {{"kind", "frames"}, {"frames", 3}, {"frame_bytes", 1000}, {"rate_hz", 100}, {"buffer_frames", 2}},
      {{"kind", "metadata"}, {"threads", 2}, {"items", 3}}};
  for (const auto& workload : workloads) {
    const Json plan = {{"backend", {{"kind", "null"}}}, {"workload", workload}};
    std::string said;
    {
      const NoThreads none;
      const auto outcome = run(plan);
      said = outcome.ok() ? outcome->document["problem"].dump() : outcome.error().message();
    }
    EXPECT_NE(said.find("pids.max"), std::string::npos) << workload << ": " << said;
    EXPECT_TRUE(document_of(plan)["problem"].is_null()) << "and afterwards it goes";
  }
}

/// No file is opened until it is let go. Threads that are left behind use it: it is never taken down.
class HangingEnv final : public Env {
 public:
  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions) override {
    gone_.wait_for(std::chrono::minutes(2));
    ++opened_;
    return make_error(Errc::io, "open {}: after all", path);
  }
  /// Calls that came back so far.
  int opened() const { return opened_; }
  void let_go() { go_.set_value(); }
  Result<std::uint64_t> free_bytes(const std::string&) override { return make_error(Errc::io, "no answer"); }
  Result<std::vector<std::string>> list(const std::string&) override { return make_error(Errc::io, "no answer"); }
  Result<void> remove(const std::string&) override { return make_error(Errc::io, "no answer"); }

 private:
  std::promise<void> go_;
  const std::shared_future<void> gone_ = go_.get_future().share();
  std::atomic<int> opened_{0};
};

TEST_F(Stream, StorageThatHangsBeforeAnythingIsMeasuredIsAnErrorInTime) {
  static auto& hanging = *new HangingEnv;
  auto shared = plan();
  shared["workload"]["shared"] = true;
  shared["drain_timeout_s"] = 0.2;
  const auto outcome = run(shared, hanging);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code(), Errc::timed_out);
  EXPECT_NE(outcome.error().message().find("stream-000000000.bin"), std::string::npos) << outcome.error().message();
  shared["drain_timeout_s"] = 120;
  stop = true;
  const auto stopped = run(shared, hanging);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), Errc::cancelled);
  EXPECT_EQ(hanging.opened(), 0) << "the storage hangs still";
  hanging.let_go();
}

TEST_F(Stream, AFolderThatIsReplacedByALinkLeadsNowhereElse) {
  const auto users = folder_ / "users", given = folder_ / "given", moved = folder_ / "moved";
  std::filesystem::create_directories(users);
  std::filesystem::create_directories(given);
  const auto backend = make_posix_backend({given.string(), false, Sync::none}, posix_env());
  ASSERT_TRUE(backend->create("a").ok());
  std::filesystem::rename(given, moved);
  std::filesystem::create_directory_symlink(users, given);
  ASSERT_TRUE(backend->create("b").ok());
  EXPECT_TRUE(std::filesystem::is_empty(users));
  EXPECT_TRUE(std::filesystem::exists(moved / "b"));
  EXPECT_TRUE(backend->join("b").ok());
  std::filesystem::rename(moved / "b", moved / "old");
  std::ofstream(moved / "b") << "somebody's";
  EXPECT_EQ(backend->join("b").error().code(), Errc::mismatch) << "another file of that name";
  EXPECT_FALSE(make_posix_backend({given.string(), false, Sync::none}, posix_env())->create("c").ok()) << "a link";
}

TEST_F(Stream, AnEndThatIsAskedForComesWhileStorageHangs) {
  static auto& hanging = *new HangingEnv;
  // What was waited for is not left behind.
  const auto is_left_behind = [this](const Json& plan, Env& env) {
    stop = false;
    int looks = 0;
    on_progress = [&](const Json&) {
      if (++looks >= 5) stop = true;  // by then all threads are in the call that hangs, also on a busy machine
    };
    const auto outcome = run(plan, env);
    return outcome.ok() && outcome->left_behind;
  };
  auto opening = plan();
  opening["drain_timeout_s"] = 120;
  EXPECT_TRUE(is_left_behind(opening, hanging)) << "while files are opened";
  EXPECT_EQ(hanging.opened(), 0);
  hanging.let_go();
  const Json null = {{"kind", "null"}, {"freeze_at_s", 0}, {"freeze_s", 60}};
  const std::vector<Json> workloads = {
      {{"kind", "stream"}, {"threads", 2}, {"thread_bytes", 4000}, {"transfer_bytes", 1000}},
      {{"kind", "frames"}, {"frames", 30}, {"frame_bytes", 1000}, {"rate_hz", 100}, {"buffer_frames", 2}},
      {{"kind", "metadata"}, {"threads", 2}, {"items", 3}}};
  for (const auto& workload : workloads)
    EXPECT_TRUE(is_left_behind({{"backend", null}, {"workload", workload}, {"drain_timeout_s", 120}}, posix_env()))
        << workload;
}

TEST_F(Stream, StorageThatHangsIsLeftBehind) {
  const auto hanging =
      Json{{"backend", {{"kind", "null"}, {"freeze_at_s", 0}, {"freeze_s", 60}}},
           {"workload", {{"kind", "stream"}, {"threads", 2}, {"thread_bytes", 4000}, {"transfer_bytes", 1000}}},
           {"drain_timeout_s", 3}};
  auto outcome = run(hanging);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->left_behind);
  EXPECT_EQ(outcome->document["problem"], "2 threads are stalled in the storage");
  EXPECT_TRUE(outcome->document["phases"][0]["threads"][0]["done_s"].is_null());
}

}  // namespace
}  // namespace penstock::load
