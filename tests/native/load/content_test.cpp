#include "load/workloads/content.hpp"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace penstock::load {
namespace {

constexpr std::uint64_t many = 1 << 20;

/// A file as its blocks are written, one after the other.
std::vector<std::byte> file_of(const Content& content, std::size_t block_bytes, std::size_t bytes, std::uint64_t file) {
  std::vector<std::byte> ground(content.ground_bytes()), all;
  content.lay(ground);
  all.reserve(bytes);
  for (std::uint64_t offset = 0; offset < bytes; offset += block_bytes) {
    const auto block = content.block(ground, file, offset);
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

std::vector<std::byte> block_of(const Content& content, std::uint64_t file, std::uint64_t offset) {
  std::vector<std::byte> ground(content.ground_bytes());
  content.lay(ground);
  const auto block = content.block(ground, file, offset);
  return {block.begin(), block.end()};
}

TEST(Content, NoTwoSectorsOfARunAreEqual) {
  const Content content(ContentKind::random, 1, 65536, 4);
  std::set<std::string> seen;
  std::size_t sectors = 0;
  for (std::uint64_t file = 0; file < 8; ++file)
    for (std::uint64_t offset = 0; offset < 4 * 65536; offset += 65536) {
      const auto block = block_of(content, file, offset);
      for (std::size_t at = 0; at < block.size(); at += sector_bytes, ++sectors)
        seen.emplace(reinterpret_cast<const char*>(block.data() + at), sector_bytes);
    }
  EXPECT_EQ(seen.size(), sectors);
}

/// What is left of bytes by zstd, which looks back over 8 MiB: farther than file systems do.
double share_left(const std::vector<std::byte>& bytes) {
  std::vector<std::byte> packed(ZSTD_compressBound(bytes.size()));
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 23);
  ZSTD_CCtx_setParameter(context, ZSTD_c_enableLongDistanceMatching, 1);
  const auto size = ZSTD_compress2(context, packed.data(), packed.size(), bytes.data(), bytes.size());
  ZSTD_freeCCtx(context);
  EXPECT_FALSE(ZSTD_isError(size));
  return static_cast<double>(size) / static_cast<double>(bytes.size());
}

TEST(Content, CannotBeCompressedWhateverTheSizeOfTransfers) {
  constexpr std::size_t file_bytes = 24 << 20;  // more than a ground
  for (const std::size_t transfer : {512U, 1000U, 65536U, 3U << 20}) {
    const Content content(ContentKind::random, 1, transfer, many);
    const auto bytes = file_of(content, transfer, file_bytes, 3);
    EXPECT_GE(share_left(bytes), 0.99) << transfer;
    std::set<std::string> pages;
    std::size_t count = 0;
    for (std::size_t at = 0; at + page_bytes <= bytes.size(); at += page_bytes, ++count)
      pages.emplace(reinterpret_cast<const char*>(bytes.data() + at), page_bytes);
    EXPECT_EQ(pages.size(), count) << transfer;
  }
}

TEST(Content, BytesAreSpreadAsRandomOnesAre) {
  const auto block = block_of(Content(ContentKind::random, 3, 1 << 20, 1), 5, 0);
  std::vector<double> counts(256);
  for (const auto byte : block) ++counts[std::to_integer<std::size_t>(byte)];
  double chi_squared = 0;
  for (const auto count : counts) chi_squared += (count - 4096) * (count - 4096) / 4096;
  EXPECT_GT(chi_squared, 160);  // 255 degrees of freedom: outside once in a million seeds each
  EXPECT_LT(chi_squared, 375);
}

TEST(Content, IsTheSameForTheSamePlaceAndSeedOnly) {
  const Content content(ContentKind::random, 9, 8192, 100);
  std::vector<std::byte> ground(content.ground_bytes());
  content.lay(ground);
  const auto block = block_of(content, 4, 8192);
  EXPECT_EQ(block, block_of(Content(ContentKind::random, 9, 8192, 100), 4, 8192));
  EXPECT_NE(block, block_of(Content(ContentKind::random, 8, 8192, 100), 4, 8192));
  EXPECT_TRUE(content.is_block(block, ground, 4, 8192));
  content.block(ground, 7, 8192);  // what is stamped in the ground does not matter
  EXPECT_TRUE(content.is_block(block, ground, 4, 8192));
  EXPECT_FALSE(content.is_block(block, ground, 4, 0)) << "another place";
  EXPECT_FALSE(content.is_block(block, ground, 5, 8192)) << "another file";
  EXPECT_FALSE(content.is_block(block, ground, 4, (100 + 1) * 8192)) << "a place that has the same piece of the ground";
  EXPECT_FALSE(content.is_block(Bytes(block).first(8191), ground, 4, 8192));
}

TEST(Content, ATornBlockIsNone) {
  const Content content(ContentKind::random, 9, 8192, 2);
  std::vector<std::byte> ground(content.ground_bytes());
  content.lay(ground);
  const auto right = block_of(content, 0, 0), other = block_of(content, 0, 2 * 8192);
  for (std::size_t from = 0; from < 8192; from += sector_bytes) {
    auto torn = right;
    std::copy(other.begin() + static_cast<std::ptrdiff_t>(from), other.end(),
              torn.begin() + static_cast<std::ptrdiff_t>(from));
    EXPECT_FALSE(content.is_block(torn, ground, 0, 0)) << from;
  }
}

TEST(Content, ADifferenceIsFoundWhereverItIs) {
  for (const std::size_t size : {std::size_t{5}, std::size_t{4096 + 3}, std::size_t{4096 + 13}}) {
    const Content content(ContentKind::random, 1, size, 1);
    std::vector<std::byte> ground(content.ground_bytes());
    content.lay(ground);
    const auto block = block_of(content, 0, 0);
    EXPECT_TRUE(content.is_block(block, ground, 0, 0));
    for (std::size_t at = 0; at < size; at += at < 64 || at + 64 > size ? 1 : 7) {
      auto other = block;
      other[at] ^= std::byte{1};
      EXPECT_FALSE(content.is_block(other, ground, 0, 0)) << at;
      EXPECT_EQ(first_difference(block, other), at);
    }
  }
}

TEST(Content, ZerosAreZeros) {
  const Content content(ContentKind::zeros, 1, 5000, many);
  EXPECT_EQ(content.ground_bytes(), 5000U);
  EXPECT_EQ(block_of(content, 3, 10'000), std::vector<std::byte>(5000));
}

LoadPlan plan_of(ContentKind kind, double ratio, const std::string& path = "") {
  LoadPlan plan;
  plan.content = kind;
  plan.content_ratio = ratio;
  plan.content_file = path;
  return plan;
}

TEST(Content, CompressesAsItsRatioSays) {
  for (const double ratio : {1.0, 1.5, 4.0, 10.0})
    for (const std::size_t transfer : {512U, 1000U, 4U << 20}) {
      Content content(plan_of(ContentKind::compressible, ratio), transfer, many);
      ASSERT_TRUE(content.open());
      const auto bytes = file_of(content, transfer, 4 << 20, 3);
      EXPECT_NEAR(share_left(bytes) * ratio, 1, 0.1) << ratio << " in " << transfer;
      std::set<std::string> sectors;
      for (std::size_t at = 0; at + sector_bytes <= transfer; at += sector_bytes)
        sectors.emplace(reinterpret_cast<const char*>(bytes.data() + at), sector_bytes);
      EXPECT_EQ(sectors.size(), transfer / sector_bytes);
    }
}

TEST(Content, ADifferenceIsFoundAmongZerosToo) {
  Content content(plan_of(ContentKind::compressible, 8), 8192, 2);
  ASSERT_TRUE(content.open());
  std::vector<std::byte> ground(content.ground_bytes());
  content.lay(ground);
  const auto block = block_of(content, 1, 8192);
  EXPECT_TRUE(content.is_block(block, ground, 1, 8192));
  EXPECT_FALSE(content.is_block(block, ground, 1, 0));
  for (std::size_t at = 0; at < block.size(); at += 7) {
    auto other = block;
    other[at] ^= std::byte{1};
    EXPECT_FALSE(content.is_block(other, ground, 1, 8192)) << at;
  }
}

TEST(Content, IsThatOfAFileButForTheStamps) {
  const std::string path = ::testing::TempDir() + "content_of_a_user";
  std::string text;
  for (int i = 0; text.size() < 10'000; ++i) text += "pixel " + std::to_string(i) + "\n";
  std::ofstream(path) << text;
  Content content(plan_of(ContentKind::file, 1, path), 8192, 4);
  ASSERT_TRUE(content.open());
  const auto bytes = file_of(content, 8192, 32768, 0);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const bool stamped = at % sector_bytes < sizeof(std::uint64_t);
    ASSERT_TRUE(stamped || static_cast<char>(bytes[at]) == text[at % text.size()]) << at;
  }
  EXPECT_NE(bytes, file_of(content, 8192, 32768, 1)) << "files differ by their stamps";
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_NE(content.open().error().message().find("is empty"), std::string::npos);
  ::unlink(path.c_str());
  EXPECT_NE(content.open().error().message().find(path), std::string::npos);
  EXPECT_FALSE(Content(plan_of(ContentKind::file, 1, "/dev/zero"), 8192, 4).open()) << "it has no end";
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
