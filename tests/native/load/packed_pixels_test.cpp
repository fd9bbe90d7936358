#include "load/packed_pixels.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "load/content.hpp"

namespace penstock::load {
namespace {

constexpr std::uint64_t bytes_that_follow = 77;

std::vector<std::byte> codes_of(std::size_t bytes, std::uint64_t frame) {
  std::vector<std::byte> codes(bytes);
  const Content content(ContentKind::random, 5, bytes, 10);
  content.lay(codes);
  content.stamp(codes, frame, 0);
  make_codes(codes);
  return codes;
}

TEST(PackedPixels, NoHalfOfAByteIsTheCodeThatIsLeft) {
  for (const auto byte : codes_of(5000, 1)) {
    EXPECT_NE(byte & std::byte{0x0F}, std::byte{0x0F});
    EXPECT_NE(byte & std::byte{0xF0}, std::byte{0xF0});
  }
  std::vector<std::byte> all{std::byte{0xFF}, std::byte{0x0F}, std::byte{0xF0}, std::byte{0xAB}};
  make_codes(all);
  EXPECT_EQ(all, (std::vector<std::byte>{std::byte{0xEE}, std::byte{0x0E}, std::byte{0xE0}, std::byte{0xAB}}));
}

TEST(PackedPixels, StampsChangeTheChecksumAsAllPixelsDo) {
  for (const std::size_t bytes : {0U, 1U, 7U, 8U, 9U, 511U, 512U, 513U, 519U, 520U, 521U, 1500U, 70'000U}) {
    const auto one = codes_of(bytes, 1), other = codes_of(bytes, 2);
    EXPECT_EQ(one == other, bytes < sizeof(std::uint64_t));
    EXPECT_EQ(crc_of_codes(one, bytes_that_follow) ^ crc_of_codes(other, bytes_that_follow),
              crc_of_stamps(one, bytes_that_follow) ^ crc_of_stamps(other, bytes_that_follow))
        << bytes;
  }
}

}  // namespace
}  // namespace penstock::load
