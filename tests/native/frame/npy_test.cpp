#include "frame/npy.hpp"

#include <gtest/gtest.h>

#include <random>

#include "../support/npy_file.hpp"

namespace penstock {
namespace {

using penstock::testing::npy;

std::string error_of(const std::string& file) {
  const auto header = parse_npy_header(as_bytes(file));
  return header ? "no error" : header.error().message();
}

const char* const good = "{'descr': '<i4', 'fortran_order': False, 'shape': (7, 195, 487), }      \n";

TEST(NpyHeader, ReadsWhatNumpyWrites) {
  for (const int version : {1, 2, 3}) {
    const auto file = npy(good, version);
    const auto header = parse_npy_header(as_bytes(file));
    ASSERT_TRUE(header) << header.error().message();
    EXPECT_EQ(header->array, (ArraySpec{ElementType::i32, {7, 195, 487}}));
    EXPECT_EQ(header->data_offset, file.size());
  }
}

TEST(NpyHeader, NamesWhatIsWrong) {
  EXPECT_NE(error_of("").find("not an npy file"), std::string::npos);
  EXPECT_NE(error_of("PK\x03\x04 zip file").find("not an npy file"), std::string::npos);
  EXPECT_NE(error_of(npy(good, 9)).find("version 9"), std::string::npos);
  EXPECT_NE(error_of(npy("{'descr': '>i4', 'fortran_order': False, 'shape': (1,)}")).find("'>i4'"), std::string::npos);
  EXPECT_NE(error_of(npy("{'descr': '<i4', 'fortran_order': True, 'shape': (1,)}")).find("fortran_order"),
            std::string::npos);
  EXPECT_NE(error_of(npy("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}")).find("quoted word"),
            std::string::npos);
  EXPECT_NE(error_of(npy("{'descr': '<i4', 'shape': (1,)}")).find("lacks one of"), std::string::npos);
  EXPECT_NE(error_of(npy("{'descr': '<i4', 'descr': '<i4'}")).find("comes twice"), std::string::npos);
  EXPECT_NE(error_of(npy("{'descr': '<i4', 'fortran_order': False, 'shape': (-1,)}")).find("a number"),
            std::string::npos);
  EXPECT_NE(error_of(npy("{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}")).find("18"),
            std::string::npos);
  EXPECT_NE(error_of(npy("{'descr': '<i4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}")).find("8"),
            std::string::npos);
  EXPECT_NE(error_of(npy(std::string(good) + "}")).find("the end"), std::string::npos);
  EXPECT_NE(error_of(npy(good).substr(0, 40)).find("claims"), std::string::npos);
  EXPECT_NE(error_of(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12)).find("4294967295"), std::string::npos);
}

/// Whatever the bytes, an answer and no crash; the sanitizers look on.
TEST(NpyHeader, SurvivesDamage) {
  std::mt19937_64 random(20260101);
  for (int round = 0; round < 20000; ++round) {
    auto file = npy(good, 1 + round % 3);
    const auto hits = 1 + random() % 4;
    for (std::uint64_t hit = 0; hit < hits; ++hit) file[random() % file.size()] = static_cast<char>(random());
    file.resize(random() % 4 == 0 ? random() % file.size() : file.size());
    const auto header = parse_npy_header(as_bytes(file));
    if (header) {
      EXPECT_LE(header->data_offset, file.size());
    }
  }
}

}  // namespace
}  // namespace penstock
