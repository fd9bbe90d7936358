// Checks of what Penstock did not write.
#include <sys/stat.h>

#include "../support/without_root.hpp"
#include "check_fixture.hpp"

namespace penstock::check::testing {
namespace {

class ForeignTest : public CheckTest {
 protected:
  /// Frames of 24 × 32 numbered pixels, stored as `prepare` asks.
  template <typename Prepare>
  void write_plain(const std::string& file, hsize_t frames, Prepare prepare) {
    const auto id = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t shape[] = {frames, rows, columns};
    const auto space = H5Screate_simple(3, shape, nullptr);
    const auto creation = H5Pcreate(H5P_DATASET_CREATE);
    prepare(creation);
    const auto dataset = H5Dcreate2(id, "images", H5T_STD_U16LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    const auto pixels = plain_pixels(frames);
    EXPECT_GE(H5Dwrite(dataset, H5T_STD_U16LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, pixels.data()), 0);
    H5Dclose(dataset);
    H5Pclose(creation);
    H5Sclose(space);
    H5Fclose(id);
  }

  static std::vector<std::uint16_t> plain_pixels(hsize_t frames) {
    std::vector<std::uint16_t> pixels(frames * rows * columns);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint16_t>(i * 7);
    return pixels;
  }

  template <typename T>
  void write_npy(const std::string& file, const char* descr, const std::vector<T>& pixels) {
    const auto frames = pixels.size() / (rows * columns);
    std::string header =
        fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}, {}, {}), }}", descr, frames, rows, columns);
    header.resize(118, ' ');
    std::string npy = std::string("\x93NUMPY\x01\x00", 8) + std::string("\x76\x00", 2) + header;
    npy += std::string(as_text(std::as_bytes(std::span(pixels))));
    write_bytes(file, npy);
  }
};

void contiguous(hid_t) {}
void odd_chunks(hid_t creation) {
  const hsize_t chunk[] = {3, 10, 20};  // divides nothing: chunks reach over the edges
  H5Pset_chunk(creation, 3, chunk);
}
void packed(hid_t creation) {
  odd_chunks(creation);
  H5Pset_shuffle(creation);
  H5Pset_deflate(creation, 1);
  H5Pset_fletcher32(creation);
}

TEST_F(ForeignTest, PixelsOfEveryLayoutAreCompared) {
  for (const auto prepare : {contiguous, odd_chunks, packed}) {
    write_plain(path(), 10, prepare);
    write_npy(path("a.npy"), "<u2", plain_pixels(10));
    auto report = check(path(), {{"against", {{"npy", path("a.npy")}}}});
    EXPECT_TRUE(report.ok()) << text(report);
    EXPECT_TRUE(has(report, "no checksums in this file"));
    EXPECT_EQ(report.compared_frames, 10);
    EXPECT_EQ(report.different_frames, 0) << text(report);
    auto other = plain_pixels(10);
    ++other[4 * rows * columns + 23 * columns + 31];
    write_npy(path("a.npy"), "<u2", other);
    report = check(path(), {{"against", {{"npy", path("a.npy")}}}});
    EXPECT_EQ(report.different_frames, 1) << text(report);
    EXPECT_NE(text(report).find("frame 4, row 23, column 31"), std::string::npos) << text(report);
  }
}

TEST_F(ForeignTest, FramesAreComparedWithAnArrayThatRepeatsAndOfAnotherWidth) {
  write_plain(path(), 10, odd_chunks);
  auto wide = std::vector<std::int64_t>();
  for (const auto pixel : plain_pixels(10)) wide.push_back(pixel);
  write_npy(path("a.npy"), "<i8", wide);
  EXPECT_TRUE(check(path(), {{"against", {{"npy", path("a.npy")}}}}).ok());
  wide.resize(5 * rows * columns);
  write_npy(path("a.npy"), "<i8", wide);
  EXPECT_EQ(check(path(), {{"against", {{"npy", path("a.npy")}}}}).different_frames, 5);
}

/// As h5repack does it.
TEST_F(ForeignTest, ACopyOfARecordingIsNoDamage) {
  write_recorded(path(), {});
  const auto from = H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const auto to = H5Fcreate(path("copy.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(H5Ocopy(from, "entry", to, "entry", H5P_DEFAULT, H5P_DEFAULT), 0);
  for (const auto* name : {"penstock_format", "penstock_file_id"}) {
    const auto attribute = H5Aopen(from, name, H5P_DEFAULT);
    const auto type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    std::vector<char> value(std::max<std::size_t>(H5Tget_size(type), 16));
    ASSERT_GE(H5Aread(attribute, type, value.data()), 0);
    const auto copy = H5Acreate2(to, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(H5Awrite(copy, type, value.data()), 0);
    for (const auto id : {copy, attribute}) H5Aclose(id);
    H5Tclose(type);
    H5Sclose(space);
  }
  H5Fclose(to);
  H5Fclose(from);
  auto report = check(path("copy.h5"), {{"against", {{"recorded", true}}}});
  EXPECT_TRUE(report.ok()) << text(report);
  EXPECT_TRUE(has(report, "no checksums in this file")) << text(report);
  EXPECT_EQ(report.compared_frames, 40);
  EXPECT_EQ(report.different_frames, 0);
}

TEST_F(ForeignTest, AFletcherChecksumIsVerified) {
  write_plain(path(), 10, packed);
  auto bytes = bytes_of(path());
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
  write_bytes(path(), bytes);
  EXPECT_TRUE(has(check(path()), "a chunk cannot be decompressed"));
}

TEST_F(ForeignTest, WhatIsNoFileToCheckIsSaidSo) {
  EXPECT_TRUE(has(check(path("absent.h5")), "the file cannot be read"));
  EXPECT_TRUE(has(check(folder_), "the file cannot be read"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(has(check(path("pipe")), "the file cannot be read"));
  write_bytes(path("empty"), {});
  EXPECT_TRUE(has(check(path("empty")), "not an HDF5 file"));
  write_bytes(path("text"), std::string(10000, 'x'));
  EXPECT_TRUE(has(check(path("text")), "not an HDF5 file"));
  write_bytes(path("signature"), std::string("\x89HDF\r\n\x1a\n") + std::string(5000, '\x7f'));
  EXPECT_TRUE(has(check(path("signature")), "HDF5 cannot read the index"));
  write_bytes(path("short"), std::string("\x89HDF\r\n\x1a\n"));
  EXPECT_TRUE(has(check(path("short")), "HDF5 cannot read the index"));
}

TEST_F(ForeignTest, AFileWithoutPermissionIsSaidSo) {
  write_plain(path(), 2, contiguous);
  ::chmod(path().c_str(), 0);
  const penstock::testing::WithoutRoot nobody;
  EXPECT_TRUE(has(check(path()), "the file cannot be read"));
}

TEST_F(ForeignTest, PixelsWithoutAReferenceAreNotComparedAndNotDamaged) {
  write_plain(path(), 2, contiguous);
  const auto against = [&](nlohmann::json reference) {
    const auto report = check(path(), {{"against", std::move(reference)}});
    EXPECT_TRUE(report.ok()) << text(report);
    for (const auto& finding : report.findings)
      if (finding.what == "pixels not compared") return finding.actual + "; " + finding.remedy;
    return std::string("compared");
  };
  EXPECT_EQ(against({{"recorded", true}}),
            "not recorded from `penstock simulate`; name the images with `--against PATH`, or leave out `--against`");
  const auto absent = against({{"npy", path("absent.npy")}});
  EXPECT_NE(absent.find("absent.npy"), std::string::npos) << absent;
  EXPECT_NE(absent.find("; name other images with `--against PATH`"), std::string::npos) << absent;
}

TEST_F(ForeignTest, AStoppedCheckGivesAPartialReport) {
  write_plain(path(), 2, contiguous);
  const auto plan = CheckPlan::from_json({{"file", path()}});
  const auto report = run_check(
      posix_env(), *plan, [](auto, auto, const auto&) {}, [] { return true; });
  EXPECT_FALSE(report.complete);
  EXPECT_FALSE(report.ok());
}

TEST(CheckPlanTest, WhatIsWrongIsNamed) {
  const auto message = [](const char* text) {
    const auto plan = CheckPlan::from_json(nlohmann::json::parse(text));
    return plan.ok() ? std::string("ok") : plan.error().message();
  };
  EXPECT_EQ(message(R"({"file": "a", "threads": 2, "against": null})"), "ok");
  EXPECT_NE(message(R"({"threads": 2})").find("file: this field is required"), std::string::npos);
  EXPECT_NE(message(R"({"file": "a", "threads": 0})").find("threads: 0 is below the minimum of 1"), std::string::npos);
  EXPECT_NE(message(R"({"file": "a", "thread": 1})").find("thread: unknown field; did you mean \"threads\"?"),
            std::string::npos);
  EXPECT_NE(message(R"({"file": "a", "against": {"tiff": "x"}})").find("against"), std::string::npos);
  EXPECT_NE(message(R"([1])").find("[1] is not an object"), std::string::npos);
}

}  // namespace
}  // namespace penstock::check::testing
