#include "detector/images/npy_images.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "../support/npy_file.hpp"

namespace penstock::detector {
namespace {

using penstock::testing::npy;

class NpyFile : public ::testing::Test {
 protected:
  NpyFile() : path_(::testing::TempDir() + "npy_test_" + std::to_string(::getpid()) + ".npy") {}
  ~NpyFile() override { std::remove(path_.c_str()); }
  std::string open_error(const std::string& content) {
    std::ofstream(path_, std::ios::binary) << content;
    const auto images = NpyImages::open(path_);
    return images ? "no error" : images.error().message();
  }
  std::string path_;
};

TEST_F(NpyFile, GivesImages) {
  ASSERT_EQ(open_error(npy("{'descr': '<u2', 'fortran_order': False, 'shape': (3, 1, 2)}") + "aabbccddeeff"),
            "no error");
  const auto images = NpyImages::open(path_).value();
  EXPECT_EQ(images->count(), 3U);
  EXPECT_EQ(images->frame(), (ArraySpec{ElementType::u16, {1, 2}}));
  EXPECT_EQ(as_text(images->image(1)), "ccdd");
}

TEST_F(NpyFile, RefusesWhatDoesNotFit) {
  EXPECT_NE(open_error("").find("is empty"), std::string::npos);
  const auto file = npy("{'descr': '<u2', 'fortran_order': False, 'shape': (3, 1, 2)}");
  EXPECT_NE(open_error(file + "aabbccddeef").find("announces 12 bytes of pixels, the file has 11"), std::string::npos);
  EXPECT_NE(open_error(npy("{'descr': '<u2', 'fortran_order': False, 'shape': (3, 2)}") + "aabbccddeeff")
                .find("2 dimensions"),
            std::string::npos);
  EXPECT_NE(open_error(npy("{'descr': '<u8', 'fortran_order': False, 'shape': (999999999999999999, "
                           "999999999999999999, 999999999999999999)}"))
                .find("exceeds"),
            std::string::npos);
  EXPECT_NE(open_error(npy("{'descr': '<u2', 'fortran_order': False, 'shape': (0, 1, 2)}")).find("dimension of 0"),
            std::string::npos);
  EXPECT_EQ(NpyImages::open(path_ + ".absent").error().code(), Errc::not_found);
  EXPECT_FALSE(NpyImages::open(::testing::TempDir()).ok());
}

}  // namespace
}  // namespace penstock::detector
