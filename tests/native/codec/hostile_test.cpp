// Chunks that lie. What must hold: an error or exactly the bytes asked for, and no access outside
// (the buffers are exact, so that the address sanitizer sees one).

#include <gtest/gtest.h>

#include "codec/codec.hpp"
#include "content.hpp"

namespace penstock {
namespace {

using test::Content;
using test::make_content;

constexpr Encoding compressed_encodings[] = {Encoding::bitshuffle_lz4, Encoding::bitshuffle_zstd, Encoding::lz4,
                                             Encoding::zstd, Encoding::deflate};
constexpr std::size_t element_bytes = 2;

struct Chunk {
  std::vector<std::byte> raw = make_content(Content::background, 1003, element_bytes);
  std::vector<std::byte> bytes;
};

Chunk make_chunk(Encoding encoding, CodecScratch& scratch) {
  Chunk chunk;
  const CodecSpec spec{.encoding = encoding, .block_bytes = 512};
  chunk.bytes.resize(encoded_bound(spec, chunk.raw.size(), element_bytes));
  const auto size = encode(spec, chunk.raw, element_bytes, chunk.bytes, scratch);
  EXPECT_TRUE(size.ok());
  chunk.bytes.resize(*size);
  return chunk;
}

/// Decodes into memory of the exact size; whether it was accepted.
bool decodes(Encoding encoding, const std::vector<std::byte>& bytes, std::size_t raw_bytes, CodecScratch& scratch) {
  const std::vector<std::byte> exact(bytes.begin(), bytes.end());
  std::vector<std::byte> back(raw_bytes);
  return decode(encoding, exact, element_bytes, back, scratch).ok();
}

TEST(Hostile, TruncatedChunksAreRefused) {
  CodecScratch scratch;
  for (const Encoding encoding : compressed_encodings) {
    const Chunk chunk = make_chunk(encoding, scratch);
    for (std::size_t size = 0; size < chunk.bytes.size(); ++size) {
      const std::vector<std::byte> cut(chunk.bytes.begin(), chunk.bytes.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_FALSE(decodes(encoding, cut, chunk.raw.size(), scratch)) << name(encoding) << " cut to " << size;
      // Nothing in a zlib stream tells where it ends but decoding it.
      if (encoding != Encoding::deflate) {
        EXPECT_FALSE(check_framing(encoding, cut, element_bytes, chunk.raw.size()).ok())
            << name(encoding) << " cut to " << size;
      }
    }
  }
}

TEST(Hostile, BytesBehindTheChunkAreRefused) {
  CodecScratch scratch;
  for (const Encoding encoding : compressed_encodings) {
    Chunk chunk = make_chunk(encoding, scratch);
    chunk.bytes.push_back(std::byte{0});
    EXPECT_FALSE(decodes(encoding, chunk.bytes, chunk.raw.size(), scratch)) << name(encoding);
    if (encoding != Encoding::deflate) {
      EXPECT_FALSE(check_framing(encoding, chunk.bytes, element_bytes, chunk.raw.size()).ok()) << name(encoding);
    }
  }
}

TEST(Hostile, OtherSizesThanAskedForAreRefused) {
  CodecScratch scratch;
  for (const Encoding encoding : compressed_encodings) {
    const Chunk chunk = make_chunk(encoding, scratch);
    for (const std::size_t raw_bytes : {std::size_t{0}, std::size_t{2}, chunk.raw.size() - 2, chunk.raw.size() + 2}) {
      EXPECT_FALSE(decodes(encoding, chunk.bytes, raw_bytes, scratch)) << name(encoding) << " as " << raw_bytes;
      if (encoding != Encoding::deflate) {
        EXPECT_FALSE(check_framing(encoding, chunk.bytes, element_bytes, raw_bytes).ok())
            << name(encoding) << " as " << raw_bytes;
      }
    }
  }
}

TEST(Hostile, FlippedBytesNeverReachOutside) {
  CodecScratch scratch;
  for (const Encoding encoding : compressed_encodings) {
    const Chunk chunk = make_chunk(encoding, scratch);
    for (std::size_t at = 0; at < chunk.bytes.size(); ++at)
      for (const std::byte flip :
           {std::byte{0x01}, std::byte{0x0f}, std::byte{0x80}, std::byte{0xf0}, std::byte{0xff}}) {
        auto damaged = chunk.bytes;
        damaged[at] ^= flip;
        decodes(encoding, damaged, chunk.raw.size(), scratch);
        static_cast<void>(check_framing(encoding, damaged, element_bytes, chunk.raw.size()).ok());
      }
  }
}

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(Hostile, LyingHeadersAreRefused) {
  CodecScratch scratch;
  for (const Encoding encoding : {Encoding::bitshuffle_lz4, Encoding::bitshuffle_zstd, Encoding::lz4}) {
    const Chunk chunk = make_chunk(encoding, scratch);
    const auto refused = [&](std::size_t at, auto value) {
      auto lie = chunk.bytes;
      store_be(lie.data() + at, value);
      EXPECT_FALSE(decodes(encoding, lie, chunk.raw.size(), scratch))
          << name(encoding) << ": " << value << " at " << at;
      EXPECT_FALSE(check_framing(encoding, lie, element_bytes, chunk.raw.size()).ok())
          << name(encoding) << ": " << value << " at " << at;
    };
    refused(0, std::uint64_t{1} << 63);
    refused(0, ~std::uint64_t{0});
    refused(0, std::uint64_t{0});
    refused(8, 513u);   // no multiple of 8 elements, and more blocks than there are
    refused(8, 0x10u);  // many more blocks than there are
    refused(12, 0u);
    refused(12, 0xffffffffu);
    refused(12, 0x7fffffffu);
  }
  EXPECT_FALSE(decodes(Encoding::lz4, bytes_of({0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 7}), 1, scratch));
}

/// One block of 16 bytes, which is 8 elements, with LZ4 sequences made by hand.
bool block_decodes(std::initializer_list<int> block, CodecScratch& scratch) {
  auto chunk = bytes_of({0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0x20, 0, 0, 0, 0, static_cast<int>(block.size())});
  const auto sequences = bytes_of(block);
  chunk.insert(chunk.end(), sequences.begin(), sequences.end());
  return decodes(Encoding::bitshuffle_lz4, chunk, 16, scratch);
}

TEST(Hostile, LyingLz4SequencesAreRefused) {
  CodecScratch scratch;
  EXPECT_TRUE(block_decodes({0x16, 7, 1, 0, 0x50, 1, 2, 3, 4, 5}, scratch))
      << "1 literal, 10 by distance 1, 5 literals";
  EXPECT_FALSE(block_decodes({0x16, 7, 0, 0, 0x50, 1, 2, 3, 4, 5}, scratch)) << "distance 0";
  EXPECT_FALSE(block_decodes({0x16, 7, 2, 0, 0x50, 1, 2, 3, 4, 5}, scratch)) << "before the block";
  EXPECT_FALSE(block_decodes({0x16, 7, 1, 0x80, 0x50, 1, 2, 3, 4, 5}, scratch)) << "far before the block";
  EXPECT_FALSE(block_decodes({0x17, 7, 1, 0, 0x50, 1, 2, 3, 4, 5}, scratch)) << "one byte too many";
  EXPECT_FALSE(block_decodes({0x15, 7, 1, 0, 0x50, 1, 2, 3, 4, 5}, scratch)) << "one byte too few";
  EXPECT_FALSE(block_decodes({0x1f, 7, 1, 0, 255, 255, 255}, scratch)) << "a length without end";
  EXPECT_FALSE(block_decodes({0x1f, 7, 1, 0, 255, 255, 0, 0x50, 1, 2, 3, 4, 5}, scratch)) << "a match beyond the block";
  EXPECT_FALSE(block_decodes({0xf0, 255, 255, 255}, scratch)) << "literals without end";
  EXPECT_FALSE(block_decodes({0xf0, 1, 1, 2, 3}, scratch)) << "literals beyond the input";
  EXPECT_FALSE(block_decodes({0x1b, 7, 1, 0}, scratch)) << "no literals at the end";
  EXPECT_FALSE(block_decodes({0x1b, 7, 1}, scratch)) << "half a distance";
  EXPECT_FALSE(block_decodes({0x00}, scratch)) << "nothing";
}

TEST(Hostile, BlockSizesAreTheDefaultWhereTheHeaderHasNone) {
  CodecScratch scratch;
  const auto raw = make_content(Content::background, 10000, element_bytes);
  const CodecSpec spec{.encoding = Encoding::bitshuffle_lz4};
  std::vector<std::byte> chunk(encoded_bound(spec, raw.size(), element_bytes));
  const auto size = encode(spec, raw, element_bytes, chunk, scratch);
  ASSERT_TRUE(size.ok());
  chunk.resize(*size);
  store_be(chunk.data() + 8, 0u);
  std::vector<std::byte> back(raw.size());
  ASSERT_TRUE(decode(spec.encoding, chunk, element_bytes, back, scratch).ok());
  EXPECT_EQ(back, raw);
}

TEST(Hostile, WhatOnlyDecodersReadIsCheckedByItsFraming) {
  // zlib: method, check sum of the header, preset dictionary, and more pixels than deflate can pack.
  const auto zlib = [](int first, int second, std::size_t raw_bytes) {
    return check_framing(Encoding::deflate, bytes_of({first, second, 0, 0, 0, 0, 0, 0}), element_bytes, raw_bytes).ok();
  };
  EXPECT_TRUE(zlib(0x78, 0x01, 16));
  EXPECT_FALSE(zlib(0x78, 0x02, 16));
  EXPECT_FALSE(zlib(0x77, 0x00, 16));
  EXPECT_FALSE(zlib(0x78, 0x20, 16));
  EXPECT_FALSE(zlib(0x78, 0x01, 1u << 20));
  EXPECT_FALSE(check_framing(Encoding::zstd, bytes_of({1, 2, 3, 4, 5, 6, 7, 8}), element_bytes, 16).ok());
  EXPECT_FALSE(check_framing(Encoding::none, bytes_of({1, 2, 3}), element_bytes, 4).ok());
  EXPECT_FALSE(check_framing(Encoding::bitshuffle_lz4, bytes_of({}), 3, 16).ok());
  EXPECT_FALSE(check_framing(static_cast<Encoding>(77), bytes_of({}), 2, 0).ok());
}

}  // namespace
}  // namespace penstock
