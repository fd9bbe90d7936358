/// The power fails while a file is recorded: what was acknowledged under `segment` and `interval` is there after a
/// recovery, and what HDF5's index names is whole, whatever became of the writes that no sync had covered.
///
/// PENSTOCK_TORTURE_SEED sets the first seed, PENSTOCK_TORTURE_ROUNDS how many files each test records.

#include "../support/power_cut.hpp"

#include <cstdlib>
#include <set>

#include "../check/check_fixture.hpp"
#include "../support/rounds.hpp"
#include "check/structures/index_process.hpp"
#include "recover/recover.hpp"
#include "right_frames.hpp"

namespace penstock::recover {
namespace {

using namespace check::testing;
using penstock::testing::PowerCutEnv;
using penstock::testing::Unsynced;
using store::Durability;
using testing::recover_patiently;
using testing::right_frames;

/// HDF5 may never come back from structures of which a part is missing; it works in a process of its own, which is
/// ended.
constexpr std::chrono::milliseconds patience{1000};

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Remembers what the store promised.
class Promises final : public store::Listener {
 public:
  void placed(std::span<const store::PlacedChunk> chunks, store::RowWriter& rows_out) override {
    const std::uint8_t received = 1;
    for (const auto& chunk : chunks)
      EXPECT_TRUE(rows_out.put(store::ColumnId{0}, {chunk.head.index}, std::as_bytes(std::span(&received, 1))).ok());
    std::lock_guard lock(mutex_);
    for (const auto& chunk : chunks) promised_.insert(chunk.head.index);
  }
  void lost(std::span<const store::PlacedChunk>, const Error& why) override { ADD_FAILURE() << why.message(); }
  void tick(store::RowWriter&) override {}
  std::set<std::uint64_t> promised() const {
    std::lock_guard lock(mutex_);
    return promised_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::uint64_t> promised_;
};

struct Case {
  Durability durability;
  Unsynced fate;
  bool direct;
};

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  static constexpr const char* durabilities[] = {"none", "interval", "segment"};
  static constexpr const char* fates[] = {"gone", "sectors", "pages", "reordered"};
  return std::string(durabilities[static_cast<int>(info.param.durability)]) + "_" +
         fates[static_cast<int>(info.param.fate)] + (info.param.direct ? "_direct" : "_buffered");
}

class PowerCut : public CheckTest, public ::testing::WithParamInterface<Case> {
 protected:
  static constexpr std::uint64_t frames = 300;
  static constexpr std::size_t images_max =
      penstock::testing::rounds<std::size_t>(12, 6);  ///< judged, at most, and a few

  store::StoreOptions options(std::mt19937_64& random) const {
    store::StoreOptions options;
    options.durability = GetParam().durability;
    options.direct = GetParam().direct;
    options.segment_bytes = 8 << 10;
    options.extent_bytes = 64 << 10;
    options.buffer_bytes = 1 << 20;
    options.write_threads = 2;
    options.flush_interval = std::chrono::milliseconds(1 + random() % 10);
    options.sync_interval = std::chrono::milliseconds(1 + random() % 10);
    return options;
  }

  /// Whatever HDF5 can still read of its index names only what was sent.
  void expect_index_whole(const std::string& file, Bytes image) const {
    check::IndexProcessOptions options;
    options.stall = patience;
    const auto tree = check::read_tree_in_process(posix_env(), file, options);
    if (!tree.ok()) return;  // nothing can be read
    const auto* data = tree->find("/entry/data/data");
    if (data == nullptr) return;
    for (const auto& chunk : data->chunks) {
      const auto expected = simulated(chunk.number);
      ASSERT_LE(chunk.address + chunk.size, image.size()) << "frame " << chunk.number;
      const auto bytes = image.subspan(chunk.address, chunk.size);
      ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), expected.begin(), expected.end()))
          << "the index names frame " << chunk.number << ", which is not whole";
    }
  }

  void expect_kept(const std::string& file, const std::set<std::uint64_t>& promised) const {
    const auto report = recover_patiently(file, 1e-3 * static_cast<double>(patience.count()));
    ASSERT_TRUE(report.ok()) << report.error().message();
    const auto right = right_frames(file);
    for (const auto frame : promised)
      ASSERT_TRUE(right.contains(frame)) << "frame " << frame << " of " << promised.size()
                                         << " was promised and is gone";
    const auto checked = check(file);
    // HDF5 keeps many attributes where it has no checksum: a sector of them may be gone. A chunk that was not promised
    // may have any of its sectors, as one that was damaged later. The check says so.
    const std::set<std::string> expected = {"a number of frames is wrong", "a number of frames is missing",
                                            "a chunk is corrupt", "frames are lost"};
    for (const auto& finding : checked.findings)
      EXPECT_TRUE(finding.level != check::Level::error || expected.contains(finding.what)) << text(checked);
  }

  /// Cuts the power now; what is left then is judged when no other thread runs.
  void cut(PowerCutEnv& env, const Promises& promises) {
    std::lock_guard lock(mutex_);
    // In this order: whatever was promised until now is on the device that is looked at next.
    auto promised = promises.promised();
    auto image = env.cut(path(), GetParam().fate, random_);
    if (image)
      left_.push_back({std::move(*image), std::move(promised)});
    else
      EXPECT_TRUE(promised.empty()) << promised.size() << " frames were promised of a file without a name";
  }

  /// Now and then, from whatever thread changes the file.
  void cut_by_chance(PowerCutEnv& env, const Promises& promises) {
    {
      std::lock_guard lock(mutex_);
      if (random_() % one_in_ != 0 || left_.size() >= images_max) return;
    }
    cut(env, promises);
  }

  void judge() {
    for (const auto& [image, promised] : std::exchange(left_, {})) {
      const auto after = path("after.h5");
      write_bytes(after, std::span(reinterpret_cast<const char*>(image.data()), image.size()));
      expect_index_whole(after, image);
      if (random_() % 2 == 0) recover_without_power(after, promised);
      SCOPED_TRACE("the recording was cut off");
      expect_kept(after, promised);
      if (HasFailure()) return;
      ++judged_;
    }
  }

  /// The power fails again, while the file is recovered.
  void recover_without_power(const std::string& file, const std::set<std::uint64_t>& promised) {
    PowerCutEnv env;
    std::vector<std::vector<std::byte>> images;
    const auto one_in = 1 + random_() % 40;
    env.on_change = [&] {
      if (random_() % one_in != 0 || images.size() >= 2) return;
      if (auto image = env.cut(file, GetParam().fate, random_)) images.push_back(std::move(*image));
    };
    RecoverPlan plan;
    plan.file = file;
    plan.index_timeout_s = 1e-3 * static_cast<double>(patience.count());
    (void)run_recover(
        env, plan, [](auto, auto, const auto&) {}, [] { return false; });
    SCOPED_TRACE("the recovery was cut off");
    for (const auto& image : images) {
      write_bytes(path("again.h5"), std::span(reinterpret_cast<const char*>(image.data()), image.size()));
      expect_kept(path("again.h5"), promised);
    }
  }

  struct Left {
    std::vector<std::byte> image;
    std::set<std::uint64_t> promised;
  };
  std::mutex mutex_;
  // guarded by mutex_ while a store lives
  std::mt19937_64 random_;
  std::vector<Left> left_;
  std::atomic<unsigned> one_in_{60};
  int judged_ = 0;
};

TEST_P(PowerCut, WhatWasAcknowledgedIsThere) {
  const auto first_seed = from_environment("PENSTOCK_TORTURE_SEED", 1);
  const auto rounds = from_environment("PENSTOCK_TORTURE_ROUNDS", 1);
  for (auto seed = first_seed; seed < first_seed + rounds; ++seed) {
    SCOPED_TRACE("PENSTOCK_TORTURE_SEED=" + std::to_string(seed));
    random_.seed(seed);
    one_in_ = 60;
    std::filesystem::remove(path());
    PowerCutEnv env;
    Promises promises;
    env.on_change = [&] { cut_by_chance(env, promises); };
    const FileSpec spec{.frames = frames, .announced = frames, .encoding = Encoding::none};
    auto store = store::Store::create(env, path(), layout_of(spec), options(random_), &promises).value();
    auto writer = store->make_writer();
    for (std::uint64_t frame = 0; frame < frames; ++frame) {
      const auto pixels = simulated(frame);
      ASSERT_TRUE(writer->put({store::DatasetId{0}, frame, 0, 1, frame}, pixels, nullptr, pixels.size()).ok());
    }
    cut(env, promises);
    // The last moments of a file: HDF5's structures are completed and marked as closed.
    one_in_ = 4;
    writer.reset();
    store::FinalValues values;
    values.frames = frames;
    for (const auto* state : {"missing", "received", "damaged", "dropped", "lost"}) {
      const std::uint64_t count = std::string_view(state) == "received" ? frames : 0;
      values.attributes.emplace_back("/entry/penstock/frame_state", store::Attribute{state, store::scalar(count)});
    }
    ASSERT_TRUE(store->finish(values).ok());
    EXPECT_EQ(promises.promised().size(), frames);
    cut(env, promises);
    store.reset();
    judge();
    if (HasFailure()) return;
  }
  EXPECT_GT(judged_, 0);
}

INSTANTIATE_TEST_SUITE_P(Fates, PowerCut,
                         ::testing::Values(Case{Durability::segment, Unsynced::gone, true},
                                           Case{Durability::segment, Unsynced::gone, false},
                                           Case{Durability::segment, Unsynced::sectors, true},
                                           Case{Durability::segment, Unsynced::pages, false},
                                           Case{Durability::segment, Unsynced::reordered, true},
                                           Case{Durability::interval, Unsynced::gone, false},
                                           Case{Durability::interval, Unsynced::sectors, false},
                                           Case{Durability::interval, Unsynced::pages, true},
                                           Case{Durability::interval, Unsynced::reordered, false}),
                         name_of);

}  // namespace
}  // namespace penstock::recover
