#include <future>
#include <set>
#include <thread>

#include "../support/fault_env.hpp"
#include "scan.hpp"
#include "store_fixture.hpp"

namespace penstock::store::testing {
namespace {

class FaultTest : public StoreTest {
 protected:
  Result<std::unique_ptr<Store>> create(const StoreOptions& options, Listener* listener) {
    return Store::create(env_, path(), one_dataset(32, 40), options, listener);
  }
  static void put(Store& store, std::uint64_t first, std::uint64_t end) {
    auto writer = store.make_writer();
    for (auto i = first; i < end; ++i)
      ASSERT_TRUE(writer->put({DatasetId{0}, i, 0, 0, 0}, content_of(i, frame_bytes), nullptr, frame_bytes).ok());
  }
  static std::set<std::uint64_t> numbers_of(const std::vector<PlacedChunk>& chunks) {
    std::set<std::uint64_t> numbers;
    for (const auto& chunk : chunks) numbers.insert(chunk.head.index);
    return numbers;
  }
  static bool is_segment(std::uint64_t offset, std::uint64_t bytes) {
    return offset % 4096 == 0 && bytes % 4096 == 0 && bytes >= 8192;
  }

  penstock::testing::FaultEnv env_;
};

TEST_F(FaultTest, AFullDiskLosesSegmentsAndTheStoreGoesOnWhenThereIsSpace) {
  for (const bool tear : {false, true}) {
    std::atomic<int> segments{0};
    env_.faults->tear = tear;
    env_.faults->on_write = [&](auto offset, auto bytes) -> Result<void> {
      if (!is_segment(offset, bytes)) return {};
      const auto number = ++segments;
      if (number >= 4 && number < 8) return make_error(Errc::no_space, "the disk is full");
      return {};
    };
    Recorder recorder;
    auto options = small_options();
    options.direct = false;
    options.overwrite = true;
    auto store = create(options, &recorder).value();
    put(*store, 0, 300);
    FinalValues values;
    values.frames = 300;
    ASSERT_TRUE(store->finish(values).ok());
    const auto placed = numbers_of(recorder.placed_chunks);
    const auto lost = numbers_of(recorder.lost_chunks);
    EXPECT_EQ(lost.size(), 4 * 24u) << "tear " << tear;
    EXPECT_EQ(placed.size() + lost.size(), 300u);
    EXPECT_EQ(recorder.reasons[0].code(), Errc::no_space);
    EXPECT_EQ(store->stats().lost_chunks, lost.size());
    const PlainReader reader(path());
    const std::vector<std::byte> fill(frame_bytes);
    for (std::uint64_t i = 0; i < 300; ++i)
      ASSERT_EQ(reader.frame("/entry/data/data", i), placed.count(i) ? content_of(i, frame_bytes) : fill) << i;
    // The place of the lost segments was used again.
    EXPECT_LT(std::filesystem::file_size(path()), 300 * frame_bytes + (250 << 10));
  }
}

TEST_F(FaultTest, ScanFindsASegmentWrittenWhereALargerOneWasTorn) {
  env_.faults->reserves = false;
  for (const bool header_can_be_erased : {true, false}) {
    std::atomic<bool> full{false};
    std::atomic<std::uint64_t> torn_at{0};
    env_.faults->on_write = [&](auto offset, auto bytes) -> Result<void> {
      const bool erases = torn_at > 0 && offset == torn_at;
      if (!full || !(is_segment(offset, bytes) || (erases && !header_can_be_erased))) return {};
      env_.faults->tear = torn_at == 0;  // the first one only
      if (torn_at == 0) torn_at = offset;
      return make_error(Errc::no_space, "the disk is full");
    };
    Recorder recorder;
    auto options = small_options();
    options.write_threads = 1;
    options.overwrite = true;
    auto store = create(options, &recorder).value();
    full = true;
    put(*store, 0, 24);
    put(*store, 24, 25);
    while (store->stats().lost_chunks < 25) std::this_thread::yield();
    full = false;
    put(*store, 25, 26);
    while (store->stats().chunks < 1) std::this_thread::yield();
    std::filesystem::copy_file(path(), path("left.h5"), std::filesystem::copy_options::overwrite_existing);
    const auto found = scan(path("left.h5"));
    const auto* chunk = found.find(25);
    ASSERT_NE(chunk, nullptr) << "header can be erased: " << header_can_be_erased;
    EXPECT_EQ(chunk->data, content_of(25, frame_bytes));
  }
}

TEST_F(FaultTest, NoSpaceForAnExtent) {
  std::atomic<bool> full{false};
  env_.faults->on_reserve = [&](auto, auto) -> Result<void> {
    if (full) return make_error(Errc::no_space, "full");
    return {};
  };
  Recorder recorder;
  auto options = small_options();
  options.extent_bytes = 128 << 10;
  auto store = create(options, &recorder).value();
  put(*store, 0, 100);
  while (store->stats().chunks < 100) std::this_thread::yield();
  full = true;
  put(*store, 100, 400);
  while (store->stats().chunks + store->stats().lost_chunks < 400) std::this_thread::yield();
  full = false;
  put(*store, 400, 500);
  ASSERT_TRUE(store->finish({}).ok());
  EXPECT_GT(recorder.lost_chunks.size(), 200u);
  EXPECT_EQ(recorder.placed_chunks.size() + recorder.lost_chunks.size(), 500u);
  const PlainReader reader(path());
  for (const auto& chunk : recorder.placed_chunks)
    ASSERT_EQ(reader.frame("/entry/data/data", chunk.head.index), content_of(chunk.head.index, frame_bytes));
}

TEST_F(FaultTest, AnIndexThatFindsNoRoomWaitsAndGoesOn) {
  for (const bool reserves : {true, false}) {
    std::atomic<bool> full{false};
    const auto refuse = [&]() -> Result<void> {
      if (full) return make_error(Errc::no_space, "full");
      return {};
    };
    env_.faults->reserves = reserves;
    env_.faults->on_write = [&](auto offset, auto bytes) {
      return is_segment(offset, bytes) ? Result<void>{} : refuse();
    };
    Recorder recorder;
    auto options = small_options();
    options.overwrite = true;
    auto store = create(options, &recorder).value();
    put(*store, 0, 100);
    while (store->stats().chunks < 100) std::this_thread::yield();
    full = true;
    put(*store, 100, 3000);
    while (store->stats().chunks + store->stats().lost_chunks < 3000) std::this_thread::yield();
    std::this_thread::sleep_for(3 * options.flush_interval);
    full = false;
    put(*store, 3000, 3100);
    FinalValues values;
    values.frames = 3100;
    const auto finished = store->finish(values);
    ASSERT_TRUE(finished.ok()) << finished.error().message();
    EXPECT_TRUE(recorder.lost_chunks.empty()) << recorder.lost_chunks.size();
    const PlainReader reader(path());
    for (std::uint64_t i = 0; i < 3100; ++i)
      ASSERT_EQ(reader.frame("/entry/data/data", i), content_of(i, frame_bytes)) << i;
  }
}

TEST_F(FaultTest, IndexRefusesChunksWhileMuchOfItWaitsForRoomAndTakesThemLater) {
  constexpr std::uint64_t segment_frames = 24, frames = 30 * segment_frames;
  std::atomic<bool> full{false};
  env_.faults->on_write = [&](auto offset, auto bytes) -> Result<void> {
    if (full && !(offset % 4096 == 0 && bytes == 64 << 10)) return make_error(Errc::no_space, "full");
    return {};
  };
  Recorder recorder;
  recorder.write_numbers = true;
  recorder.numbers_a_row = 16 << 10;  // 90 MiB for all frames
  auto layout = one_dataset(32, 40);
  layout.columns[0].shape = {recorder.numbers_a_row};
  auto store = Store::create(env_, path(), layout, small_options(), &recorder).value();
  full = true;
  put(*store, 0, frames);
  while (store->stats().chunks + store->stats().lost_chunks < frames) std::this_thread::yield();
  full = false;
  for (const int ticks = recorder.ticks; recorder.ticks < ticks + 2;) std::this_thread::yield();  // a flush has passed
  const auto lost = numbers_of(recorder.lost_chunks);
  EXPECT_FALSE(lost.empty());
  EXPECT_TRUE(std::all_of(recorder.reasons.begin(), recorder.reasons.end(),
                          [](const Error& why) { return why.code() == Errc::no_space; }));
  for (const auto number : lost) put(*store, number, number + 1);
  FinalValues values;
  values.frames = frames;
  const auto finished = store->finish(values);
  ASSERT_TRUE(finished.ok()) << finished.error().message();
  EXPECT_EQ(numbers_of(recorder.placed_chunks).size(), frames);
  EXPECT_EQ(recorder.lost_chunks.size(), lost.size());
  const PlainReader reader(path());
  for (std::uint64_t i = 0; i < frames; ++i)
    ASSERT_EQ(reader.frame("/entry/data/data", i), content_of(i, frame_bytes)) << i;
}

TEST_F(FaultTest, AnIndexThatFindsNoRoomToTheEndIsAnErrorAndItsChunksAreInTheSegments) {
  std::atomic<bool> full{false};
  env_.faults->on_write = [&](auto offset, auto bytes) -> Result<void> {
    if (full && !is_segment(offset, bytes)) return make_error(Errc::no_space, "full");
    return {};
  };
  Recorder recorder;
  auto store = create(small_options(), &recorder).value();
  full = true;
  put(*store, 0, 300);
  const auto finished = store->finish({});
  ASSERT_FALSE(finished.ok());
  EXPECT_EQ(finished.error().code(), Errc::no_space) << finished.error().message();
  EXPECT_EQ(recorder.placed_chunks.size(), 300u);
  EXPECT_TRUE(recorder.lost_chunks.empty());
}

TEST_F(FaultTest, ABrokenDeviceIsReportedAndItsPlaceNotTriedAgain) {
  std::set<std::uint64_t> broken;
  std::mutex mutex;
  env_.faults->on_write = [&](auto offset, auto bytes) -> Result<void> {
    if (!is_segment(offset, bytes)) return {};
    std::lock_guard lock(mutex);
    EXPECT_FALSE(broken.count(offset)) << "written again at " << offset;
    if (broken.size() >= 3) return {};
    broken.insert(offset);
    return make_error(Errc::io, "input/output error");
  };
  Recorder recorder;
  auto store = create(small_options(), &recorder).value();
  put(*store, 0, 300);
  ASSERT_TRUE(store->finish({}).ok());
  EXPECT_EQ(recorder.lost_chunks.size(), 3 * 24u);
  EXPECT_EQ(recorder.reasons[0].code(), Errc::io);
}

TEST_F(FaultTest, AnErrorInTheIndexStopsNobodyAndTheSegmentsHoldEverything) {
  std::atomic<bool> broken{false};
  env_.faults->on_write = [&](auto offset, auto bytes) -> Result<void> {
    if (broken && !is_segment(offset, bytes)) return make_error(Errc::io, "metadata cannot be written");
    return {};
  };
  Recorder recorder;
  recorder.write_numbers = false;
  auto store = create(small_options(), &recorder).value();
  put(*store, 0, 100);
  while (store->stats().chunks < 100) std::this_thread::yield();
  broken = true;
  put(*store, 100, 2000);
  const auto finished = store->finish({});
  ASSERT_FALSE(finished.ok());
  EXPECT_NE(finished.error().message().find("metadata cannot be written"), std::string::npos)
      << finished.error().message();
  EXPECT_EQ(recorder.placed_chunks.size() + recorder.lost_chunks.size(), 2000u);
  store.reset();
  const auto found = scan(path());
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const auto* chunk = found.find(i);
    ASSERT_NE(chunk, nullptr) << i;
    ASSERT_EQ(chunk->data, content_of(i, frame_bytes));
  }
}

TEST_F(FaultTest, PlacedMeansSyncedWhereThatWasPromised) {
  for (const auto durability : {Durability::interval, Durability::segment}) {
    std::mutex mutex;
    std::set<std::uint64_t> written;  // addresses of segments
    std::set<std::uint64_t> synced;
    env_.faults->on_write = [&](auto offset, auto bytes) -> Result<void> {
      std::lock_guard lock(mutex);
      if (is_segment(offset, bytes)) written.insert(offset);
      return {};
    };
    env_.faults->on_sync = [&]() -> Result<void> {
      std::lock_guard lock(mutex);
      synced = written;
      return {};
    };
    class Check final : public Listener {
     public:
      Check(std::mutex& m, std::set<std::uint64_t>& s) : mutex_(m), synced_(s) {}
      void placed(std::span<const PlacedChunk> chunks, RowWriter&) override {
        std::lock_guard lock(mutex_);
        for (const auto& chunk : chunks) {
          const auto after = synced_.upper_bound(chunk.address);
          ASSERT_NE(after, synced_.begin());
          ASSERT_LT(chunk.address - *std::prev(after), std::uint64_t{64} << 10) << "told before it was synced";
          ++count;
        }
      }
      void lost(std::span<const PlacedChunk>, const Error&) override { ADD_FAILURE(); }
      void tick(RowWriter&) override {}
      int count = 0;

     private:
      std::mutex& mutex_;
      std::set<std::uint64_t>& synced_;
    } check(mutex, synced);
    auto options = small_options();
    options.durability = durability;
    options.overwrite = true;
    auto store = create(options, &check).value();
    put(*store, 0, 500);
    ASSERT_TRUE(store->finish({}).ok());
    EXPECT_EQ(check.count, 500);
  }
}

TEST_F(FaultTest, WritersDoNotWaitForTheSyncIntervalWhenManySegmentsAreUnsynced) {
  auto options = small_options();
  options.durability = Durability::interval;
  options.sync_interval = std::chrono::seconds(120);
  auto store = create(options, nullptr).value();
  auto writer = store->make_writer();
  auto puts = std::async(std::launch::async, [&] {
    for (std::uint64_t i = 0; i < 1200; ++i)
      if (!writer->put(head_of(i), content_of(i, frame_bytes), nullptr, frame_bytes).ok() || !writer->flush().ok())
        return false;
    return true;
  });
  EXPECT_EQ(puts.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_TRUE(puts.get());
  writer.reset();
  ASSERT_TRUE(store->finish({}).ok());
  EXPECT_EQ(store->stats().chunks, 1200u);
}

TEST_F(FaultTest, AFailedSyncIsNoPromiseKept) {
  std::atomic<int> syncs{0};
  env_.faults->on_sync = [&]() -> Result<void> {
    if (++syncs == 2) return make_error(Errc::io, "sync failed");
    return {};
  };
  Recorder recorder;
  auto options = small_options();
  options.durability = Durability::segment;
  auto store = create(options, &recorder).value();
  put(*store, 0, 100);
  ASSERT_TRUE(store->finish({}).ok());
  EXPECT_GT(recorder.lost_chunks.size(), 0u);
  EXPECT_EQ(recorder.placed_chunks.size() + recorder.lost_chunks.size(), 100u);
}

TEST_F(FaultTest, SlowStorageHoldsWritersBackWithinTheBudget) {
  env_.faults->on_write = [&](auto offset, auto bytes) -> Result<void> {
    if (is_segment(offset, bytes)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return {};
  };
  auto options = small_options();
  options.buffer_bytes = 160 << 10;  // two segments
  auto store = create(options, nullptr).value();
  std::vector<std::thread> threads;
  for (std::uint64_t share = 0; share < 4; ++share)
    threads.emplace_back([&, share] { put(*store, share * 300, share * 300 + 300); });
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(store->finish({}).ok());
  EXPECT_EQ(store->stats().chunks, 1200u);
}

TEST_F(FaultTest, CreationThatFailsAtAnyWriteIsAnErrorAndLeavesNothingOpen) {
  env_.faults->reserves = false;  // so that room for metadata is written as well
  for (int failing = 1; failing < 200; ++failing) {
    std::atomic<int> writes{0};
    env_.faults->on_write = [&](auto, auto) -> Result<void> {
      if (++writes >= failing) return make_error(Errc::no_space, "the disk is full");
      return {};
    };
    auto options = small_options();
    options.overwrite = true;
    auto store = create(options, nullptr);
    if (store.ok()) {
      ASSERT_GT(failing, 3);
      env_.faults->on_write = [](auto, auto) { return Result<void>{}; };
      EXPECT_TRUE((*store)->finish({}).ok());
      return;
    }
    EXPECT_EQ(store.error().code(), Errc::no_space) << store.error().message();
    EXPECT_NE(store.error().message().find("the disk is full"), std::string::npos) << store.error().message();
  }
  FAIL() << "creation never succeeded";
}

/// Whichever read fails while a file is completed: HDF5 may keep a file that it cannot close.
TEST_F(FaultTest, AFileThatCannotBeReadWhileItIsClosedDisturbsNoOther) {
  std::atomic<int> reads_left{0};
  std::atomic<bool> fails{false};
  env_.faults->on_call = [&](penstock::testing::Call call) -> Result<void> {
    if (fails && call == penstock::testing::Call::read && --reads_left < 0)
      return make_error(Errc::io, "input/output error");
    return {};
  };
  auto options = small_options();
  options.overwrite = true;
  int failed = 0;
  for (int whole = 0; whole < 100; ++whole) {
    Recorder recorder;
    auto store = create(options, &recorder).value();
    put(*store, 0, 200);
    while (store->stats().chunks < 200) std::this_thread::yield();
    reads_left = whole;
    fails = true;
    const auto finished = store->finish({});
    store.reset();
    fails = false;
    if (finished.ok()) break;
    EXPECT_NE(finished.error().message().find("input/output error"), std::string::npos) << finished.error().message();
    ++failed;
  }
  EXPECT_GT(failed, 3);
  auto store = create(options, nullptr).value();
  put(*store, 0, 100);
  ASSERT_TRUE(store->finish({}).ok());
  const PlainReader reader(path());
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_EQ(reader.frame("/entry/data/data", i), content_of(i, frame_bytes));
}

/// Puts another file in the place of the one that is opened once more, past the page cache.
class SwappingEnv final : public Env {
 public:
  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) override {
    if (options.direct) {
      std::filesystem::rename(path, path + ".mine");
      std::ofstream(path) << "somebody else's";
    }
    return posix_env().open(path, options);
  }
  Result<std::uint64_t> free_bytes(const std::string& path) override { return posix_env().free_bytes(path); }
  Result<std::vector<std::string>> list(const std::string& folder) override { return posix_env().list(folder); }
  Result<void> remove(const std::string& path) override { return posix_env().remove(path); }
};

TEST_F(FaultTest, AFileThatTakesThePlaceOfOursIsNotWrittenTo) {
  SwappingEnv env;
  const auto store = Store::create(env, path(), one_dataset(32, 40), small_options(), nullptr);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code(), Errc::mismatch);
  EXPECT_NE(store.error().message().find("replaced a moment ago"), std::string::npos) << store.error().message();
  std::ifstream file(path());
  std::string theirs;
  std::getline(file, theirs);
  EXPECT_EQ(theirs, "somebody else's");
  EXPECT_EQ(std::filesystem::file_size(path()), 15u);
}

TEST_F(FaultTest, AFileThatIsThereIsOnlyReplacedWhenAllowed) {
  { std::ofstream(path()) << "precious"; }
  auto options = small_options();
  const auto refused = Store::create(posix_env(), path(), one_dataset(4, 4), options, nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::already_exists);
  EXPECT_NE(refused.error().message().find(path()), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(path()), 8u);
  options.overwrite = true;
  auto store = Store::create(posix_env(), path(), one_dataset(4, 4), options, nullptr);
  ASSERT_TRUE(store.ok());
  ASSERT_TRUE((*store)->finish({}).ok());
  EXPECT_TRUE(PlainReader(path()).open());
}

/// The remedy is one that works: not every series can be resumed.
TEST_F(FaultTest, AnUnfinishedFileInTheWayIsToBeResumedOnlyIfItCanBe) {
  const auto refusal_of = [&](const FileLayout& layout) {
    std::filesystem::remove(path());
    std::filesystem::remove(path("left.h5"));
    {
      // As a recorder's death leaves it, copied before anything is closed.
      const auto store = Store::create(posix_env(), path("left.h5"), layout, small_options(), nullptr).value();
      std::filesystem::copy_file(path("left.h5"), path());
    }
    const auto refused = Store::create(posix_env(), path(), one_dataset(32, 40), small_options(), nullptr);
    return refused.ok() ? std::string("none") : refused.error().message();
  };
  EXPECT_NE(refusal_of(one_dataset(32, 40)).find("continue it with --resume"), std::string::npos);
  std::vector<FileLayout> others(4, one_dataset(32, 40));
  others[0].members = {.stem = "part_", .suffix = ".h5", .frames = 10};
  others[1].chunked[0].chunk_shape = {4, 32, 40};
  others[2].chunked[0].scan_shape = {2, 3};
  others[3].chunked[0].frames_max = 10;
  others[3].chunked[0].places.placement = Placement::slots;
  for (const auto& layout : others) {
    const auto refusal = refusal_of(layout);
    EXPECT_EQ(refusal.find("--resume"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("`penstock recover`"), std::string::npos) << refusal;
  }
}

TEST_F(FaultTest, AMissingFolderIsNotFound) {
  const auto store = Store::create(posix_env(), path("no/such.h5"), one_dataset(4, 4), small_options(), nullptr);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code(), Errc::not_found);
}

TEST_F(FaultTest, TheSecondRecorderIsRefusedBeforeItTouchesTheFile) {
  for (const bool swmr : {true, false}) {
    auto options = small_options();
    options.overwrite = true;
    options.swmr = swmr;
    auto first = create(options, nullptr).value();
    put(*first, 0, 100);
    const auto second = create(options, nullptr);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code(), Errc::locked) << second.error().message();
    put(*first, 100, 200);
    ASSERT_TRUE(first->finish({}).ok());
    const PlainReader reader(path());
    for (std::uint64_t i = 0; i < 200; ++i) ASSERT_EQ(reader.frame("/entry/data/data", i), content_of(i, frame_bytes));
  }
}

}  // namespace
}  // namespace penstock::store::testing
