#include "base/crc32c.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace penstock {
namespace {

/// Bit by bit from the polynomial; shares nothing with the code under test.
std::uint32_t crc32c_by_bits(Bytes data) {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const auto byte : data) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0);
  }
  return ~crc;
}

TEST(Crc32c, KnownValue) { EXPECT_EQ(crc32c(as_bytes("123456789")), 0xE3069283u); }

TEST(Crc32c, EmptyIsZero) { EXPECT_EQ(crc32c({}), 0u); }

TEST(Crc32c, EqualsTheDefinitionForEveryLengthAndInPieces) {
  std::mt19937 random(7);
  std::vector<std::byte> data(1500);
  for (auto& byte : data) byte = static_cast<std::byte>(random());
  for (std::size_t size = 0; size <= data.size(); size += 1 + size / 16) {
    const auto whole = Bytes(data).first(size);
    const auto expected = crc32c_by_bits(whole);
    EXPECT_EQ(crc32c(whole), expected) << size;
    EXPECT_EQ(crc32c(whole.subspan(size / 3), crc32c(whole.first(size / 3))), expected) << size;
  }
}

}  // namespace
}  // namespace penstock
