/// A process is killed at each change that it makes to its files, while a file is made, filled, closed, recovered and
/// gone on with. The model: what was acknowledged is there after a recovery, and so is the whole tree.
///
/// PENSTOCK_TORTURE_ROUNDS tears each write at each eighth of it, and recovers several files of each kind; without it,
/// each write is torn in the middle, and of kinds other than the first every fifth change kills; under a sanitizer
/// every 13th, and of the other kinds every 41st.

#include <cstdlib>
#include <set>

#include "../check/check_fixture.hpp"
#include "../support/dying_env.hpp"
#include "../support/rounds.hpp"
#include "check/structures/index_process.hpp"
#include "recover/recover.hpp"
#include "right_frames.hpp"
#include "store/format/rows.hpp"
#include "store/recovery/find_description.hpp"
#include "store/recovery/own_superblock.hpp"
#include "store/recovery/replacement.hpp"

namespace penstock::recover {
namespace {

using namespace check::testing;
using penstock::testing::DyingEnv;
using testing::late_path;
using testing::late_value_of;
using testing::right_frames;

constexpr std::uint64_t changes_max = 5000;

constexpr const char* value_path = "/entry/metadata/motor";
constexpr store::ColumnId value_column{2};

/// Of an array for each frame, so that the values of a segment take several pages, between which a write may be torn.
constexpr std::size_t value_length = 200;

std::vector<std::int64_t> values_of(std::uint64_t frame) {
  std::vector<std::int64_t> values(value_length);
  for (std::size_t i = 0; i < value_length; ++i) values[i] = static_cast<std::int64_t>(frame * 1000 + i + 7);
  return values;
}

constexpr std::uint64_t late_begin = 3;

void append_values(std::uint64_t frame, std::vector<std::byte>& rows) {
  store::format::RowAppender appender(rows, frame);
  const auto values = values_of(frame);
  appender.add(static_cast<std::uint16_t>(value_column), std::as_bytes(std::span(values)));
  if (frame < late_begin) return;
  const auto late = late_value_of(frame);
  appender.add_late(
      {store::format::make_late_column(late_path, ElementType::i64, 0, {}), false, std::as_bytes(std::span(&late, 1))});
}

/// As a recorder does it: states and values go into the columns by batches, after frames were acknowledged.
class Promises final : public store::Listener {
 public:
  void placed(std::span<const store::PlacedChunk> chunks, store::RowWriter& rows_out) override {
    const std::uint8_t received = 1;
    for (const auto& chunk : chunks) {
      (void)rows_out.put(store::ColumnId{0}, {chunk.head.index}, std::as_bytes(std::span(&received, 1)));
      frames.insert(chunk.head.index);
      without_value_.push_back(chunk.head.index);
    }
  }
  void lost(std::span<const store::PlacedChunk>, const Error&) override {}
  void tick(store::RowWriter& rows_out) override {
    for (const auto frame : without_value_) {
      const auto values = values_of(frame);
      (void)rows_out.put(value_column, {frame}, std::as_bytes(std::span(values)));
    }
    without_value_.clear();
  }

  std::set<std::uint64_t> frames;  ///< when the store is gone

 private:
  std::vector<std::uint64_t> without_value_;
};

struct Kind {
  const char* name;
  store::Placement placement = store::Placement::log;
  std::uint64_t frames_a_member = 0;
  bool elements = false;
  bool scan = false;
};

bool are_same(const store::Value& one, const store::Value& other) {
  if (const auto* array = std::get_if<store::ArrayValue>(&one)) {
    const auto* wanted = std::get_if<store::ArrayValue>(&other);
    return wanted != nullptr && array->spec.shape == wanted->spec.shape && array->data == wanted->data;
  }
  const auto* text = std::get_if<std::string>(&one);
  const auto* wanted = std::get_if<std::string>(&other);
  return text != nullptr && wanted != nullptr && *text == *wanted;
}

bool is_torture() { return std::getenv("PENSTOCK_TORTURE_ROUNDS") != nullptr; }

std::vector<std::uint64_t> tears() {
  return is_torture() ? std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7} : std::vector<std::uint64_t>{4};
}

/// Which changes kill: the first one and how many lie between two.
std::uint64_t step(const Kind& kind) {
  if (is_torture()) return 1;
  const bool is_first = std::string_view(kind.name) == "plain";
  // Prime numbers: the same changes recur with each segment, and each kind of change is hit in turn.
  if (penstock::testing::is_sanitized) return is_first ? 23 : 71;
  return is_first ? 1 : 5;
}

class Killed : public CheckTest, public ::testing::WithParamInterface<Kind> {
 protected:
  static constexpr std::uint64_t frames = 12;

  void TearDown() override {
    if (is_torture()) fmt::print("{} deaths judged\n", judged_);
    CheckTest::TearDown();
  }

  static store::FileLayout layout() {
    const auto& kind = GetParam();
    auto layout = layout_of({.frames = frames, .announced = frames, .encoding = Encoding::none});
    auto& data = layout.chunked.front();
    data.places.placement = kind.placement;
    data.attributes = {{"units", std::string("counts")}};
    if (kind.elements) data.assembled = {.path = "/entry/data/assembled", .row_gaps = {3}, .column_gaps = {5}};
    if (kind.scan) data.scan_shape = {3, 4};
    if (kind.frames_a_member > 0) layout.members = {.stem = "killed_", .suffix = ".h5", .frames = kind.frames_a_member};
    store::ArrayValue mask;
    mask.spec = {ElementType::u32, {128, 256}};
    mask.data.resize(128 * 256 * 4);
    for (std::size_t i = 0; i < mask.data.size(); ++i) mask.data[i] = static_cast<std::byte>(i * 7 / 3);
    layout.values.push_back({"/entry/instrument/detector/pixel_mask", mask, {{"meaning", std::string("bits")}}});
    mask.spec.shape = {4};
    mask.data.resize(16);
    layout.values.push_back({"/entry/instrument/detector/small_mask", mask, {}});
    layout.values.push_back({"/entry/instrument/beam/wavelength", store::scalar(0.7), {{"units", std::string("A")}}});
    layout.values.push_back({"/entry/user/notes", std::string(3000, 'n'), {}});
    for (int i = 0; i < 20; ++i)
      layout.values.push_back({"/entry/geometry/part_" + std::to_string(i), store::vector_of({1.0 * i, 2, 3}), {}});
    layout.groups.push_back({"/entry", {{"NX_class", std::string("NXentry")}}});
    layout.columns.push_back({"/entry/penstock/received", ElementType::i64, {}, {}});
    layout.columns.push_back(
        {.path = value_path, .type = ElementType::i64, .shape = {value_length}, .in_segments = true});
    return layout;
  }

  static store::StoreOptions options() {
    store::StoreOptions options;
    options.segment_bytes = 8 << 10;
    options.extent_bytes = 64 << 10;
    options.buffer_bytes = 1 << 20;
    options.write_threads = 1;
    options.flush_interval = std::chrono::milliseconds(1);
    return options;
  }

  static store::FinalValues final_values() {
    store::FinalValues values;
    values.frames = frames;
    values.late_columns = true;
    values.values.push_back({"/entry/end_time", std::string("2026-01-01T00:00:00Z"), {}});
    for (const auto* state : {"missing", "received", "damaged", "dropped", "lost"}) {
      const std::uint64_t count = std::string_view(state) == "received" ? frames : 0;
      values.attributes.emplace_back("/entry/penstock/frame_state", store::Attribute{state, store::scalar(count)});
    }
    return values;
  }

  /// True when it was killed. `promised` gets what was acknowledged.
  bool fill(store::Store& store, std::uint64_t first, std::uint64_t end) const {
    auto writer = store.make_writer();
    for (auto frame = first; frame < end; ++frame) {
      const auto pixels = simulated(frame);
      store::ChunkHead head{store::DatasetId{0}, frame, 0, 1, frame};
      if (GetParam().scan) head.frame = static_cast<std::uint32_t>(frame);
      std::vector<std::byte> rows;
      append_values(frame, rows);
      head.rows = rows;
      if (!writer->select_file(frame).ok() || !writer->put(head, pixels, nullptr, pixels.size()).ok()) break;
      // Some flushes of the index come among the frames.
      if (frame % 4 == 3) {
        (void)writer->flush();
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
      }
    }
    (void)writer->flush();
    writer.reset();
    return !store.finish(final_values()).ok();
  }

  bool record(DyingEnv& env, std::set<std::uint64_t>& promised) const {
    Promises promises;
    bool killed = true;
    {
      auto store = store::Store::create(env, path(), layout(), options(), &promises);
      if (store.ok()) killed = fill(**store, 0, frames);
    }
    promised = promises.frames;
    return killed;
  }

  static Result<RecoverReport> recover(const std::string& file, Env& env, std::optional<ForSeries> series = {},
                                       bool rebuild = false) {
    RecoverPlan plan;
    plan.file = file;
    plan.rebuild = rebuild;
    plan.index_timeout_s = 20;
    plan.series = std::move(series);
    return run_recover(
        env, plan, [](auto, auto, const auto&) {}, [] { return false; });
  }

  bool is_described() const {
    const auto file = posix_env().open(path(), {});
    if (!file.ok()) return false;
    return store::find_description(**file, {}).ok();
  }

  void expect_tree() const {
    check::IndexProcessOptions reading;
    reading.stall = std::chrono::seconds(20);
    reading.read.small_value_bytes = 1 << 20;
    const auto tree = check::read_tree_in_process(posix_env(), path(), reading);
    ASSERT_TRUE(tree.ok());
    ASSERT_EQ(tree->failure, "");
    const auto wanted = layout();
    for (const auto& node : wanted.values) {
      const auto* found = tree->find(node.path);
      ASSERT_NE(found, nullptr) << node.path << " is gone";
      ASSERT_TRUE(found->value.has_value()) << node.path;
      EXPECT_TRUE(are_same(*found->value, node.value)) << node.path << " has another value";
      EXPECT_EQ(found->info.attributes.size(), node.attributes.size()) << node.path;
    }
    for (const auto& node : wanted.columns) EXPECT_NE(tree->find(node.path), nullptr) << node.path;
    for (const auto& link : wanted.links) EXPECT_NE(tree->find(link.path), nullptr) << link.path;
    for (const auto& node : wanted.chunked) {
      ASSERT_NE(tree->find(node.path), nullptr) << node.path;
      EXPECT_FALSE(tree->find(node.path)->info.attributes.empty()) << node.path;
      if (node.assembled) {
        EXPECT_NE(tree->find(node.assembled->path), nullptr);
      }
    }
  }

  void expect_late_value(std::uint64_t frame) const {
    const auto late = testing::column_of(path(), late_path);
    ASSERT_LT(frame, late.size()) << "the late column lacks frame " << frame;
    EXPECT_EQ(late[frame], late_value_of(frame)) << "the late value of frame " << frame << " is gone";
  }

  /// After a recovery that nobody disturbs.
  void expect_kept(const std::set<std::uint64_t>& promised) const {
    ++judged_;
    DyingEnv undisturbed;
    const auto report = recover(path(), undisturbed);
    for (const auto& [name, bytes] : files())
      EXPECT_FALSE(store::path_of_replacement(name)) << name << " is left after a recovery";
    if (!std::filesystem::exists(path())) {
      EXPECT_TRUE(promised.empty()) << promised.size() << " frames were acknowledged of a file without a name";
      return;
    }
    ASSERT_TRUE(report.ok()) << report.error().message();
    expect_tree();
    if (HasFailure()) return;
    const auto right = right_frames(path());
    const auto values = testing::column_of(path(), value_path);
    for (const auto frame : promised) {
      ASSERT_TRUE(right.contains(frame)) << "frame " << frame << " is gone";
      const auto wanted = values_of(frame);
      ASSERT_LE((frame + 1) * value_length, values.size());
      ASSERT_TRUE(
          std::equal(wanted.begin(), wanted.end(), values.begin() + static_cast<std::ptrdiff_t>(frame * value_length)))
          << "the values of frame " << frame << " are gone";
      if (frame >= late_begin) expect_late_value(frame);
    }
    const auto checked = check(path());
    for (const auto& finding : checked.findings) EXPECT_TRUE(finding.level != check::Level::error) << text(checked);
    EXPECT_FALSE(has(checked, "the file was changed since it was closed")) << "it has no seal: " << text(checked);
  }

  /// All files of the series, by name.
  std::map<std::string, std::vector<char>> files() const {
    std::map<std::string, std::vector<char>> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) all[entry.path()] = bytes_of(entry.path());
    return all;
  }
  void remove_all() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) std::filesystem::remove(entry.path());
  }
  void put_back(const std::map<std::string, std::vector<char>>& all) const {
    remove_all();
    for (const auto& [name, bytes] : all) write_bytes(name, bytes);
  }

  /// Files that a recorder left: at its death when all was written and nothing indexed, in the middle, while it closed.
  std::vector<std::pair<std::map<std::string, std::vector<char>>, std::set<std::uint64_t>>> left_files() const {
    std::uint64_t changes = 0;
    {
      DyingEnv env;
      std::set<std::uint64_t> promised;
      EXPECT_FALSE(record(env, promised));
      changes = env.changes();
    }
    std::vector<std::pair<std::map<std::string, std::vector<char>>, std::set<std::uint64_t>>> all;
    const auto ends = is_torture() ? std::vector{changes * 2 / 3, changes - 4, changes - 8} : std::vector{changes - 5};
    for (const auto at : ends) {
      remove_all();
      DyingEnv env(at, 4);
      std::set<std::uint64_t> promised;
      (void)record(env, promised);
      if (std::filesystem::exists(path()) && is_described()) all.emplace_back(files(), promised);
    }
    EXPECT_FALSE(all.empty());
    return all;
  }

  mutable std::uint64_t judged_ = 0;  ///< files that were left by a death
};

/// Of files in which a recorder can go on.
class KilledResumed : public Killed {};

TEST_P(Killed, WhileItRecords) {
  for (const auto torn : tears()) {
    for (std::uint64_t last = 1;; last += step(GetParam())) {
      ASSERT_LT(last, changes_max);
      SCOPED_TRACE("killed at change " + std::to_string(last) + ", " + std::to_string(torn) + "/8 of it there");
      remove_all();
      DyingEnv env(last, torn);
      std::set<std::uint64_t> promised;
      const bool killed = record(env, promised);
      expect_kept(promised);
      if (HasFailure()) return;
      if (!killed && !env.died()) break;
    }
  }
}

TEST_P(Killed, WhileItRecovers) {
  for (const auto& [left, promised] : left_files()) {
    for (const auto torn : tears()) {
      for (std::uint64_t last = 1;; last += step(GetParam())) {
        ASSERT_LT(last, changes_max);
        SCOPED_TRACE("killed at change " + std::to_string(last) + ", " + std::to_string(torn) + "/8 of it there");
        put_back(left);
        DyingEnv env(last, torn);
        const auto report = recover(path(), env);
        expect_kept(promised);
        if (HasFailure()) return;
        if (report.ok() && !env.died()) break;
      }
    }
  }
}

TEST_P(KilledResumed, WhileItGoesOn) {
  const ForSeries series{series_name, true};
  for (const auto& [left, promised_before] : left_files()) {
    for (const auto torn : tears()) {
      for (std::uint64_t last = 1;; last += step(GetParam())) {
        ASSERT_LT(last, changes_max);
        SCOPED_TRACE("killed at change " + std::to_string(last) + ", " + std::to_string(torn) + "/8 of it there");
        put_back(left);
        DyingEnv env(last, torn);
        auto promised = promised_before;
        const auto report = recover(path(), env, series);
        bool killed = !report.ok();
        if (report.ok()) {
          const auto file = posix_env().open(path(), {}).value();
          const auto first = store::find_description(*file, {}).value().header;
          Promises promises;
          {
            auto store = store::Store::resume(env, path(), layout(), options(), &promises, {},
                                              {first.file_id, first.address, report->contents->last_sequence});
            killed = !store.ok() || fill(**store, 0, frames);
          }
          promised.insert(promises.frames.begin(), promises.frames.end());
        }
        expect_kept(promised);
        if (HasFailure()) return;
        if (!killed && !env.died()) break;
      }
    }
  }
}

/// What was begun and holds nothing is in nobody's way: a recorder that resumes the series finds out that it is empty.
TEST_P(KilledResumed, WhileItIsMadeItIsEmpty) {
  for (const auto torn : tears()) {
    for (std::uint64_t last = 2;; last += penstock::testing::is_sanitized ? step(GetParam()) : 1) {
      ASSERT_LT(last, changes_max);
      SCOPED_TRACE("killed at change " + std::to_string(last) + ", " + std::to_string(torn) + "/8 of it there");
      remove_all();
      DyingEnv env(last, torn);
      // As it is left, not as a creation that fails clears it away.
      const bool made = store::Store::create(env, path(), layout(), options(), nullptr).ok();
      if (made && !env.died()) break;
      DyingEnv undisturbed;
      if (!std::filesystem::exists(path())) {
        const auto hidden = posix_env().open(store::replacement_path(path()), {});
        if (hidden.ok()) {
          EXPECT_EQ(store::is_only_begun(**hidden).value(), !store::find_description(**hidden, {}).ok());
        }
        ASSERT_TRUE(store::Store::create(undisturbed, path(), layout(), options(), nullptr).ok());
        EXPECT_EQ(files().size(), 1U) << "what was left is in the way";
      } else {
        const auto report = recover(path(), undisturbed, ForSeries{series_name, false});
        ASSERT_TRUE(report.ok()) << report.error().message();
        for (const auto& runs : report->contents->datasets) EXPECT_TRUE(runs.empty());
      }
      if (HasFailure()) return;
    }
  }
}

TEST_F(CheckTest, SomebodysFileIsNotOnlyBegun) {
  const auto is_begun = [&](const std::vector<char>& bytes) {
    write_bytes(path(), bytes);
    return store::is_only_begun(*posix_env().open(path(), {}).value()).value();
  };
  std::vector<char> bytes(100'000, '\0');
  EXPECT_TRUE(is_begun(bytes));
  bytes[70'000] = 'x';
  EXPECT_FALSE(is_begun(bytes));
  std::filesystem::remove(path());
  write_recorded(path(), {});
  bytes = bytes_of(path());
  EXPECT_FALSE(is_begun(bytes));
  std::fill_n(bytes.begin(), 64 << 10, '\0');
  EXPECT_FALSE(is_begun(bytes)) << "its frames are there";
}

/// A file that was closed says so until its structures are gone, and again when the new ones are complete.
TEST_P(Killed, WhileItRebuilds) {
  std::set<std::uint64_t> promised;
  {
    DyingEnv env;
    ASSERT_FALSE(record(env, promised));
  }
  const auto closed = files();
  for (const auto torn : tears()) {
    for (std::uint64_t last = 1;; last += step(GetParam())) {
      ASSERT_LT(last, changes_max);
      SCOPED_TRACE("killed at change " + std::to_string(last) + ", " + std::to_string(torn) + "/8 of it there");
      put_back(closed);
      DyingEnv env(last, torn);
      const auto report = recover(path(), env, {}, true);
      const auto superblock = store::read_own_superblock(*posix_env().open(path(), {}).value()).value();
      if (superblock && !superblock->open_for_writing) {
        expect_tree();
        EXPECT_EQ(right_frames(path()).size(), promised.size()) << "it is marked as closed";
      }
      expect_kept(promised);
      if (HasFailure()) return;
      if (report.ok() && !env.died()) break;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Killed,
                         ::testing::Values(Kind{.name = "plain"}, Kind{.name = "members", .frames_a_member = 5},
                                           Kind{.name = "slots", .placement = store::Placement::slots},
                                           Kind{.name = "elements", .elements = true},
                                           Kind{.name = "scan", .scan = true}),
                         [](const auto& kind) { return std::string(kind.param.name); });
INSTANTIATE_TEST_SUITE_P(Kinds, KilledResumed,
                         ::testing::Values(Kind{.name = "plain"}, Kind{.name = "elements", .elements = true}),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace penstock::recover
