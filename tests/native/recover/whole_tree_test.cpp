// A file whose HDF5 structures are lost comes back as its recorder made it: masks, geometry, texts, links, attributes.

#include <limits>

#include "../check/check_fixture.hpp"
#include "../support/fault_env.hpp"
#include "../support/hdf5_content.hpp"
#include "recover/recover.hpp"
#include "store/recovery/find_description.hpp"
#include "store/recovery/scan.hpp"
#include "store/seal.hpp"

namespace penstock::recover {
namespace {

using check::testing::bytes_of;
using check::testing::write_bytes;
using penstock::testing::Content;
using penstock::testing::content_of_file;
using store::Placement;
using store::scalar;

constexpr std::uint64_t frame_count = 12;
constexpr const char* mask_path = "/entry/instrument/detector/pixel_mask";

store::Value numbers(std::uint64_t rows, std::uint64_t columns) {
  store::ArrayValue array{{ElementType::u32, {rows, columns}}, std::vector<std::byte>(rows * columns * 4)};
  for (std::size_t i = 0; i < array.data.size(); ++i) array.data[i] = static_cast<std::byte>(i * 7 + i / 256);
  return array;
}

store::FileLayout rich_layout(Placement placement) {
  store::FileLayout layout;
  layout.groups = {{"/", {{"default", std::string("entry")}, {"NX_class", std::string("NXroot")}}},
                   {"/entry", {{"NX_class", std::string("NXentry")}, {"version", scalar(std::int64_t{-3})}}},
                   {"/entry/empty", {}},
                   {"/entry/instrument/detector", {{"names", std::vector<std::string>{"a", "Å", ""}}}}};
  layout.values.push_back({mask_path, numbers(80, 90), {{"meaning", std::string("bits")}}});
  layout.values.push_back({"/entry/instrument/detector/flatfield", numbers(64, 64), {}});
  layout.values.push_back({"/entry/instrument/detector/small_mask", numbers(3, 4), {}});
  layout.values.push_back({"/entry/wavelength", scalar(0.99), {{"units", std::string("angstrom")}}});
  layout.values.push_back({"/entry/nan", store::vector_of({std::numeric_limits<double>::quiet_NaN(), -0.0}), {}});
  layout.values.push_back({"/entry/saturated", store::Boolean{true}, {{"sure", store::Boolean{false}}}});
  layout.values.push_back({"/entry/empty_list", std::vector<std::string>{}, {}});
  layout.values.push_back({"/entry/names", std::vector<std::string>{"one", "", "drei"}, {}});
  layout.values.push_back({"/entry/latin", std::string("caf\xe9"), {}});
  layout.values.push_back({"/entry/penstock/frames_announced", scalar(frame_count), {}});
  layout.values.push_back({"/entry/penstock/series_unique_id", std::string("a series"), {}});
  layout.values.push_back({"/entry/penstock/user_data", std::string(30'000, 'x') + "end", {}});
  layout.values.push_back({"/entry/penstock/layout/end_time", std::string("/entry/elsewhere/end"), {}});
  store::ChunkedNode data;
  data.path = "/entry/data/data";
  data.frame_shape = {16, 32};
  data.frames_max = frame_count;
  data.attributes = {{"signal_of", std::string("a detector")}, {"offset", store::vector_of({1.5, 2.5})}};
  data.places.placement = placement;
  layout.chunked.push_back(data);
  layout.columns.push_back({"/entry/penstock/frame_state", ElementType::u8, {}, {{"meaning", std::string("0, 1")}}});
  layout.links.push_back({"/entry/instrument/detector/data", "/entry/data/data"});
  layout.links.push_back({"/entry/mask", mask_path});
  return layout;
}

class WholeTree : public check::testing::CheckTest {
 protected:
  /// Frames in it; finished, or as a recorder's death leaves it.
  void record(const store::FileLayout& layout, bool finish) {
    store::StoreOptions options;
    options.segment_bytes = 8 << 10;
    options.extent_bytes = 64 << 10;
    options.buffer_bytes = 1 << 20;
    check::testing::FileSpec spec;
    check::testing::StateListener listener(spec);
    auto made = store::Store::create(posix_env(), path(), layout, options, &listener);
    ASSERT_TRUE(made.ok()) << made.error().message();
    {
      auto writer = (*made)->make_writer();
      for (std::uint64_t frame = 0; frame < frame_count; ++frame) {
        const std::vector<std::byte> pixels(1024, static_cast<std::byte>(frame + 1));
        ASSERT_TRUE(writer->put({store::DatasetId{0}, frame, 0, 1, frame}, pixels, nullptr, pixels.size()).ok());
      }
      ASSERT_TRUE(writer->flush().ok());
    }
    listener.wait_for(frame_count);
    if (finish) {
      store::FinalValues values;
      values.frames = frame_count;
      values.values.push_back({"/entry/elsewhere/end", std::string("2026"), {}});
      for (const auto* name : {"received", "missing", "damaged", "partial", "dropped", "lost"})
        values.attributes.emplace_back(
            "/entry/penstock/frame_state",
            store::Attribute{name, scalar(std::uint64_t{name == std::string("received") ? frame_count : 0})});
      ASSERT_TRUE((*made)->finish(values).ok());
      return;
    }
    std::map<std::string, std::vector<char>> left;
    for (const auto& file : std::filesystem::directory_iterator(folder_))
      left[file.path().string()] = bytes_of(file.path().string());
    made = make_error(Errc::cancelled, "gone");
    for (const auto& [file, bytes] : left) write_bytes(file, bytes);
  }

  Result<RecoverReport> recover(bool rebuild = false, Env& env = posix_env()) const {
    RecoverPlan plan;
    plan.file = path();
    plan.rebuild = rebuild;
    plan.index_timeout_s = 20;
    return run_recover(
        env, plan, [](auto, auto, const auto&) {}, [] { return false; });
  }

  void zero(std::uint64_t address, std::size_t count) const {
    auto bytes = bytes_of(path());
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(address), count, '\0');
    write_bytes(path(), bytes);
  }
  void flip(std::uint64_t address) const {
    auto bytes = bytes_of(path());
    bytes.at(address) = static_cast<char>(bytes.at(address) ^ 4);
    write_bytes(path(), bytes);
  }

  std::vector<store::format::SegmentHeader> descriptions() const {
    const auto file = posix_env().open(path(), {}).value();
    auto scanner = store::SegmentScanner::create(*file, {}).value();
    std::vector<store::format::SegmentHeader> found;
    while (const auto header = scanner.next().value())
      if (header->kind == store::format::SegmentKind::description) found.push_back(*header);
    return found;
  }
  store::FoundDescription description() const {
    const auto file = posix_env().open(path(), {}).value();
    return store::find_description(*file, {}).value();
  }
  store::ValuePlace place_of(const std::string& value) const {
    for (const auto& node : description().description.values)
      if (node.path == value && node.place) return *node.place;
    ADD_FAILURE() << value << " lies in no segment";
    return {};
  }

  /// What a recovery may add or know otherwise.
  static Content comparable(Content content) {
    for (const auto* name : {"/@penstock_rebuilt", "/@penstock_file_id", "/entry/elsewhere/end", "/entry/end_time",
                             "/entry/penstock/ended_by", "/entry/penstock/ended_by@description"})
      content.erase(name);
    return content;
  }
  static void expect_same(const Content& actual, const Content& expected) {
    for (const auto& [path, text] : expected) {
      const auto found = actual.find(path);
      if (found == actual.end())
        ADD_FAILURE() << path << " is gone";
      else
        EXPECT_EQ(found->second, text) << path;
    }
    for (const auto& [path, text] : actual) EXPECT_TRUE(expected.contains(path)) << path << " is new";
  }
  static std::string text(const RecoverReport& report) { return to_json(report).dump(1); }
};

class WholeTreeOf : public WholeTree, public ::testing::WithParamInterface<Placement> {};
INSTANTIATE_TEST_SUITE_P(Placements, WholeTreeOf, ::testing::Values(Placement::log, Placement::slots),
                         [](const auto& each) { return each.param == Placement::log ? "log" : "slots"; });

TEST_P(WholeTreeOf, ComesBackWhenHdf5sStructuresAreLost) {
  record(rich_layout(GetParam()), true);
  const auto before = content_of_file(path());
  ASSERT_TRUE(before.contains("/entry/mask@meaning"));
  EXPECT_TRUE(check(path()).ok()) << CheckTest::text(check(path()));
  zero(0, 4096);
  const auto report = recover();
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->way, Way::rebuild);
  for (const auto& finding : report->findings) EXPECT_NE(finding.level, check::Level::error) << text(*report);
  const auto after = content_of_file(path());
  expect_same(comparable(after), comparable(before));
  EXPECT_TRUE(after.contains("/entry/elsewhere/end")) << "the place of the end is a user's";
  EXPECT_TRUE(check(path()).ok()) << CheckTest::text(check(path()));
  EXPECT_FALSE(has(check(path()), "the file was changed since it was closed"));
}

TEST_P(WholeTreeOf, OfAFileThatWasLeftIsAsItsRecorderWouldHaveClosedIt) {
  record(rich_layout(GetParam()), true);
  const auto closed = content_of_file(path());
  for (const bool structures_are_lost : {false, true}) {
    std::filesystem::remove(path());
    record(rich_layout(GetParam()), false);
    if (structures_are_lost) zero(48, 2000);
    const auto report = recover();
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_EQ(report->way, structures_are_lost ? Way::rebuild : Way::repair);
    for (const auto& finding : report->findings) EXPECT_NE(finding.level, check::Level::error) << text(*report);
    expect_same(comparable(content_of_file(path())), comparable(closed));
    const auto checked = check(path());
    EXPECT_TRUE(checked.ok()) << CheckTest::text(checked);
    EXPECT_FALSE(has(checked, "the file was changed since it was closed"));
  }
}

TEST_F(WholeTree, IsInTheFileBeforeHdf5Begins) {
  record(rich_layout(Placement::log), true);
  const auto closed = content_of_file(path());
  const auto place = place_of("/entry/penstock/user_data");
  auto bytes = bytes_of(path());
  bytes.resize(place.address + align_up(place.bytes, page_bytes));
  std::fill_n(bytes.begin(), 4096, '\0');
  write_bytes(path(), bytes);
  const auto report = recover();
  ASSERT_TRUE(report.ok()) << report.error().message();
  const auto after = content_of_file(path());
  for (const auto& [name, value] : comparable(closed))
    if (name.find("frame_state") == std::string::npos && !name.ends_with("/data")) {
      EXPECT_EQ(after.at(name), value) << name;
    }
}

TEST_F(WholeTree, HasItsMasksOnce) {
  record(rich_layout(Placement::log), true);
  const auto place = place_of(mask_path);
  const hid_t file = H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, mask_path, H5P_DEFAULT), creation = H5Dget_create_plist(dataset);
  EXPECT_EQ(H5Dget_offset(dataset), place.address) << "HDF5's dataset lies on the segment's bytes";
  EXPECT_EQ(H5Pget_layout(creation), H5D_CONTIGUOUS) << "some readers need that";
  H5Pclose(creation);
  H5Dclose(dataset);
  H5Fclose(file);
}

TEST_F(WholeTree, WhatCannotComeBackIsReported) {
  auto layout = rich_layout(Placement::log);
  layout.columns.push_back({"/entry/metadata/current", ElementType::f64, {}, {}});
  record(layout, true);
  const auto before = content_of_file(path());
  flip(place_of(mask_path).address + 1000);
  const auto report = recover(true);
  ASSERT_TRUE(report.ok()) << report.error().message();
  std::vector<std::string> lost;
  for (const auto& finding : report->findings)
    if (finding.level == check::Level::error) lost.push_back(finding.where.text);
  ASSERT_EQ(lost.size(), 2u) << text(*report);
  EXPECT_TRUE(lost[0].starts_with(mask_path)) << lost[0];
  EXPECT_EQ(lost[1], "/entry/metadata/current");
  const auto after = content_of_file(path());
  EXPECT_FALSE(after.contains(mask_path)) << "nobody may read a damaged mask unawares";
  EXPECT_EQ(after.at("/entry/instrument/detector/flatfield"), before.at("/entry/instrument/detector/flatfield"));
  EXPECT_EQ(after.at("/entry/data/data"), before.at("/entry/data/data"));
}

TEST_F(WholeTree, OfAMasterWhosePartWasHalfMade) {
  auto layout = rich_layout(Placement::log);
  layout.members = store::Members{.stem = "a_member_", .suffix = ".h5", .frames = frame_count};
  record(layout, false);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{128 << 10}}) {
    SCOPED_TRACE(bytes);
    write_bytes(path("a_member_1.h5"), std::vector<char>(bytes, '\0'));
    const auto report = recover();
    ASSERT_TRUE(report.ok()) << report.error().message();
    for (const auto& finding : report->findings) EXPECT_NE(finding.level, check::Level::error) << text(*report);
    EXPECT_EQ(report->missing, 0u);
    EXPECT_TRUE(check(path()).ok()) << CheckTest::text(check(path()));
    std::filesystem::remove(path());
    for (const auto* name : {"a_member_0.h5", "a_member_1.h5"}) std::filesystem::remove(path(name));
    record(layout, false);
  }
  write_bytes(path("a_member_1.h5"), std::vector<char>(128 << 10, 'x'));
  const auto report = recover();
  ASSERT_TRUE(report.ok()) << report.error().message();
  const auto is_error = [](const auto& finding) { return finding.level == check::Level::error; };
  EXPECT_TRUE(std::any_of(report->findings.begin(), report->findings.end(), is_error)) << "it may have held frames";
}

TEST_F(WholeTree, FullStorageIsTheReasonThatIsGivenForAPartThatCannotBeCompleted) {
  auto layout = rich_layout(Placement::log);
  layout.members = store::Members{.stem = "a_member_", .suffix = ".h5", .frames = frame_count + 1};
  record(layout, false);
  auto member = bytes_of(path("a_member_0.h5"));
  std::fill_n(member.begin(), 64, '\0');  // there is something to write, whether its index was complete or not
  write_bytes(path("a_member_0.h5"), member);
  penstock::testing::FaultEnv env;
  env.faults->on_write = [](auto, auto) -> Result<void> { return make_error(Errc::no_space, "no space left"); };
  const auto report = recover(false, env);
  ASSERT_FALSE(report.ok());
  const auto& said = report.error().message();
  EXPECT_NE(said.find("a_member_0.h5"), std::string::npos) << said;
  EXPECT_EQ(report.error().code(), Errc::no_space) << said;
  EXPECT_EQ(said.find("move it away"), std::string::npos) << said;
}

/// The caller says what to do with the series, as no finding says another thing of one of its files.
TEST_F(WholeTree, ASeriesOfSeveralFilesThatWasLeftHasTheRemedyOfOne) {
  auto layout = rich_layout(Placement::log);
  layout.chunked[0].frames_max = 2 * frame_count;
  // The second source file misses frames: one that has all of them is closed at once.
  layout.members = store::Members{.stem = "a_member_", .suffix = ".h5", .frames = frame_count - 1};
  record(layout, false);
  const auto checked = check(path());
  EXPECT_EQ(checked.recoverable, frame_count) << CheckTest::text(checked);
  std::size_t unfinished = 0;
  for (const auto& finding : checked.findings) {
    if (finding.what != "the series is not finished") continue;
    ++unfinished;
    EXPECT_EQ(finding.remedy, "") << finding.where.text;
  }
  EXPECT_GE(unfinished, 2u) << CheckTest::text(checked);
}

/// All frames are those of the other rank.
TEST_F(WholeTree, ACopyInThePlaceOfARanksFileThatHasNoneIsLeftOut) {
  auto layout = rich_layout(Placement::log);
  layout.members = store::Members{.stem = "a_member_", .suffix = ".h5", .frames = 0, .ranks = 2};
  record(layout, false);
  write_bytes(path("a_member_1.h5"), bytes_of(path("a_member_0.h5")));
  const auto checked = check(path());
  EXPECT_EQ(checked.recoverable, frame_count) << CheckTest::text(checked);
  EXPECT_TRUE(has(checked, "a file has the name of another one of its series")) << CheckTest::text(checked);
  EXPECT_FALSE(has(checked, "a file with a part of the frames is not there")) << CheckTest::text(checked);
  const auto report = recover();
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->missing, 0u) << text(*report);
}

TEST_F(WholeTree, ADescriptionThatIsDamagedHasACopy) {
  record(rich_layout(Placement::log), true);
  const auto closed = content_of_file(path());
  const auto header = description().header;
  for (const std::uint64_t at : {3u, 12u, 60u, 70u, 128u, 1000u}) {
    for (const bool structures_are_lost : {false, true}) {
      SCOPED_TRACE(fmt::format("byte {}, structures lost {}", at, structures_are_lost));
      std::filesystem::remove(path());
      record(rich_layout(Placement::log), false);
      flip(header.address + at);
      if (structures_are_lost) zero(0, 4096);
      const auto report = recover();
      ASSERT_TRUE(report.ok()) << report.error().message();
      for (const auto& finding : report->findings) EXPECT_NE(finding.level, check::Level::error) << text(*report);
      expect_same(comparable(content_of_file(path())), comparable(closed));
    }
  }
}

/// What the description says HDF5's structures say too.
TEST_F(WholeTree, IsCompletedWhereNoCopyOfTheDescriptionIsWhole) {
  record(rich_layout(Placement::log), true);
  const auto closed = content_of_file(path());
  for (const bool finished : {false, true}) {
    for (const std::uint64_t at : {3u, 12u, 60u, 70u, 128u, 1000u}) {
      for (const bool only_copy : {false, true}) {
        SCOPED_TRACE(fmt::format("byte {}, finished {}, only copy {}", at, finished, only_copy));
        std::filesystem::remove(path());
        record(rich_layout(Placement::log), finished);
        const auto copies = descriptions();
        ASSERT_EQ(copies.size(), 2u);
        flip(copies[0].address + at);
        if (only_copy)
          zero(copies[1].address, copies[1].header_bytes);
        else
          flip(copies[1].address + at);
        const auto report = recover();
        ASSERT_TRUE(report.ok()) << report.error().message();
        EXPECT_EQ(report->way, Way::repair);
        EXPECT_EQ(report->missing, 0u);
        for (const auto& finding : report->findings) EXPECT_NE(finding.level, check::Level::error) << text(*report);
        for (const auto* words : {"Not verified are texts", "/entry/saturated"})
          EXPECT_NE(text(*report).find(words), std::string::npos) << text(*report);
        expect_same(comparable(content_of_file(path())), comparable(closed));
        const auto checked = check(path());
        EXPECT_TRUE(checked.ok()) << CheckTest::text(checked);
        EXPECT_EQ(descriptions().size(), 1u) << "a new one";
        EXPECT_EQ(recover()->way, Way::nothing);
      }
    }
  }
  zero(0, 4096);
  const auto rebuilt = recover();
  ASSERT_TRUE(rebuilt.ok()) << rebuilt.error().message();
  EXPECT_EQ(rebuilt->way, Way::rebuild) << "from the new description";
  auto expected = comparable(closed);
  for (const auto* name : {"/entry/empty_list", "/entry/saturated", "/entry/saturated@sure"}) expected.erase(name);
  expect_same(comparable(content_of_file(path())), expected);
}

/// Of two datasets of frames, one of which has no chunk.
TEST_F(WholeTree, ADatasetWithoutChunksIsNoneThatRecordsNameWhereNoCopyOfTheDescriptionIsWhole) {
  auto layout = rich_layout(Placement::log);
  auto other = layout.chunked.front();
  other.path = "/entry/data/a_channel_without_frames";
  layout.chunked.push_back(other);
  record(layout, true);
  const auto before = content_of_file(path());
  for (const auto& copy : descriptions()) flip(copy.address + 130);
  const auto report = recover();
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->indexed, frame_count);
  const auto found = description().description.datasets;
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found.front().path, "/entry/data/data");
  EXPECT_EQ(content_of_file(path()).at("/entry/data/data"), before.at("/entry/data/data"));
}

/// Neither has a chunk in the index: frames must not come into the wrong one.
TEST_F(WholeTree, WhereNothingTellsWhichDatasetRecordsMeanTheFileIsLeftAsItIs) {
  auto layout = rich_layout(Placement::log);
  auto other = layout.chunked.front();
  other.path = "/entry/data/another";
  layout.chunked.push_back(other);
  record(layout, false);
  for (const auto& copy : descriptions()) flip(copy.address + 130);
  const auto before = bytes_of(path());
  const auto report = recover();
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message().find("unknown which of 2 datasets"), std::string::npos)
      << report.error().message();
  EXPECT_EQ(bytes_of(path()), before);
}

TEST_F(WholeTree, IsLeftAsItIsWhereNeitherADescriptionNorHdf5sStructuresAreWhole) {
  record(rich_layout(Placement::log), true);
  for (const auto& copy : descriptions()) flip(copy.address + 130);
  zero(0, 4096);
  const auto before = bytes_of(path());
  for (const bool rebuild : {false, true}) {
    const auto report = recover(rebuild);
    ASSERT_FALSE(report.ok());
    EXPECT_NE(report.error().message().find("description"), std::string::npos) << report.error().message();
    EXPECT_EQ(bytes_of(path()), before);
  }
}

}  // namespace
}  // namespace penstock::recover
