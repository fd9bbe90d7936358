// The LZ4 coder of each variant against the LZ4 library.

#include <gtest/gtest.h>
#include <lz4.h>
#include <lz4hc.h>

#include <memory>

#include "codec/kernels.hpp"
#include "content.hpp"

namespace penstock::codec {
namespace {

using test::all_contents;
using test::Content;
using test::make_content;

constexpr std::byte canary{0x5a};

const char* chars(const std::byte* bytes) { return reinterpret_cast<const char*>(bytes); }
char* chars(std::byte* bytes) { return reinterpret_cast<char*>(bytes); }

/// Bit planes of `bytes` of 16-bit pixels, between slack.
std::vector<std::byte> make_planes(Content content, std::size_t bytes, std::uint64_t seed) {
  const auto elements = make_content(content, (bytes + 15) / 16 * 8, 2, seed);
  std::vector<std::byte> planes(slack_bytes + elements.size() + slack_bytes);
  portable_kernels.transpose(elements.data(), planes.data() + slack_bytes, elements.size() / 2, 2);
  planes.resize(slack_bytes + bytes);
  planes.resize(slack_bytes + bytes + slack_bytes, canary);
  return planes;
}

std::vector<std::byte> encode_block(const Kernels& kernel, const std::vector<std::byte>& planes, Lz4Table& table) {
  const std::size_t bytes = planes.size() - 2 * slack_bytes;
  std::vector<std::byte> block(lz4_bound(bytes) + slack_bytes);
  const std::size_t size = kernel.lz4_encode(planes.data() + slack_bytes, bytes, block.data(), table, planes.data());
  EXPECT_LE(size, lz4_bound(bytes));
  block.resize(size);
  block.shrink_to_fit();
  return block;
}

void expect_decodes(const Kernels& kernel, Bytes block, Bytes planes) {
  std::vector<std::byte> back(planes.size() + slack_bytes);
  // Once as the last block of a chunk, once with more of it behind.
  for (const std::size_t behind : {0u, 100u}) {
    std::vector<std::byte> chunk(block.begin(), block.end());
    chunk.resize(block.size() + behind);
    chunk.shrink_to_fit();
    const Lz4Block input{chunk.data(), chunk.data() + block.size(), chunk.data() + chunk.size()};
    std::fill(back.begin(), back.end(), canary);
    ASSERT_TRUE(kernel.lz4_decode(input, back.data(), planes.size(), back.data()));
    EXPECT_TRUE(std::equal(planes.begin(), planes.end(), back.begin()));
  }
}

TEST(Lz4, BlocksOfEachVariantAreReadByTheLibraryAndByAll) {
  const auto table = std::make_unique<Lz4Table>();
  std::uint64_t seed = 0;
  for (const std::size_t bytes : {1u, 4u, 5u, 12u, 13u, 14u, 17u, 20u, 31u, 64u, 100u, 1000u, 8192u, 65536u})
    for (const Content content : all_contents) {
      const auto planes = make_planes(content, bytes, ++seed);
      for (const Kernels* kernel : supported_kernels()) {
        SCOPED_TRACE(testing::Message() << kernel->name << ", " << bytes << " bytes, " << name(content));
        const auto block = encode_block(*kernel, planes, *table);
        std::vector<std::byte> back(bytes);
        ASSERT_EQ(LZ4_decompress_safe(chars(block.data()), chars(back.data()), static_cast<int>(block.size()),
                                      static_cast<int>(bytes)),
                  static_cast<int>(bytes));
        const Bytes expected = Bytes(planes).subspan(slack_bytes, bytes);
        EXPECT_TRUE(std::equal(back.begin(), back.end(), expected.begin()));
        for (const Kernels* decoder : supported_kernels()) expect_decodes(*decoder, block, expected);
      }
    }
}

TEST(Lz4, BlocksOfTheLibraryAreReadByEachVariant) {
  for (const std::size_t bytes : {1u, 13u, 64u, 1000u, 8192u, 200000u})
    for (const Content content : all_contents) {
      const auto planes = make_planes(content, bytes, bytes);
      const Bytes raw = Bytes(planes).subspan(slack_bytes, bytes);
      std::vector<std::byte> block(lz4_bound(bytes));
      const int room = static_cast<int>(block.size());
      const int fast = LZ4_compress_default(chars(raw.data()), chars(block.data()), static_cast<int>(bytes), room);
      for (const Kernels* kernel : supported_kernels()) {
        SCOPED_TRACE(testing::Message() << kernel->name << ", " << bytes << " bytes, " << name(content));
        expect_decodes(*kernel, Bytes(block).first(static_cast<std::size_t>(fast)), raw);
      }
      const int strong = LZ4_compress_HC(chars(raw.data()), chars(block.data()), static_cast<int>(bytes), room, 9);
      for (const Kernels* kernel : supported_kernels()) {
        SCOPED_TRACE(testing::Message() << kernel->name << ", strong, " << bytes << " bytes, " << name(content));
        expect_decodes(*kernel, Bytes(block).first(static_cast<std::size_t>(strong)), raw);
      }
    }
}

/// Every short pattern length, and lengths around the sizes of vectors.
TEST(Lz4, RepeatsOfEveryDistance) {
  const auto table = std::make_unique<Lz4Table>();
  for (std::size_t distance = 1; distance <= 70; ++distance)
    for (const std::size_t bytes : {distance + 13, distance + 40, distance + 333}) {
      std::vector<std::byte> planes(slack_bytes + bytes + slack_bytes, canary);
      for (std::size_t i = 0; i < bytes; ++i)
        planes[slack_bytes + i] = static_cast<std::byte>((i % distance) * 37 + distance);
      const Bytes raw = Bytes(planes).subspan(slack_bytes, bytes);
      std::vector<std::byte> block(lz4_bound(bytes));
      block.resize(static_cast<std::size_t>(LZ4_compress_default(
          chars(raw.data()), chars(block.data()), static_cast<int>(bytes), static_cast<int>(block.size()))));
      for (const Kernels* kernel : supported_kernels()) {
        SCOPED_TRACE(testing::Message() << kernel->name << ", " << bytes << " bytes repeating after " << distance);
        expect_decodes(*kernel, block, raw);
        expect_decodes(*kernel, encode_block(*kernel, planes, *table), raw);
      }
    }
}

TEST(Lz4, EncodersGiveTheSameBytesAgain) {
  const auto table = std::make_unique<Lz4Table>();
  const auto planes = make_planes(Content::background, 8192, 7);
  const auto other = make_planes(Content::random, 8192, 8);
  for (const Kernels* kernel : supported_kernels()) {
    const auto first = encode_block(*kernel, planes, *table);
    encode_block(*kernel, other, *table);
    EXPECT_EQ(encode_block(*kernel, planes, *table), first) << kernel->name;
  }
}

TEST(Lz4, CompressesAsWellAsTheLibrary) {
  const auto table = std::make_unique<Lz4Table>();
  for (const Content content : {Content::sparse, Content::background, Content::masked, Content::repeated}) {
    for (const Kernels* kernel : supported_kernels()) {
      std::size_t own = 0;
      std::size_t library = 0;
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const auto planes = make_planes(content, 8192, seed);
        own += encode_block(*kernel, planes, *table).size();
        std::vector<std::byte> block(lz4_bound(8192));
        library += static_cast<std::size_t>(LZ4_compress_default(
            chars(planes.data() + slack_bytes), chars(block.data()), 8192, static_cast<int>(block.size())));
      }
      EXPECT_LE(static_cast<double>(own), 1.03 * static_cast<double>(library)) << kernel->name << ", " << name(content);
    }
  }
}

}  // namespace
}  // namespace penstock::codec
