// What lies outside the frames of a closed file is guarded too.

#include "store/seal.hpp"

#include <cstdlib>
#include <cstring>
#include <set>

#include "../support/hdf5_content.hpp"
#include "check_fixture.hpp"
#include "store/recovery/find_description.hpp"
#include "store/recovery/scan.hpp"

namespace penstock::check {
namespace {

using namespace testing;
using penstock::testing::content_of_file;

constexpr const char* mask_path = "/entry/instrument/pixel_mask";

constexpr const char* small_mask_path = "/entry/instrument/small_mask";

class SealTest : public CheckTest {
 protected:
  void SetUp() override {
    CheckTest::SetUp();
    write(path());
  }

  /// As it is once it is closed, or as a recorder's death leaves it.
  static void write(const std::string& file, bool finish = true) {
    auto layout = layout_of({});
    store::ArrayValue mask{{ElementType::u32, {100, 100}}, std::vector<std::byte>(40'000, std::byte{3})};
    layout.values.push_back({mask_path, mask, {}});
    store::ArrayValue small{{ElementType::u8, {20, 20}}, std::vector<std::byte>(400, std::byte{0x5A})};
    layout.values.push_back({small_mask_path, small, {}});
    layout.values.push_back({"/entry/name", std::string("an instrument called Wilhelmina"), {}});
    layout.groups.push_back({"/entry", {{"note", std::string("an attribute called Ottokar")}}});
    store::StoreOptions options;
    options.segment_bytes = 8 << 10;
    options.extent_bytes = 64 << 10;
    options.buffer_bytes = 1 << 20;
    FileSpec spec;
    StateListener listener(spec);
    auto store = store::Store::create(posix_env(), file, layout, options, &listener).value();
    {
      auto writer = store->make_writer();
      for (std::uint64_t frame = 0; frame < 40; ++frame) {
        const auto pixels = simulated(frame);
        ASSERT_TRUE(writer->put({store::DatasetId{0}, frame, 1, 1, frame}, pixels, nullptr, pixels.size()).ok());
      }
      ASSERT_TRUE(writer->flush().ok());
    }
    if (!finish) {
      listener.wait_for(40);
      const auto left = bytes_of(file);
      store.reset();
      return write_bytes(file, left);
    }
    store::FinalValues values;
    values.frames = 40;
    for (const auto* name : {"received", "missing", "damaged", "dropped", "lost"})
      values.attributes.emplace_back(
          "/entry/penstock/frame_state",
          store::Attribute{name, store::scalar(std::uint64_t{name == std::string("received") ? 40u : 0u})});
    ASSERT_TRUE(store->finish(values).ok());
  }

  void flip(std::size_t at) const {
    auto bytes = bytes_of(path());
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ 8);
    write_bytes(path(), bytes);
  }
  std::size_t position_of(std::string_view text, bool last = false) const {
    const auto bytes = bytes_of(path());
    const std::string_view all(bytes.data(), bytes.size());
    return last ? all.rfind(text) : all.find(text);
  }
  std::uint64_t address_of_mask() const {
    const auto file = posix_env().open(path(), {}).value();
    const auto found = store::find_description(*file, {}).value();
    for (const auto& node : found.description.values)
      if (node.path == mask_path) return node.place->address;
    ADD_FAILURE() << mask_path << " lies in no segment";
    return 0;
  }
  static std::string where(const Report& report) {
    for (const auto& finding : report.findings)
      if (finding.level == Level::error) return finding.where.text;
    return {};
  }
  std::optional<store::format::SegmentHeader> seal() const {
    const auto file = posix_env().open(path(), {}).value();
    return store::find_seal(*file, store::find_description(*file, {}).value().header.file_id).value();
  }
};

TEST_F(SealTest, AFileThatIsAsItWasClosedIsFine) {
  const auto report = check(path());
  EXPECT_TRUE(report.ok()) << text(report);
  EXPECT_FALSE(has(report, "the file was changed since it was closed")) << text(report);
  EXPECT_TRUE(seal());
}

TEST_F(SealTest, AFlippedBitInAMaskIsFound) {
  flip(address_of_mask() + 20'001);
  const auto report = check(path());
  EXPECT_FALSE(report.ok());
  EXPECT_EQ(where(report), mask_path) << text(report);
}

TEST_F(SealTest, AFlippedBitInATextIsFound) {
  for (const auto* word : {"Wilhelmina", "Ottokar"}) {
    write(path("b.h5"));
    std::filesystem::rename(path("b.h5"), path());
    // The description has the text too, with a checksum of its own.
    const auto in_hdf5 = position_of(word) < position_of("\"datasets\"") ? position_of(word) : position_of(word, true);
    flip(in_hdf5 + 3);
    const auto report = check(path());
    EXPECT_FALSE(report.ok()) << word;
    EXPECT_NE(where(report).find("offset"), std::string::npos) << text(report);
  }
}

TEST_F(SealTest, AFlippedBitInAColumnIsFoundAndNamed) {
  const hid_t file = H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t column = H5Dopen2(file, "/entry/penstock/frame_state", H5P_DEFAULT);
  haddr_t address = 0;
  hsize_t size = 0, first[1] = {0};
  unsigned mask = 0;
  const hid_t space = H5Dget_space(column);
  ASSERT_GE(H5Dget_chunk_info(column, space, 0, first, &mask, &address, &size), 0);
  H5Sclose(space);
  H5Dclose(column);
  H5Fclose(file);
  flip(address + 7);
  const auto report = check(path());
  EXPECT_FALSE(report.ok());
  EXPECT_TRUE(has(report, "a part of the file outside the frames is corrupt")) << text(report);
  EXPECT_NE(where(report).find("frame_state"), std::string::npos) << text(report);
}

TEST_F(SealTest, WhatIsAddedThroughHdf5IsNoDamage) {
  const hid_t file = H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Gclose(H5Gcreate2(file, "/entry/mine", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Fclose(file);
  const auto report = check(path());
  EXPECT_TRUE(report.ok()) << text(report);
  EXPECT_TRUE(has(report, "the file was changed since it was closed")) << text(report);
}

/// Whether somebody meant it or not, the mask is not the one that was recorded.
TEST_F(SealTest, AMaskWithAWrongChecksumIsAProblemInAFileThatWasChanged) {
  const hid_t file = H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t mask = H5Dopen2(file, mask_path, H5P_DEFAULT);
  const std::vector<std::uint32_t> other(10'000, 77);
  ASSERT_GE(H5Dwrite(mask, H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, other.data()), 0);
  H5Dclose(mask);
  H5Fclose(file);
  const auto report = check(path());
  EXPECT_FALSE(report.ok()) << text(report);
  EXPECT_EQ(where(report), mask_path) << text(report);
  EXPECT_TRUE(has(report, "the file was changed since it was closed")) << text(report);
}

TEST_F(SealTest, AMaskWithAWrongChecksumIsAProblemInAFileThatWasNotClosed) {
  write(path("unfinished.h5"), false);
  std::filesystem::rename(path("unfinished.h5"), path());
  ASSERT_TRUE(check(path()).ok()) << text(check(path()));
  flip(address_of_mask() + 20'001);
  const auto report = check(path());
  EXPECT_FALSE(report.ok()) << text(report);
  EXPECT_EQ(where(report), mask_path) << text(report);
}

TEST_F(SealTest, AMaskWithAWrongChecksumIsAProblemInAFileWhoseEndWasCutOff) {
  std::filesystem::resize_file(path(), seal()->address);
  ASSERT_TRUE(check(path()).ok()) << text(check(path()));
  flip(address_of_mask() + 20'001);
  const auto report = check(path());
  EXPECT_FALSE(report.ok()) << text(report);
  EXPECT_EQ(where(report), mask_path) << text(report);
}

TEST_F(SealTest, AFlippedBitInASmallMaskIsAProblemInAFileWithoutASeal) {
  for (const bool closed : {true, false}) {
    write(path("b.h5"), closed);
    std::filesystem::rename(path("b.h5"), path());
    if (closed) std::filesystem::resize_file(path(), seal()->address);
    ASSERT_TRUE(check(path()).ok()) << text(check(path()));
    flip(position_of(std::string(400, '\x5A')) + 123);
    const auto report = check(path());
    EXPECT_TRUE(has(report, "a value differs from the recorded one")) << text(report);
    EXPECT_EQ(where(report), small_mask_path) << text(report);
  }
}

/// Whenever it is stopped: what was not reached is not judged.
TEST_F(SealTest, AnInterruptedCheckOfAFineFileReportsNoDamage) {
  const auto plan = CheckPlan::from_json({{"file", path()}, {"against", {{"recorded", true}}}}).value();
  bool complete = false;
  for (int calls = 0; !complete; calls += 1 + calls / 8) {
    std::atomic<int> left = calls;
    const auto report = run_check(
        posix_env(), plan, [](auto, auto, const auto&) {}, [&] { return left.fetch_sub(1) <= 0; });
    complete = report.complete;
    for (const auto& finding : report.findings) ASSERT_NE(finding.level, Level::error) << calls << text(report);
    ASSERT_LT(calls, 10'000);
  }
}

TEST_F(SealTest, WhatIsAddedBehindTheEndIsSaid) {
  auto bytes = bytes_of(path());
  bytes.resize(bytes.size() + 100, 'x');
  write_bytes(path(), bytes);
  const auto report = check(path());
  EXPECT_TRUE(report.ok()) << text(report);
  EXPECT_TRUE(has(report, "the file was changed since it was closed")) << text(report);
}

TEST_F(SealTest, ADamagedSealIsAnError) {
  flip(seal()->address + 200);
  const auto report = check(path());
  EXPECT_FALSE(report.ok());
  EXPECT_TRUE(has(report, "the file's seal is corrupt")) << text(report);
}

/// A segment whose magic is damaged is not found at all.
TEST_F(SealTest, AFlippedBitInTheMagicOfAnySegmentIsFound) {
  std::vector<store::format::SegmentHeader> headers;
  const auto file = posix_env().open(path(), {}).value();
  auto scanner = store::SegmentScanner::create(*file, {}).value();
  while (const auto header = scanner.next().value()) headers.push_back(*header);
  std::set<store::format::SegmentKind> kinds;
  for (const auto& header : headers) {
    kinds.insert(header.kind);
    for (const std::uint64_t at : {0u, 7u}) {
      flip(header.address + at);
      const auto report = check(path());
      EXPECT_FALSE(report.ok()) << "kind " << static_cast<int>(header.kind) << " at " << header.address + at;
      flip(header.address + at);
    }
  }
  EXPECT_EQ(kinds.size(), 4u) << "description, chunks, values, seal";
  EXPECT_TRUE(check(path()).ok());
}

TEST_F(SealTest, ASealThatIsGoneWhereTheFileIsAsLongAsWithOneIsAnError) {
  auto bytes = bytes_of(path());
  const auto address = seal()->address;
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(address), bytes.end(), '\0');
  write_bytes(path(), bytes);
  const auto report = check(path());
  EXPECT_FALSE(report.ok());
  EXPECT_TRUE(has(report, "the file's seal is corrupt")) << text(report);
}

/// A file system that keeps no holes makes this slow, and the result longer.
TEST_F(SealTest, HolesAreInNoStretch) {
  constexpr std::uint64_t step = 64 << 20, islands = 10, size = islands * step;
  const auto file = posix_env().open(path("sparse"), {.mode = OpenOptions::Mode::create_or_truncate}).value();
  ASSERT_TRUE(file->truncate(size).ok());
  const std::vector<std::byte> page(page_bytes, std::byte{1});
  for (std::uint64_t at = 0; at < size; at += step) ASSERT_TRUE(write_at(*file, page, at + (1 << 20)).ok());
  if (file->next_data(2 * step - page_bytes) < 2 * step) GTEST_SKIP() << "no holes here";
  std::uint64_t bytes = 0;
  const auto rest = store::outside(*file, {{0, 4096}}, size);
  for (const auto& extent : rest) bytes += extent.bytes;
  EXPECT_EQ(rest.size(), islands);
  EXPECT_LE(bytes, islands << 20);
}

/// A loss of power leaves some sectors of a seal: an entry of which half is missing says nothing of what it covers.
TEST_F(SealTest, AMissingSectorIsNotTakenForAChange) {
  constexpr std::uint64_t pages = 200, end = pages * page_bytes;
  const auto file = posix_env().open(path("pages"), {.mode = OpenOptions::Mode::create_or_truncate}).value();
  ASSERT_TRUE(write_at(*file, std::vector<std::byte>(end, std::byte{1}), 0).ok());
  std::vector<store::Extent> extents;
  for (std::uint64_t page = 1; page < pages; page += 2) extents.push_back({page * page_bytes, page_bytes});
  const auto id = store::format::make_file_id();
  ASSERT_TRUE(store::write_seal(*file, id, extents, end).ok());
  const auto seal = store::find_seal(*file, id).value().value();
  const auto body_end = seal.address + 128 + seal.record_count * 24;
  const auto whole = bytes_of(path("pages"));
  for (auto at = seal.address + 512; at < body_end; at += 512) {
    auto bytes = whole;
    std::memset(bytes.data() + at, 0, 512);
    write_bytes(path("pages"), bytes);
    const auto left = store::compare_with_left_seal(*file, seal).value();
    EXPECT_EQ(left.differ, 0u) << at - seal.address;
    EXPECT_GT(left.agree, 60u);
    bytes[page_bytes] ^= 1;
    write_bytes(path("pages"), bytes);
    EXPECT_EQ(store::compare_with_left_seal(*file, seal).value().differ, 1u);
  }
}

/// Another seal may come to lie where one was.
TEST_F(SealTest, NothingStaysOfOneThatIsRemoved) {
  const auto file = posix_env().open(path(), {.mode = OpenOptions::Mode::update}).value();
  const auto id = store::find_description(*file, {}).value().header.file_id;
  const auto seal = store::find_seal(*file, id).value().value();
  ASSERT_TRUE(store::remove_seals(*file, std::span(&seal, 1)).ok());
  const auto bytes = bytes_of(path());
  EXPECT_TRUE(std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(seal.address), bytes.end(),
                          [](auto byte) { return byte == decltype(byte){}; }));
}

TEST_F(SealTest, RunsOfSlotsInHolesTakeNoMemory) {
  constexpr std::uint64_t size = std::uint64_t{1} << 43;
  const auto file = posix_env().open(path("sparse"), {.mode = OpenOptions::Mode::create_or_truncate}).value();
  if (!file->truncate(size).ok() || file->next_data(0) < size) GTEST_SKIP() << "no holes here";
  const std::vector<std::byte> page(page_bytes, std::byte{1});
  store::ChunkedNode node;
  node.places = {store::Placement::slots, 1 << 20, 4096, 16, 1 << 20, 4096};
  for (const auto run : {std::uint64_t{0}, std::uint64_t{5}, (size >> 20) - 2}) {
    ASSERT_TRUE(write_at(*file, page, node.places.address_of(run * 16 + 3)).ok());
    ASSERT_TRUE(write_at(*file, page, node.places.address_of(run * 16) + (512 << 10)).ok()) << "HDF5's, between two";
  }
  const auto extents = store::fixed_extents(*file, {node}, size);
  ASSERT_EQ(extents.size(), 3u);
  EXPECT_EQ(extents[1].address, node.places.address_of(5 * 16));
  EXPECT_EQ(extents[1].bytes, 16 * page_bytes);
}

}  // namespace
}  // namespace penstock::check
