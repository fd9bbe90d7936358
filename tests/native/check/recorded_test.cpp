// Checks of files as the recorder writes them, whole and damaged.
#include "../support/rounds.hpp"
#include "check_fixture.hpp"
#include "store/recovery/scan.hpp"

namespace penstock::check::testing {
namespace {

using nlohmann::json;

class RecordedTest : public CheckTest {
 protected:
  /// The chunk records of a file, by rising address.
  static std::vector<std::pair<store::format::SegmentHeader, std::vector<store::format::ChunkRecord>>> segments_of(
      const std::string& file) {
    std::vector<std::pair<store::format::SegmentHeader, std::vector<store::format::ChunkRecord>>> segments;
    auto opened = posix_env().open(file, {});
    auto scanner = store::SegmentScanner::create(**opened, {});
    while (true) {
      const auto header = scanner->next();
      if (!header.ok() || !*header) break;
      if ((*header)->kind != store::format::SegmentKind::chunks) continue;
      segments.emplace_back(**header, *store::read_records(**opened, **header));
    }
    return segments;
  }

  static void flip(const std::string& file, std::uint64_t at, int bit = 0) {
    auto bytes = bytes_of(file);
    bytes.at(at) = static_cast<char>(bytes[at] ^ (1 << bit));
    write_bytes(file, bytes);
  }
};

TEST_F(RecordedTest, AWholeFileHasNoFindings) {
  for (const auto encoding : {Encoding::none, Encoding::bitshuffle_lz4, Encoding::zstd}) {
    write_recorded(path(), {.encoding = encoding});
    const auto report = check(path(), {{"against", {{"recorded", true}}}});
    EXPECT_TRUE(report.ok()) << text(report);
    EXPECT_TRUE(report.findings.empty()) << text(report);
    EXPECT_EQ(report.frames, 40);
    EXPECT_EQ(report.missing, 0);
    EXPECT_EQ(report.compared_frames, 40);
    EXPECT_EQ(report.different_frames, 0);
    EXPECT_GT(report.segments, 1);
    EXPECT_GE(report.chunks, 40);
    std::filesystem::remove(path());
  }
}

TEST_F(RecordedTest, AFlippedPixelByteIsFoundByItsChecksumAndNamed) {
  write_recorded(path(), {});
  const auto segments = segments_of(path());
  const auto& record = segments.at(1).second.at(2);
  flip(path(), segments[1].first.address + record.offset + record.size / 2);
  const auto report = check(path());
  EXPECT_FALSE(report.ok());
  ASSERT_TRUE(has(report, "a chunk's checksum is wrong")) << text(report);
  EXPECT_NE(text(report).find("/entry/data/data frame " + std::to_string(record.chunk_index) + " at offset"),
            std::string::npos)
      << text(report);
}

TEST_F(RecordedTest, ADamagedHeaderCostsItsOwnSegmentOnly) {
  write_recorded(path(), {});
  const auto segments = segments_of(path());
  flip(path(), segments.at(1).first.address + 40);
  const auto report = check(path());
  EXPECT_TRUE(has(report, "a segment's header is corrupt")) << text(report);
  EXPECT_TRUE(has(report, "an indexed chunk is in no segment")) << text(report);
  EXPECT_EQ(report.segments, segments.size() - 1);
  EXPECT_GE(report.chunks, 40);  // those without a record are still expanded
}

TEST_F(RecordedTest, DamagedRecordsAreAnError) {
  write_recorded(path(), {});
  const auto segments = segments_of(path());
  flip(path(), segments.at(1).first.address + 128 + 40);
  EXPECT_TRUE(has(check(path()), "a segment's records are corrupt"));
}

TEST_F(RecordedTest, MissingFramesAreCountedAndNotDifferent) {
  write_recorded(path(), {.absent = {3, 17}});
  const auto report = check(path(), {{"against", {{"recorded", true}}}});
  EXPECT_TRUE(report.ok()) << text(report);
  ASSERT_TRUE(has(report, "frames are missing"));
  EXPECT_NE(text(report).find("leave them out of the analysis"), std::string::npos) << text(report);
  EXPECT_EQ(report.missing, 2);
  EXPECT_EQ(report.compared_frames, 38);
  EXPECT_EQ(report.different_frames, 0);
}

TEST_F(RecordedTest, FramesThatWereAnnouncedAndDidNotComeAreMissing) {
  write_recorded(path(), {.frames = 30, .announced = 40});
  const auto report = check(path());
  EXPECT_TRUE(has(report, "fewer frames than announced")) << text(report);
  EXPECT_EQ(report.frames, 40);
  EXPECT_EQ(report.missing, 10);
}

TEST_F(RecordedTest, FramesThatOnlyTheSegmentsHoldAreRecoverable) {
  write_recorded(path(), {.frames = 21, .announced = 200, .finish = false, .flush_interval = std::chrono::hours(1)});
  const auto report = check(path());
  EXPECT_TRUE(report.ok()) << text(report);
  EXPECT_TRUE(report.unfinished());
  EXPECT_FALSE(report.being_recorded());
  EXPECT_EQ(report.findings.front().what, "the series is not finished") << text(report);
  EXPECT_FALSE(has(report, "frames are missing")) << text(report);
  EXPECT_EQ(report.frames, 200);
  EXPECT_EQ(report.missing, 179);
  EXPECT_EQ(report.recoverable, 21);
  const auto counted = check(path(), {{"count_only", true}});
  EXPECT_TRUE(counted.unfinished());
  EXPECT_EQ(counted.recoverable, 21);
  EXPECT_EQ(counted.bytes, report.bytes);
}

TEST_F(RecordedTest, AFileThatARecorderHasOpenHasNoFindings) {
  write_recorded(path(), {.frames = 21, .announced = 200, .finish = false, .flush_interval = std::chrono::hours(1)});
  const auto recorder = posix_env().open(path(), {});
  ASSERT_TRUE(recorder.ok() && (*recorder)->lock(false).ok()) << "readers in SWMR mode lock it as well";
  const auto report = check(path());
  EXPECT_TRUE(report.ok() && report.findings.empty()) << text(report);
  EXPECT_TRUE(report.unfinished() && report.being_recorded());
  EXPECT_EQ(report.recoverable, 21);
  const auto counted = check(path(), {{"count_only", true}});
  EXPECT_TRUE(counted.being_recorded());
  flip(path(), segments_of(path()).at(0).first.address + 128 + 40);
  EXPECT_TRUE(has(check(path()), "a segment's records are corrupt")) << "damage is reported all the same";
}

TEST_F(RecordedTest, AFinishedFileThatAProgramHasOpenIsNotBeingRecorded) {
  write_recorded(path(), {});
  const auto reader = posix_env().open(path(), {});
  ASSERT_TRUE(reader.ok() && (*reader)->lock(false).ok());
  for (const bool count_only : {false, true})
    EXPECT_FALSE(check(path(), {{"count_only", count_only}}).being_recorded());
}

TEST_F(RecordedTest, FramesOfAnUnfinishedFileMayStillArrive) {
  write_recorded(path(),
                 {.frames = 200, .announced = 300, .finish = false, .flush_interval = std::chrono::milliseconds(1)});
  const auto report = check(path());
  EXPECT_EQ(report.recoverable, 200) << text(report);
  EXPECT_FALSE(has(report, "fewer frames than announced")) << text(report);
}

TEST_F(RecordedTest, AFinishedFileHasNothingToRecover) {
  write_recorded(path(), {});
  for (const bool count_only : {false, true})
    EXPECT_EQ(check(path(), {{"count_only", count_only}}).recoverable, std::nullopt);
}

TEST_F(RecordedTest, AStateThatContradictsTheChunksIsAnError) {
  write_recorded(path(), {.unmarked = {5}});
  const auto report = check(path());
  EXPECT_FALSE(report.ok());
  EXPECT_TRUE(has(report, "a frame is there but not marked as received")) << text(report);
}

TEST_F(RecordedTest, ANumberOfFramesThatIsNotWhatStandsInTheColumnIsAnError) {
  write_recorded(path(), {.miscounted = 1});
  const auto report = check(path());
  EXPECT_FALSE(report.ok());
  EXPECT_TRUE(has(report, "a number of frames is wrong")) << text(report);
}

TEST_F(RecordedTest, WhatEveryRecordedFileHasIsMissed) {
  const auto misses = [&](auto remove) {
    write_recorded(path(), {});
    const hid_t file = H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    EXPECT_GE(remove(file), 0);
    H5Fclose(file);
    const auto report = check(path());
    std::filesystem::remove(path());
    return !report.ok() && has(report, "a part that every recorded file has is missing");
  };
  EXPECT_FALSE(misses([](hid_t) { return 0; }));
  EXPECT_TRUE(misses([](hid_t file) { return H5Ldelete(file, "/entry/penstock/frame_state", H5P_DEFAULT); }));
  EXPECT_TRUE(misses([](hid_t file) { return H5Ldelete(file, "/entry/penstock/frames_announced", H5P_DEFAULT); }));
  EXPECT_TRUE(misses([](hid_t file) { return H5Adelete(file, "penstock_file_id"); }));
}

/// HDF5 has no checksum of it, and all segments seem to be another file's.
TEST_F(RecordedTest, ADamagedIdIsNamedAndItsSegmentsAreVerified) {
  write_recorded(path(), {});
  auto bytes = bytes_of(path());
  const auto id = store::format::to_hex(segments_of(path()).front().first.file_id);
  const auto at = std::search(bytes.begin(), bytes.end(), id.begin(), id.end());
  ASSERT_NE(at, bytes.end());
  *at = *at == '0' ? '1' : '0';
  write_bytes(path(), bytes);
  const auto report = check(path());
  EXPECT_FALSE(report.ok());
  EXPECT_TRUE(has(report, "the file's identity is corrupt")) << text(report);
  EXPECT_NE(text(report).find(id), std::string::npos) << text(report);
  EXPECT_FALSE(has(report, "no checksums in this file")) << text(report);
  EXPECT_EQ(report.frame_chunks, 40);
}

TEST_F(RecordedTest, AVastNumberOfFramesCostsNothing) {
  constexpr auto vast = (std::uint64_t{1} << 32) - 2;
  write_recorded(path(), {.announced = vast, .ends_at = vast});
  const auto report = check(path());
  EXPECT_EQ(report.frames, vast);
  EXPECT_EQ(report.missing, vast - 40);
}

TEST_F(RecordedTest, APixelThatDiffersIsNamedWithItsPlaceAndValues) {
  write_recorded(path(), {});
  std::string header = "{'descr': '<u2', 'fortran_order': False, 'shape': (40, 24, 32), }";
  header.resize(118, ' ');
  std::string npy = std::string("\x93NUMPY\x01\x00", 8) + std::string("\x76\x00", 2) + header;
  for (std::uint64_t frame = 0; frame < 40; ++frame) npy += std::string(as_text(simulated(frame)));
  const auto at = 128 + 9 * frame_bytes + (5 * columns + 6) * 2;
  store_le<std::uint16_t>(reinterpret_cast<std::byte*>(npy.data()) + at, 65001);
  write_bytes(path("a.npy"), npy);
  const auto report = check(path(), {{"against", {{"npy", path("a.npy")}}}});
  EXPECT_FALSE(report.ok());
  EXPECT_EQ(report.compared_frames, 40);
  EXPECT_EQ(report.different_frames, 1);
  ASSERT_TRUE(has(report, "a pixel differs")) << text(report);
  EXPECT_NE(text(report).find("frame 9, row 5, column 6"), std::string::npos) << text(report);
  EXPECT_NE(text(report).find("65001"), std::string::npos);
}

TEST_F(RecordedTest, AFileLeftByACrashIsUnfinishedAndItsChunksAreStillVerified) {
  write_recorded(path(), {.finish = false});
  const auto report = check(path());
  EXPECT_TRUE(has(report, "the series is not finished")) << text(report);
  EXPECT_FALSE(has(report, "HDF5 cannot read the index")) << text(report);
  EXPECT_GE(report.chunks, 40);
}

TEST_F(RecordedTest, TruncationAtAnyPlaceIsFoundAndDoesNoHarm) {
  write_recorded(path(), {});
  const auto bytes = bytes_of(path());
  for (std::size_t part = 0; part < 24; ++part) {
    const auto size = bytes.size() * part / 24;
    write_bytes(path("cut.h5"), std::span(bytes).first(size));
    const auto report = check(path("cut.h5"));
    EXPECT_FALSE(report.ok()) << size << " of " << bytes.size() << " bytes";
  }
}

TEST_F(RecordedTest, ATruncatedFileLacksNothingElse) {
  write_recorded(path(), {.frames = 30, .announced = 40});
  const auto bytes = bytes_of(path());
  int truncated = 0;
  for (std::size_t part = 1; part < 24; ++part) {
    const auto size = bytes.size() * part / 24;
    write_bytes(path("cut.h5"), std::span(bytes).first(size));
    const auto report = check(path("cut.h5"), {{"against", {{"recorded", true}}}});
    if (!has(report, "the file is shorter than it says")) continue;
    ++truncated;
    for (const auto* implied : {"no checksums in this file", "frames are missing", "pixels not compared"})
      EXPECT_FALSE(has(report, implied)) << size << " of " << bytes.size() << " bytes: " << text(report);
  }
  EXPECT_GT(truncated, 0);
}

TEST_F(RecordedTest, EachFlippedBitIsFoundOrDidNoHarm) {
  const char* given = std::getenv("PENSTOCK_TEST_SEED");
  const auto seed = given == nullptr ? std::random_device{}() : static_cast<unsigned>(std::stoul(given));
  SCOPED_TRACE("PENSTOCK_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  write_recorded(path(), {.frames = 8, .announced = 8});
  const auto good = bytes_of(path());
  std::vector<std::size_t> in_use;  // most of a small file is padding
  for (std::size_t i = 0; i < good.size(); ++i)
    if (good[i] != 0) in_use.push_back(i);
  int found = 0;
  int harmless = 0;
  for (int i = 0; i < penstock::testing::rounds(300); ++i) {
    auto bytes = good;
    const auto at = i % 4 == 0 ? random() % bytes.size() : in_use[random() % in_use.size()];
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    write_bytes(path("flipped.h5"), bytes);
    const auto report = check(path("flipped.h5"), {{"index_timeout_s", 3}});
    if (!report.ok()) {
      ++found;
      continue;
    }
    ++harmless;
    // Nothing found: then the pixels that readers see are the right ones, all of them.
    const auto compared = check(path("flipped.h5"), {{"against", {{"simulation", json::parse(simulation_json())}}}});
    EXPECT_TRUE(compared.ok()) << "byte " << at << ": " << text(compared);
    EXPECT_EQ(compared.compared_frames, 8) << "byte " << at;
    EXPECT_EQ(compared.different_frames, 0) << "byte " << at;
  }
  EXPECT_GT(found, 0);
  RecordProperty("found", found);
  RecordProperty("harmless", harmless);
}

}  // namespace
}  // namespace penstock::check::testing
