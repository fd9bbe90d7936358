/// Files that their recorder left, recovered, and then read with plain HDF5 and proved by the check.

#include "recover/recover.hpp"

#include <sys/wait.h>

#include <csignal>
#include <ctime>
#include <set>
#include <thread>

#include "../check/check_fixture.hpp"
#include "../support/fault_env.hpp"
#include "base/crc32c.hpp"
#include "check/structures/index_process.hpp"
#include "check/structures/superblock.hpp"
#include "store/recovery/journal.hpp"
#include "store/recovery/scan.hpp"

namespace penstock::recover {
namespace {

using namespace check::testing;

constexpr Encoding plain = Encoding::none;  // so that plain HDF5 reads it without plug-ins

class RecoverTest : public CheckTest {
 protected:
  void TearDown() override {
    EXPECT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL), 0) << "HDF5 objects stay open";
    CheckTest::TearDown();
  }

  Result<RecoverReport> recover(bool dry_run = false) const {
    RecoverPlan plan;
    plan.dry_run = dry_run;
    return recover(plan);
  }
  Result<RecoverReport> recover(RecoverPlan plan, Env& env = posix_env()) const {
    plan.file = path();
    return run_recover(
        env, plan, [](auto, auto, const auto&) {}, [] { return false; });
  }

  /// Something happens to the process that reads HDF5's structures when it reads for the fourth time: the file may be
  /// whole, so that nothing may be done to it.
  void expect_refused(const std::function<Result<void>()>& happens, const char* said, const RecoverPlan& plan = {}) {
    write_left({.encoding = plain});
    const auto before = bytes_of(path());
    penstock::testing::FaultEnv env;
    env.faults->on_call = [&, parent = ::getpid(), reads = 0](penstock::testing::Call call) mutable -> Result<void> {
      const bool of_child = ::getpid() != parent && call == penstock::testing::Call::read;
      return of_child && ++reads > 3 ? happens() : Result<void>{};
    };
    const auto report = recover(plan, env);
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code(), Errc::refused);
    EXPECT_NE(report.error().message().find(said), std::string::npos) << report.error().message();
    EXPECT_NE(report.error().message().find("--rebuild"), std::string::npos) << report.error().message();
    EXPECT_EQ(bytes_of(path()), before);
  }

  /// The file as a recorder's death leaves it before the first flush of the index.
  void write_left(const FileSpec& spec) {
    auto left = spec;
    left.finish = false;
    left.flush_interval = std::chrono::hours(1);
    write_recorded(path(), left);
  }

  /// As plain HDF5 reads it: nothing of Penstock is asked.
  std::vector<std::uint16_t> pixels() const {
    const hid_t file = H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    EXPECT_GE(file, 0) << "plain HDF5 does not open it";
    if (file < 0) return {};
    const hid_t dataset = H5Dopen2(file, "/entry/data/data", H5P_DEFAULT), space = H5Dget_space(dataset);
    std::vector<std::uint16_t> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    EXPECT_GE(H5Dread(dataset, H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    H5Sclose(space);
    H5Dclose(dataset);
    H5Fclose(file);
    return values;
  }

  void expect_frames(std::uint64_t frames, const std::vector<std::uint64_t>& absent = {}) const {
    const auto all = pixels();
    ASSERT_EQ(all.size(), frames * rows * columns);
    for (std::uint64_t frame = 0; frame < frames; ++frame) {
      if (std::find(absent.begin(), absent.end(), frame) != absent.end()) continue;
      const auto bytes = std::as_bytes(std::span(all)).subspan(frame * frame_bytes, frame_bytes);
      const auto expected = simulated(frame);
      ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), expected.begin())) << "frame " << frame;
    }
  }

  static bool has_finding(const RecoverReport& report, std::string_view what) {
    return std::any_of(report.findings.begin(), report.findings.end(),
                       [&](const auto& finding) { return finding.what == what; });
  }

  std::uint64_t address_of_states() const {
    check::IndexProcessOptions reading;
    const auto tree = check::read_tree_in_process(posix_env(), path(), reading).value();
    return tree.find("/entry/penstock/frame_state")->chunks.front().address;
  }

  /// The first page with something in it from `address` on.
  std::uint64_t structures_after(std::uint64_t address) const {
    const auto bytes = bytes_of(path());
    const auto found = std::find_if(bytes.begin() + static_cast<std::ptrdiff_t>(address), bytes.end(),
                                    [](char byte) { return byte != 0; });
    return static_cast<std::uint64_t>(found - bytes.begin());
  }

  /// As the newest batch of a recorder's journal; large ones behind all else.
  void write_journal(const std::vector<store::Change>& changes, const store::format::FileId& id) const {
    auto bytes = bytes_of(path());
    std::vector<std::byte> batch;
    for (const auto& change : changes) {
      const auto at = batch.size();
      batch.resize(at + 16 + align_up(change.bytes.size(), 8));
      store_le(batch.data() + at, change.address);
      store_le(batch.data() + at + 8, std::uint64_t{change.bytes.size()});
      std::copy(change.bytes.begin(), change.bytes.end(), batch.begin() + static_cast<std::ptrdiff_t>(at) + 16);
    }
    store::format::SegmentHeader header;
    header.file_id = id;
    header.sequence = 1'000'000;
    header.record_count = static_cast<std::uint32_t>(changes.size());
    header.address = 4096;
    std::vector<std::byte> page(page_bytes);
    const auto address = align_up(bytes.size() + (8 << 20), page_bytes);
    store::format::encode_journal(header, {address, batch.size(), crc32c(batch)}, page);
    bytes.resize(address + batch.size());
    std::memcpy(bytes.data() + address, batch.data(), batch.size());
    std::memcpy(bytes.data() + 4096, page.data(), page.size());
    write_bytes(path(), bytes);
  }

  /// The recorder died in the middle of it.
  void tear_last_chunk() const {
    auto bytes = bytes_of(path());
    const auto last = segments().back();
    const auto chunk = store::read_records(*posix_env().open(path(), {}).value(), last).value().back();
    const auto torn = bytes.begin() + static_cast<std::ptrdiff_t>(last.address + chunk.offset + chunk.size / 2);
    std::fill(torn, bytes.end(), '\0');
    write_bytes(path(), bytes);
  }

  /// A file without a dataset, as its writer has it open.
  std::vector<char> empty_hdf5_that_is_written() const {
    const auto name = path("empty.h5");
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
    const hid_t file = H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    EXPECT_GE(H5Fstart_swmr_write(file), 0);
    auto bytes = bytes_of(name);
    H5Fclose(file);
    H5Pclose(access);
    return bytes;
  }

  void flip(std::uint64_t address, std::size_t count = 1) const {
    std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
    for (std::size_t i = 0; i < count; ++i) {
      file.seekg(static_cast<std::streamoff>(address + i));
      const auto byte = static_cast<char>(file.get() ^ 0x55);
      file.seekp(static_cast<std::streamoff>(address + i));
      file.put(byte);
    }
  }

  std::vector<store::format::SegmentHeader> segments() const {
    const auto file = posix_env().open(path(), {}).value();
    auto scanner = store::SegmentScanner::create(*file, {}).value();
    std::vector<store::format::SegmentHeader> found;
    while (const auto header = scanner.next().value()) found.push_back(*header);
    return found;
  }
};

TEST_F(RecoverTest, WhatTheIndexLacksIsFoundInTheSegments) {
  write_left({.encoding = plain});
  const auto report = recover();
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->way, Way::repair);
  EXPECT_TRUE(report->written);
  EXPECT_GT(report->recovered, 0u);
  EXPECT_EQ(report->indexed + report->recovered, 40u);
  EXPECT_EQ(report->missing, 0u);
  expect_frames(40);
  const auto checked = check(path());
  EXPECT_TRUE(checked.ok()) << text(checked);
  EXPECT_EQ(report->segments, checked.segments);
  EXPECT_FALSE(has(checked, "the series is not finished")) << text(checked);
  EXPECT_EQ(checked.missing, 0u);
}

TEST_F(RecoverTest, AStorageThatFailsIsNoDamage) {
  expect_refused([] { return make_error(Errc::io, "the device is gone"); }, "the device is gone");
}

TEST_F(RecoverTest, AStorageThatHangsIsNoDamage) {
  const auto hang = []() -> Result<void> {
    std::this_thread::sleep_for(std::chrono::seconds(60));
    return {};
  };
  RecoverPlan plan;
  plan.index_timeout_s = 3;
  expect_refused(hang, "the storage did not respond", plan);
}

TEST_F(RecoverTest, AReaderThatWasKilledIsNoDamage) {
  const auto die = []() -> Result<void> {
    ::kill(::getpid(), SIGKILL);
    return {};
  };
  expect_refused(die, "signal 9");
}

TEST_F(RecoverTest, StructuresAreMadeAnewWhereThatIsAskedFor) {
  write_recorded(path(), {.encoding = plain});
  EXPECT_EQ(recover()->way, Way::nothing);
  RecoverPlan plan;
  plan.rebuild = true;
  const auto report = recover(plan);
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->way, Way::rebuild);
  EXPECT_TRUE(report->written);
  ASSERT_FALSE(report->findings.empty());
  EXPECT_EQ(report->findings[0].what, "HDF5's structures are rebuilt") << "they were readable";
  EXPECT_EQ(report->recovered, 40u);
  expect_frames(40);
  EXPECT_TRUE(check(path()).ok());
}

/// Detectors that run until they are stopped announce as many frames as a number has room for.
TEST_F(RecoverTest, ASeriesThatAnnouncesBillionsIsCompleted) {
  write_left({.announced = 4'000'000'000, .encoding = plain});
  const auto report = recover();
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->way, Way::repair);
  EXPECT_EQ(report->missing, 4'000'000'000u - 40);
  const auto checked = check(path());
  EXPECT_TRUE(checked.ok()) << text(checked);
}

TEST_F(RecoverTest, ASecondRecoveryHasNothingToDo) {
  write_left({.encoding = plain});
  ASSERT_TRUE(recover().ok());
  const auto before = bytes_of(path());
  const auto again = recover();
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->way, Way::nothing);
  EXPECT_FALSE(again->written);
  EXPECT_EQ(bytes_of(path()), before);
}

TEST_F(RecoverTest, ADryRunTellsAndWritesNothing) {
  write_left({.encoding = plain});
  const auto before = bytes_of(path());
  const auto report = recover(true);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->way, Way::repair);
  EXPECT_GT(report->recovered, 0u);
  EXPECT_FALSE(report->written);
  EXPECT_EQ(bytes_of(path()), before);
}

TEST_F(RecoverTest, AFileThatWasClosedIsLeftAlone) {
  write_recorded(path(), {.encoding = plain});
  const auto before = bytes_of(path());
  EXPECT_EQ(recover().value().way, Way::nothing);
  EXPECT_EQ(bytes_of(path()), before);
}

/// What is left of the seal shows that the file changed: a new one would vouch for what was not recorded.
TEST_F(RecoverTest, AChangedFileWhoseSealIsCutOrDamagedIsNotSealedAnew) {
  write_recorded(path(), {.encoding = plain});
  const auto seal = segments().back();
  ASSERT_EQ(seal.kind, store::format::SegmentKind::seal);
  ASSERT_GT(seal.record_count, 4u);
  auto changed = bytes_of(path());
  changed.at(address_of_states() + 7) ^= 8;
  const auto at = static_cast<std::size_t>(seal.address);
  const auto records_end = at + 128 + seal.record_count * 24;
  auto of_crc = changed, cut = changed, cut_within = changed;
  of_crc.at(at + 128 + 16) ^= 1;
  cut.pop_back();
  cut_within.resize(records_end - 5);
  for (const auto& bytes : {of_crc, cut, cut_within}) {
    write_bytes(path(), bytes);
    for (const bool dry_run : {true, false}) {
      const auto refused = recover(dry_run);
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.error().code(), Errc::corrupt);
      EXPECT_NE(refused.error().message().find("changed after it was closed"), std::string::npos)
          << refused.error().message();
      EXPECT_NE(refused.error().message().find("--rebuild"), std::string::npos);
    }
    EXPECT_TRUE(bytes_of(path()) == bytes);
    EXPECT_FALSE(check(path()).ok());
  }
  RecoverPlan plan;
  plan.rebuild = true;
  ASSERT_TRUE(recover(plan).ok());
  EXPECT_TRUE(check(path()).ok()) << text(check(path()));
}

TEST_F(RecoverTest, AFileThatWasClosedWithoutASealGetsOne) {
  write_recorded(path(), {.encoding = plain});
  const auto closed = bytes_of(path());
  const auto all = segments();
  ASSERT_EQ(all.back().kind, store::format::SegmentKind::seal);
  const auto seal = all.back().address;
  const auto structures = check::read_superblock(*posix_env().open(path(), {}).value()).value()->end_of_file;
  // Killed before the file was cut, before the seal was written, and while it was.
  for (const auto& [end, seal_end] :
       {std::pair(seal + 65536, seal), std::pair(structures, seal), std::pair(seal + 200, seal + 200)}) {
    SCOPED_TRACE(end);
    auto bytes = closed;
    bytes.resize(seal_end);
    bytes.resize(end);
    write_bytes(path(), bytes);
    EXPECT_EQ(recover(true)->written, false);
    EXPECT_EQ(bytes_of(path()), bytes);
    const auto report = recover();
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_TRUE(report->written);
    EXPECT_TRUE(has_finding(*report, seal_end > seal ? "the file's seal is incomplete" : "the file has no seal"));
    const auto checked = check(path());
    EXPECT_TRUE(checked.ok()) << text(checked);
    EXPECT_FALSE(has(checked, "the file was changed since it was closed")) << text(checked);
    expect_frames(40);
    const auto again = recover();
    EXPECT_EQ(again->way, Way::nothing);
    EXPECT_FALSE(again->written);
  }
}

/// A segment that the end of the file cuts off reaches over what a recovery writes there.
TEST_F(RecoverTest, WhatIsWrittenBehindACutSegmentIsSealedAndFound) {
  for (const bool of_seal : {false, true}) {
    SCOPED_TRACE(of_seal);
    std::filesystem::remove(path());
    write_left({.encoding = plain});
    auto bytes = bytes_of(path());
    auto last = segments().back();
    if (of_seal) {
      // Of a file with so many structures that its seal has many pages.
      store::format::SegmentHeader header;
      header.kind = store::format::SegmentKind::seal;
      header.file_id = last.file_id;
      header.address = align_up(bytes.size(), page_bytes);
      std::vector<store::format::Stretch> stretches;
      for (std::uint64_t i = 0; i < 20'000; ++i) stretches.push_back({i * 8, 8, 0});
      std::vector<std::byte> region(
          store::format::header_region_bytes(stretches.size() * store::format::stretch_size_bytes));
      header.segment_bytes = region.size();
      store::format::encode_stretches(header, stretches, region);
      bytes.resize(header.address);
      const auto* first = reinterpret_cast<const char*>(region.data());
      bytes.insert(bytes.end(), first, first + page_bytes);
    } else {
      bytes.resize(last.address + page_bytes);
    }
    write_bytes(path(), bytes);
    const auto report = recover();
    ASSERT_TRUE(report.ok()) << report.error().message();
    const auto all = segments();
    ASSERT_EQ(all.back().kind, store::format::SegmentKind::seal);
    const auto file = posix_env().open(path(), {}).value();
    const auto stretches = store::read_stretches(*file, all.back()).value();
    const auto after = bytes_of(path());
    for (auto page = align_up(bytes.size(), page_bytes); page < all.back().address; page += page_bytes) {
      const auto* first = after.data() + page;
      if (std::all_of(first, first + page_bytes, [](char byte) { return byte == 0; })) continue;
      EXPECT_TRUE(
          std::any_of(stretches.begin(), stretches.end(),
                      [&](const auto& stretch) { return stretch.address < page + page_bytes && page < stretch.end(); }))
          << "page at " << page << " is in no stretch of the seal";
    }
    if (!of_seal) {
      EXPECT_GE(structures_after(bytes.size()), last.address + last.segment_bytes)
          << "new structures lie in the segment";
    }
    const auto checked = check(path());
    EXPECT_FALSE(has(checked, "a segment's header is corrupt")) << text(checked);
  }
}

TEST_F(RecoverTest, AJournalThatIsOfNoUseIsReported) {
  write_left({.encoding = plain});
  flip(4096 + 30);
  flip(8192 + 30);
  const auto report = recover();
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_TRUE(has_finding(*report, "the journal of HDF5's structures cannot be used"));
  EXPECT_TRUE(check(path()).ok());
  expect_frames(40);
}

TEST_F(RecoverTest, TheJournalOfAnotherFileIsNotApplied) {
  write_left({.encoding = plain});
  write_journal({{48, std::vector<std::byte>(2000)}}, store::format::make_file_id());
  const auto report = recover();
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->way, Way::repair);
  expect_frames(40);
}

/// Ten times as many; if each change looked at all others, it would take a hundred times as long.
TEST_F(RecoverTest, TheTimeToApplyAJournalGrowsNoFasterThanItsChanges) {
  const auto busy_s = [this](int count) {  // of this process alone: others may have the processors
    std::filesystem::remove(path());
    write_left({.encoding = plain});
    std::mt19937_64 random(7);
    std::vector<store::Change> changes;
    const auto end = bytes_of(path()).size();
    for (int i = 0; i < count; ++i)
      changes.push_back({end + random() % (4 << 20), std::vector<std::byte>(8, std::byte{7})});
    write_journal(changes, segments().front().file_id);
    // They are in place, so that each of them has to be looked at.
    auto bytes = bytes_of(path());
    for (const auto& change : changes) std::memset(bytes.data() + change.address, 7, change.bytes.size());
    write_bytes(path(), bytes);
    const auto before = std::clock();
    const auto report = recover();
    const auto busy = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    EXPECT_TRUE(report.ok()) << report.error().message();
    EXPECT_EQ(report->way, Way::repair);
    expect_frames(40);
    return busy;
  };
  const auto few_s = busy_s(30'000);
  EXPECT_LT(busy_s(300'000), 40 * few_s);
}

TEST_F(RecoverTest, FramesThatNeverCameStayMissing) {
  write_left({.absent = {3, 17}, .encoding = plain});
  const auto report = recover().value();
  EXPECT_EQ(report.missing, 2u);
  expect_frames(40, {3, 17});
  const auto checked = check(path());
  EXPECT_TRUE(checked.ok()) << text(checked);
  EXPECT_EQ(checked.missing, 2u);
}

TEST_F(RecoverTest, AChunkThatWasBeingWrittenIsMissingAndNotLost) {
  for (const bool rebuild : {false, true}) {
    SCOPED_TRACE(rebuild);
    std::filesystem::remove(path());
    write_left({.encoding = plain});
    tear_last_chunk();
    const auto report = recover({.rebuild = rebuild}).value();
    EXPECT_EQ(report.damaged, 1u);
    EXPECT_EQ(report.missing, 1u);
    EXPECT_EQ(report.lost_frames, 0u);
    ASSERT_EQ(report.findings.size(), rebuild ? 2u : 1u);
    for (const auto& finding : report.findings)
      EXPECT_EQ(finding.level, check::Level::warning) << "the file is not damaged: " << finding.what;
    const auto checked = check(path());
    EXPECT_TRUE(checked.ok()) << "a frame that was never acknowledged is not damage: " << text(checked);
    EXPECT_TRUE(has(checked, "a chunk has no end")) << text(checked);
    EXPECT_EQ(checked.missing, 1u);
    EXPECT_EQ(checked.lost_frames, 0u);
    EXPECT_FALSE(has(checked, "a frame is marked as received but missing")) << text(checked);
    EXPECT_EQ(pixels().size(), 40 * rows * columns);
  }
}

/// An incomplete copy: a recorder had given the file the space of the whole segment.
TEST_F(RecoverTest, AFrameIsLostIfAnUnfinishedFileEndsWithinIt) {
  write_left({.encoding = plain});
  const auto last = segments().back();
  const auto chunk = store::read_records(*posix_env().open(path(), {}).value(), last).value().back();
  std::filesystem::resize_file(path(), last.address + chunk.offset + chunk.size / 2);
  EXPECT_FALSE(check(path()).ok());
  const auto report = recover().value();
  EXPECT_EQ(report.lost_frames, 1u);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().level, check::Level::error);
  EXPECT_NE(report.findings.front().remedy.find("copy it again from its source"), std::string::npos);
  EXPECT_FALSE(check(path()).ok());
}

/// As a file is left whose recorder died before its datasets were in HDF5's structures.
TEST_F(RecoverTest, AChunkThatWasBeingWrittenIsMissingThoughNoDatasetIsThere) {
  const auto empty = empty_hdf5_that_is_written();
  ASSERT_LE(empty.size(), 4096u);
  for (const bool torn : {true, false}) {
    SCOPED_TRACE(torn);
    std::filesystem::remove(path());
    write_left({.encoding = plain});
    if (torn)
      tear_last_chunk();
    else
      flip(segments().back().address + segments().back().header_bytes + 100);
    auto bytes = bytes_of(path());
    std::fill_n(bytes.begin(), segments().front().address, '\0');
    std::copy(empty.begin(), empty.end(), bytes.begin());
    write_bytes(path(), bytes);
    const auto before = check(path());
    EXPECT_EQ(before.state, check::State::unfinished);
    EXPECT_EQ(has(before, "a chunk has no end"), torn) << text(before);
    EXPECT_EQ(has(before, "a chunk is corrupt"), !torn) << text(before);
    EXPECT_FALSE(has(before, "a chunk's checksum is wrong")) << text(before);
    const auto report = recover().value();
    EXPECT_EQ(report.missing, 1u);
    EXPECT_EQ(report.lost_frames, torn ? 0u : 1u);
  }
}

TEST_F(RecoverTest, AFlippedBitInTheSignatureIsNamedAndRepaired) {
  write_recorded(path(), {.encoding = plain});
  flip(2);
  const auto before = check(path());
  EXPECT_TRUE(has(before, "HDF5's signature is corrupt")) << text(before);
  EXPECT_FALSE(has(before, "not an HDF5 file")) << text(before);
  const auto report = recover().value();
  EXPECT_EQ(report.missing, 0u);
  expect_frames(40);
  EXPECT_TRUE(check(path()).ok());
}

TEST_F(RecoverTest, FlippedBitInAChunkThatTheIndexLacksIsALoss) {
  write_left({.announced = 0, .encoding = plain});
  const auto last = segments().back();
  const auto chunk = store::read_records(*posix_env().open(path(), {}).value(), last).value().back();
  flip(last.address + chunk.offset + 100);
  EXPECT_FALSE(check(path()).ok());
  for (const bool again : {false, true}) {
    SCOPED_TRACE(again);
    const auto report = recover().value();
    EXPECT_EQ(report.frames, 40u);
    EXPECT_EQ(report.missing, 1u);
    EXPECT_EQ(report.damaged, 1u);
    EXPECT_EQ(report.lost_frames, 1u);
    ASSERT_EQ(report.findings.size(), 1u);
    EXPECT_EQ(report.findings.front().level, check::Level::error);
    const auto checked = check(path());
    EXPECT_FALSE(checked.ok()) << text(checked);
    EXPECT_TRUE(has(checked, "a chunk is corrupt")) << text(checked);
    EXPECT_EQ(checked.missing, 1u);
    EXPECT_EQ(checked.lost_frames, 1u) << "the column of states ends with the frames: " << text(checked);
  }
}

/// As of images whose last rows are empty: the end of the chunk does not show whether it was written.
TEST_F(RecoverTest, ABitThatIsFlippedBeforeZerosIsALossAndAWriteThatEndedThereIsNone) {
  for (const bool flipped : {true, false}) {
    SCOPED_TRACE(flipped);
    std::filesystem::remove(path());
    write_left({.zero_tail = 1100, .encoding = plain});
    const auto last = segments().back();
    const auto chunk = store::read_records(*posix_env().open(path(), {}).value(), last).value().back();
    const auto begin = last.address + chunk.offset;
    ASSERT_EQ(chunk.zero_sectors, 2u);
    if (flipped) {
      flip(begin + 100);
    } else {
      auto bytes = bytes_of(path());
      std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.end(), '\0');
      write_bytes(path(), bytes);
    }
    const auto report = recover().value();
    EXPECT_EQ(report.missing, 1u);
    EXPECT_EQ(report.lost_frames, flipped ? 1u : 0u);
    const auto after = check(path());
    EXPECT_EQ(after.ok(), !flipped) << text(after);
  }
}

/// An open end: nothing but its chunks and columns says how many frames a series has.
TEST_F(RecoverTest, ColumnsAndDatasetsEndWithTheSameFrameAfterATornSegment) {
  for (const bool torn : {true, false}) {
    SCOPED_TRACE(torn);
    std::filesystem::remove(path());
    write_left({.announced = 0, .encoding = plain});
    auto bytes = bytes_of(path());
    const auto last = segments().back();
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(last.address + last.header_bytes);
    std::fill(from, bytes.end(), torn ? '\0' : 'x');
    write_bytes(path(), bytes);
    const auto report = recover().value();
    const auto checked = check(path());
    EXPECT_EQ(checked.ok(), torn) << text(checked);
    for (const auto& finding : checked.findings)
      EXPECT_TRUE(finding.level != check::Level::error || finding.what == "a chunk is corrupt" ||
                  finding.what == "frames are lost")
          << text(checked);
    EXPECT_EQ(checked.frames, report.frames);
    EXPECT_EQ(pixels().size(), report.frames * rows * columns);
    check::IndexProcessOptions reading;
    const auto tree = check::read_tree_in_process(posix_env(), path(), reading).value();
    EXPECT_EQ(tree.find("/entry/penstock/frame_state")->info.shape.front(), report.frames);
  }
}

TEST_F(RecoverTest, OfAFileWhoseDescriptionIsCutOffTheEndIsLostAndNotItsStart) {
  write_recorded(path(), {.encoding = plain});
  std::filesystem::resize_file(path(), segments().front().address);
  RecoverPlan plan;
  plan.salvage = true;
  const auto refused = recover(plan);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::truncated);
  EXPECT_NE(refused.error().message().find("copy it again"), std::string::npos) << refused.error().message();
  EXPECT_EQ(refused.error().message().find("start"), std::string::npos) << refused.error().message();
}

/// An interrupted copy, say.
TEST_F(RecoverTest, CutFileIsRefusedOrSalvagedWithItsFramesMarkedAsLost) {
  write_recorded(path(), {.encoding = plain});
  const auto whole = bytes_of(path());
  const auto end = check::read_superblock(*posix_env().open(path(), {}).value()).value()->end_of_file;
  const auto chunks = segments();
  for (const auto share : {60, 99}) {
    SCOPED_TRACE(share);
    auto bytes = whole;
    bytes.resize(end * share / 100);
    write_bytes(path(), bytes);
    const auto checked = check(path());
    EXPECT_FALSE(checked.ok());
    EXPECT_EQ(text(checked).find("penstock recover` seals"), std::string::npos) << text(checked);
    for (const bool dry_run : {true, false}) {
      const auto refused = recover(dry_run);
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.error().code(), Errc::truncated);
      EXPECT_NE(refused.error().message().find("--salvage"), std::string::npos) << refused.error().message();
    }
    EXPECT_EQ(bytes_of(path()), bytes);
    RecoverPlan plan;
    plan.salvage = true;
    const auto report = recover(plan);
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_TRUE(has_finding(*report, "the file is shorter than it says"));
    EXPECT_EQ(report->frames, 40u);
    const auto after = check(path());
    for (const auto& finding : after.findings)
      EXPECT_TRUE(finding.level != check::Level::error || finding.what == "frames are lost") << text(after);
    EXPECT_EQ(after.ok(), report->missing == 0) << text(after);
    EXPECT_EQ(after.missing, report->missing);
    EXPECT_EQ(after.lost_frames, report->missing) << text(after);
    std::vector<std::uint64_t> gone;
    const auto file = posix_env().open(path(), {}).value();
    std::set<std::uint64_t> there;
    for (const auto& header : chunks) {
      if (header.kind != store::format::SegmentKind::chunks || header.address + page_bytes > bytes.size()) continue;
      const auto records = store::read_records(*file, header).value();
      for (const auto& record : records)
        if (header.address + record.offset + record.size <= bytes.size()) there.insert(record.chunk_index);
    }
    for (std::uint64_t frame = 0; frame < 40; ++frame)
      if (!there.contains(frame)) gone.push_back(frame);
    EXPECT_EQ(report->missing, gone.size());
    expect_frames(40, gone);
    const auto again = recover().value();
    EXPECT_EQ(again.way, Way::nothing);
    EXPECT_EQ(again.missing, report->missing);
  }
}

TEST_F(RecoverTest, WithoutASuperblockTheStructureIsMadeAnew) {
  for (const bool finished : {false, true}) {
    std::filesystem::remove(path());
    if (finished)
      write_recorded(path(), {.encoding = plain});
    else
      write_left({.encoding = plain});
    flip(0, 64);
    const auto report = recover();
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_EQ(report->way, Way::rebuild);
    EXPECT_EQ(report->recovered, 40u);
    expect_frames(40);
    const auto checked = check(path());
    for (const auto& finding : checked.findings) EXPECT_NE(finding.level, check::Level::error) << text(checked);
    EXPECT_EQ(checked.missing, 0u);
    EXPECT_EQ(recover().value().way, Way::nothing);
  }
}

/// In parts, which run side by side.
class DamagedStructure : public RecoverTest, public ::testing::WithParamInterface<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Seeds, DamagedStructure, ::testing::Range(20u, 26u));

TEST_P(DamagedStructure, WhateverPartIsHitTheFramesComeBack) {
  write_recorded(path("whole.h5"), {.encoding = plain});
  const auto whole = bytes_of(path("whole.h5"));
  write_bytes(path(), whole);
  std::mt19937 random(GetParam());
  int rebuilt = 0;
  for (int round = 0; round < 10; ++round) {
    auto bytes = whole;
    // Where HDF5 has its superblock, groups, and the headers and indexes of datasets.
    const auto at = random() % 6000;
    for (std::size_t i = 0; i < 64; ++i) bytes[at + i] = static_cast<char>(random());
    write_bytes(path(), bytes);
    const auto report = recover();
    ASSERT_TRUE(report.ok()) << "round " << round << ": " << report.error().message();
    rebuilt += report->way == Way::rebuild;
    if (report->way == Way::nothing) continue;  // what was hit holds nothing that the index needs
    expect_frames(40);
  }
  EXPECT_GT(rebuilt, 0);
}

TEST_F(RecoverTest, ADamagedSegmentCostsItsOwnChunksAndNoOther) {
  enum class Part { header, records, chunk };
  for (const auto part : {Part::header, Part::records, Part::chunk}) {
    std::filesystem::remove(path());
    write_left({.encoding = plain});
    const auto found = segments();
    const auto& victim = found.at(found.size() / 2);
    const auto records = store::read_records(*posix_env().open(path(), {}).value(), victim).value();
    ASSERT_GT(records.size(), 1u);
    std::vector<std::uint64_t> lost;
    for (const auto& record : records) lost.push_back(record.chunk_index);
    if (part == Part::chunk) lost.resize(1);
    flip(victim.address + (part == Part::header ? 40 : (part == Part::records ? 130 : records.front().offset + 10)));
    const auto report = recover().value();
    EXPECT_EQ(report.missing, lost.size());
    EXPECT_EQ(report.frames, 40u);
    expect_frames(40, lost);
  }
}

TEST_F(RecoverTest, ARecorderThatGoesOnIsToldWhatIsThere) {
  write_left({.absent = {3, 17}, .encoding = plain});
  const auto last = segments().back();
  const auto torn = store::read_records(*posix_env().open(path(), {}).value(), last).value().back();
  flip(last.address + torn.offset + 5);
  auto plan = RecoverPlan{};
  plan.file = path();
  const auto run = [&](const char* series, bool finished) {
    plan.series = ForSeries{series, finished};
    return run_recover(
        posix_env(), plan, [](auto, auto, const auto&) {}, [] { return false; });
  };
  const auto before = bytes_of(path());
  EXPECT_EQ(run("another", true).error().code(), Errc::mismatch);
  EXPECT_EQ(bytes_of(path()), before) << "a file of another series was written to";

  const auto report = run(series_name, false);
  ASSERT_TRUE(report.ok()) << report.error().message();
  ASSERT_TRUE(report->contents);
  const auto& runs = report->contents->datasets.at(0);
  std::vector<std::uint64_t> there;
  for (const auto& [first, end] : runs)
    for (auto frame = first; frame <= end; ++frame) there.push_back(frame);
  EXPECT_EQ(there.size(), 37u);
  for (const auto frame : {std::uint64_t{3}, std::uint64_t{17}, torn.chunk_index})
    EXPECT_FALSE(std::binary_search(there.begin(), there.end(), frame)) << frame;
  EXPECT_EQ(report->contents->last_sequence, last.sequence);

  EXPECT_TRUE(run(series_name, false).ok()) << "its end is left to the recorder";
  ASSERT_TRUE(recover().ok());
  EXPECT_EQ(run(series_name, false).error().code(), Errc::already_exists) << "it is finished now";
  EXPECT_EQ(run(series_name, true).value().contents->datasets.at(0).size(), runs.size());
}

TEST_F(RecoverTest, AFileThatIsStillRecordedIsNotTouched) {
  write_recorded(path(), {.encoding = plain});
  const auto holder = posix_env().open(path(), {}).value();
  ASSERT_TRUE(holder->lock(false).ok());
  const auto report = recover();
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::locked);
}

TEST_F(RecoverTest, AFileWithoutLocksThatMayBeRecordedIsNotTouched) {
  write_left({.encoding = plain});
  const auto left = bytes_of(path());
  penstock::testing::FaultEnv env;
  env.faults->locks = false;
  const auto report = recover(RecoverPlan{}, env);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::locked);
  EXPECT_NE(report.error().message().find("--not-in-use"), std::string::npos) << report.error().message();
  EXPECT_EQ(bytes_of(path()), left);

  EXPECT_TRUE(recover({.dry_run = true}, env).ok()) << "it writes nothing";
  EXPECT_EQ(bytes_of(path()), left);
  ASSERT_TRUE(recover({.not_in_use = true}, env).ok());
  expect_frames(40);
  EXPECT_TRUE(recover(RecoverPlan{}, env).ok()) << "it is closed now";
}

TEST_F(RecoverTest, OfACutFileNoMoreFramesAreLostThanWereCutOff) {
  constexpr std::uint64_t sent = 40, announced = 1'000'000;
  write_recorded(path(), {.frames = sent, .announced = announced, .encoding = plain});
  const auto size = std::filesystem::file_size(path());
  std::filesystem::resize_file(path(), size * 6 / 10);
  const auto report = recover({.salvage = true});
  ASSERT_TRUE(report.ok()) << report.error().message();
  const auto whole = report->frames - report->missing;
  EXPECT_LT(whole, sent);
  const auto lost = report->lost_frames;
  EXPECT_EQ(report->damaged_frames, 0u) << "arrived, but not understood: none did";
  EXPECT_GE(whole + lost, sent) << "what was sent is there or lost";
  const auto frame_bytes = rows * columns * sizeof(std::uint16_t);
  EXPECT_LE(report->lost_frames, size * 4 / 10 / frame_bytes + 3) << "the others were never sent";

  const auto checked = check(path());
  EXPECT_TRUE(has(checked, "frames are lost")) << text(checked);
  EXPECT_EQ(checked.lost_frames, lost);
  EXPECT_EQ(checked.missing, report->missing);
  const auto again = recover();
  EXPECT_EQ(again->way, Way::nothing);
  EXPECT_EQ(again->lost_frames, lost) << "also if there is nothing to do";
}

TEST_F(RecoverTest, OnAFullStorageTheErrorSaysWhatDidNotFit) {
  write_left({.encoding = plain});
  penstock::testing::FaultEnv env;
  const auto full = [size = std::filesystem::file_size(path())](auto offset, auto bytes) -> Result<void> {
    return offset + bytes > size ? make_error(Errc::no_space, "no space left") : Result<void>{};
  };
  env.faults->on_write = full;
  env.faults->on_reserve = full;
  const auto report = recover(RecoverPlan{}, env);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::no_space);
  EXPECT_NE(report.error().message().find("what completes its index did not fit on the storage"), std::string::npos)
      << report.error().message();
  ASSERT_TRUE(recover().ok());
  expect_frames(40);
}

/// However much of what it needs finds space: what readers could read before they can read afterwards.
TEST_F(RecoverTest, ARecoveryWithoutSpaceLeavesTheFileAsItWas) {
  FileSpec spec{.frames = 300, .announced = 300, .encoding = plain};
  spec.finish = false;
  spec.flush_interval = std::chrono::milliseconds(1);
  for (const bool reserves : {true, false}) {
    write_recorded(path(), spec);
    const auto before = bytes_of(path());
    std::uint64_t room = 0, refused = 0;
    for (bool has_space = false; !has_space; room += 8192) {
      SCOPED_TRACE(fmt::format("reserves {}, {} bytes", reserves, room));
      write_bytes(path(), before);
      penstock::testing::FaultEnv env;
      env.faults->reserves = reserves;
      const auto full = [size = before.size() + room](auto offset, auto bytes) -> Result<void> {
        return offset + bytes > size ? make_error(Errc::no_space, "no space left") : Result<void>{};
      };
      env.faults->on_write = full;
      env.faults->on_reserve = full;
      const auto report = recover(RecoverPlan{}, env);
      has_space = report.ok();
      if (has_space) break;
      ++refused;
      ASSERT_EQ(report.error().code(), Errc::no_space) << report.error().message();
      ASSERT_TRUE(bytes_of(path()) == before);
      EXPECT_NE(report.error().message().find("as readable as before"), std::string::npos) << report.error().message();
    }
    EXPECT_GT(refused, 3u);
    expect_frames(300);
    std::filesystem::remove(path());
  }
}

/// A frame in the index stays there, and the check names its damage each time.
TEST_F(RecoverTest, TheCheckCountsFramesOfALeftFileAsAfterItsRecovery) {
  FileSpec spec{.frames = 100, .announced = 120, .encoding = plain};
  spec.finish = false;
  spec.flush_interval = std::chrono::milliseconds(1);
  write_recorded(path(), spec);
  const auto all = segments();
  const auto first = std::find_if(all.begin(), all.end(),
                                  [](const auto& header) { return header.kind == store::format::SegmentKind::chunks; });
  ASSERT_NE(first, all.end());
  auto bytes = bytes_of(path());
  bytes.at(first->address + first->header_bytes + 9) ^= 4;
  write_bytes(path(), bytes);
  const auto before = check(path());
  ASSERT_TRUE(has(before, "a chunk's checksum is wrong")) << "the index has the frame: " << text(before);
  const auto report = recover().value();
  const auto after = check(path());
  EXPECT_EQ(before.recoverable, report.frames - report.missing);
  EXPECT_EQ(before.missing, report.missing);
  EXPECT_EQ(after.missing, report.missing);
  EXPECT_FALSE(before.ok() || after.ok());
}

/// For the way of the recovery: whether it rebuilds.
class FullStorage : public RecoverTest, public ::testing::WithParamInterface<bool> {};

TEST_P(FullStorage, TheCheckCallsARecoveryWithoutSpaceUnfinishedWhereverItEnded) {
  write_left({.encoding = plain});
  const auto left = bytes_of(path());
  RecoverPlan plan;
  plan.rebuild = GetParam();
  // Where files have holes, any write may find no space.
  std::uint64_t writes = 0;
  for (bool has_space = false; !has_space; writes += 1 + writes / 2) {
    write_bytes(path(), left);
    penstock::testing::FaultEnv env;
    env.faults->on_write = [room = writes](auto, auto) mutable -> Result<void> {
      if (room == 0) return make_error(Errc::no_space, "no space left");
      --room;
      return {};
    };
    const auto report = recover(plan, env);
    const auto checked = check(path());
    has_space = report.ok();
    EXPECT_TRUE(checked.ok()) << writes << " writes\n" << text(checked);
    if (has_space) break;
    EXPECT_TRUE(checked.unfinished()) << writes << " writes\n" << text(checked);
    EXPECT_EQ(checked.recoverable, 40u) << writes << " writes\n" << text(checked);
    ASSERT_TRUE(recover().ok()) << writes << " writes";
    expect_frames(40);
  }
  EXPECT_GT(writes, 2u);
}

INSTANTIATE_TEST_SUITE_P(Ways, FullStorage, ::testing::Values(false, true),
                         [](const auto& each) { return each.param ? "rebuild" : "repair"; });

TEST_F(RecoverTest, FramesThatTheFileCallsLostAreAnErrorAsInTheCheck) {
  write_recorded(path(), {.frames = 6, .announced = 6, .absent = {4}, .lost = {4}, .encoding = plain});
  const auto checked = check(path());
  EXPECT_TRUE(has(checked, "frames are lost")) << text(checked);
  const auto report = recover().value();
  EXPECT_EQ(report.way, Way::nothing);
  EXPECT_EQ(report.missing, checked.missing);
  EXPECT_EQ(report.lost_frames, checked.lost_frames);
  EXPECT_TRUE(has_finding(report, "frames are lost"));
}

TEST_F(RecoverTest, WhatIsNotOfPenstockIsRefused) {
  write_bytes(path(), std::vector<char>(100'000, 'x'));
  const auto report = recover();
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::malformed);
  EXPECT_EQ(bytes_of(path()), std::vector<char>(100'000, 'x'));
  std::filesystem::remove(path());
  EXPECT_EQ(recover().error().code(), Errc::not_found);
}

TEST_F(RecoverTest, ARecoveryThatIsKilledCanBeRepeated) {
  // From another process's view: killed at a random moment of its writing, twenty times over.
  write_left({.frames = 2000, .announced = 2000, .encoding = plain});
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const auto child = ::fork();
    if (child == 0) {
      (void)recover();
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(random() % 30'000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  const auto report = recover();
  ASSERT_TRUE(report.ok()) << report.error().message();
  expect_frames(2000);
  EXPECT_EQ(check(path()).missing, 0u);
}

TEST(RecoverPlanTest, WhatIsWrongIsNamed) {
  using nlohmann::json;
  const auto message = [](const json& plan) { return RecoverPlan::from_json(plan).error().message(); };
  EXPECT_NE(message(json::object()).find("file: "), std::string::npos);
  EXPECT_NE(message({{"file", "x"}, {"dry_run", 1}}).find("dry_run: 1 is not true or false"), std::string::npos);
  EXPECT_NE(message({{"file", "x"}, {"index_timeout_s", -1}}).find("index_timeout_s: -1 is below the minimum of 0.001"),
            std::string::npos);
  EXPECT_NE(message({{"file", "x"}, {"fyle", 1}}).find("fyle: unknown field; did you mean \"file\"?"),
            std::string::npos);
  EXPECT_NE(message({{"file", 3}}).find("file: "), std::string::npos);
}

}  // namespace
}  // namespace penstock::recover
