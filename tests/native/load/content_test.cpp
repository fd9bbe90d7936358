#include "load/content.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace penstock::load {
namespace {

std::vector<std::byte> block_of(const Content& content, std::size_t bytes, std::uint64_t file, std::uint64_t offset) {
  std::vector<std::byte> block(bytes);
  content.lay(block);
  content.stamp(block, file, offset);
  return block;
}

TEST(Content, NoTwoSectorsOfARunAreEqual) {
  const Content content(ContentKind::random, 1);
  std::set<std::string> seen;
  std::size_t sectors = 0;
  for (std::uint64_t file = 0; file < 8; ++file)
    for (std::uint64_t offset = 0; offset < 4 * 65536; offset += 65536) {
      const auto block = block_of(content, 65536, file, offset);
      for (std::size_t at = 0; at < block.size(); at += sector_bytes, ++sectors)
        seen.emplace(reinterpret_cast<const char*>(block.data() + at), sector_bytes);
    }
  EXPECT_EQ(seen.size(), sectors);
}

TEST(Content, BytesAreSpreadAsRandomOnesAre) {
  const auto block = block_of(Content(ContentKind::random, 3), 1 << 20, 5, 0);
  std::vector<double> counts(256);
  for (const auto byte : block) ++counts[std::to_integer<std::size_t>(byte)];
  double chi_squared = 0;
  for (const auto count : counts) chi_squared += (count - 4096) * (count - 4096) / 4096;
  EXPECT_GT(chi_squared, 160);  // 255 degrees of freedom: outside once in a million seeds each
  EXPECT_LT(chi_squared, 375);
}

TEST(Content, IsTheSameForTheSamePlaceAndSeedOnly) {
  const Content content(ContentKind::random, 9);
  const auto block = block_of(content, 8192, 4, 8192);
  EXPECT_EQ(block, block_of(Content(ContentKind::random, 9), 8192, 4, 8192));
  EXPECT_NE(block, block_of(Content(ContentKind::random, 8), 8192, 4, 8192));
  EXPECT_EQ(first_difference(block, block_of(content, 8192, 4, 0)), 0U);
  EXPECT_EQ(first_difference(block, block_of(content, 8192, 5, 8192)), 0U);
  EXPECT_EQ(first_difference(block, block), std::nullopt);
}

TEST(Content, ADifferenceIsFoundWhereverItIs) {
  const auto block = block_of(Content(ContentKind::random, 1), 4096 + 13, 0, 0);
  for (std::size_t at : {std::size_t{0}, std::size_t{511}, std::size_t{4096}, block.size() - 1}) {
    auto other = block;
    other[at] ^= std::byte{1};
    EXPECT_EQ(first_difference(block, other), at);
  }
}

TEST(Content, ZerosAreZeros) {
  const auto block = block_of(Content(ContentKind::zeros, 1), 5000, 3, 0);
  EXPECT_EQ(block, std::vector<std::byte>(5000));
}

TEST(Memory, BlocksLeaveHalfOfItToOthers) {
  const auto all = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE));
  EXPECT_TRUE(check_memory(all / 2).ok());
  EXPECT_EQ(check_memory(all / 2 + 1).error().code(), Errc::out_of_memory);
}

TEST(Memory, IsPageAlignedAndWholePages) {
  const auto memory = Memory::allocate(5000);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->bytes().size(), 8192U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->bytes().data()) % page_bytes, 0U);
}

}  // namespace
}  // namespace penstock::load
