#include "codec/codec.hpp"

#include <gtest/gtest.h>

#include "content.hpp"

namespace penstock {
namespace {

using test::all_contents;
using test::Content;
using test::make_content;

constexpr Encoding all_encodings[] = {Encoding::none, Encoding::bitshuffle_lz4, Encoding::bitshuffle_zstd,
                                      Encoding::lz4,  Encoding::zstd,           Encoding::deflate};

std::vector<std::byte> encoded(const CodecSpec& spec, Bytes raw, std::size_t element_bytes, CodecScratch& scratch) {
  std::vector<std::byte> into(encoded_bound(spec, raw.size(), element_bytes));
  const auto size = encode(spec, raw, element_bytes, into, scratch);
  EXPECT_TRUE(size.ok()) << size.error().message();
  if (!size.ok()) return {};
  into.resize(*size);
  into.shrink_to_fit();
  return into;
}

void expect_round_trip(const CodecSpec& spec, const std::vector<std::byte>& raw, std::size_t element_bytes,
                       CodecScratch& scratch) {
  const auto chunk = encoded(spec, raw, element_bytes, scratch);
  const auto framing = check_framing(spec.encoding, chunk, element_bytes, raw.size());
  EXPECT_TRUE(framing.ok()) << framing.error().message();
  std::vector<std::byte> back(raw.size(), std::byte{0x5a});
  const auto decoded = decode(spec.encoding, chunk, element_bytes, back, scratch);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message();
  EXPECT_EQ(back, raw);
}

TEST(Codec, RoundTripsOfAllKinds) {
  CodecScratch scratch;
  for (const Encoding encoding : all_encodings)
    for (const std::size_t element_bytes : {1u, 2u, 4u, 8u})
      for (const std::size_t count : {0u, 1u, 7u, 8u, 9u, 63u, 500u, 1023u, 4095u, 4096u, 4104u, 8192u, 20011u})
        for (const Content content : all_contents) {
          SCOPED_TRACE(testing::Message()
                       << name(encoding) << ", " << count << " elements of " << element_bytes << ", " << name(content));
          expect_round_trip({.encoding = encoding}, make_content(content, count, element_bytes), element_bytes,
                            scratch);
        }
}

TEST(Codec, RoundTripsOfOtherBlockSizesAndLevels) {
  CodecScratch scratch;
  const auto raw = make_content(Content::masked, 150001, 2);
  for (const Encoding encoding : {Encoding::bitshuffle_lz4, Encoding::bitshuffle_zstd})
    for (const std::uint32_t block_bytes : {16u, 48u, 4096u, 65536u, 131072u, 1u << 20}) {
      SCOPED_TRACE(testing::Message() << name(encoding) << " in blocks of " << block_bytes);
      expect_round_trip({.encoding = encoding, .block_bytes = block_bytes}, raw, 2, scratch);
    }
  for (const int level : {1, 3, 9})
    for (const Encoding encoding : {Encoding::bitshuffle_zstd, Encoding::zstd, Encoding::deflate}) {
      SCOPED_TRACE(testing::Message() << name(encoding) << " at level " << level);
      expect_round_trip({.encoding = encoding, .level = level}, raw, 2, scratch);
    }
}

TEST(Codec, RefusesWhatTheFiltersCannotHold) {
  CodecScratch scratch;
  const std::vector<std::byte> raw(96);
  std::vector<std::byte> into(65536);
  const auto code = [&](CodecSpec spec, std::size_t element_bytes, MutableBytes room) {
    const auto size = encode(spec, raw, element_bytes, room, scratch);
    return size.ok() ? Errc{} : size.error().code();
  };
  EXPECT_EQ(code({.encoding = Encoding::bitshuffle_lz4}, 3, into), Errc::unsupported);
  EXPECT_EQ(code({.encoding = Encoding::bitshuffle_lz4}, 0, into), Errc::unsupported);
  EXPECT_EQ(code({.encoding = Encoding::bitshuffle_lz4, .block_bytes = 24}, 2, into), Errc::invalid_argument);
  EXPECT_EQ(code({.encoding = Encoding::bitshuffle_lz4, .block_bytes = 1u << 29}, 2, into), Errc::invalid_argument);
  EXPECT_EQ(code({.encoding = Encoding::zstd, .level = 20}, 2, into), Errc::invalid_argument);
  EXPECT_EQ(code({.encoding = Encoding::deflate, .level = -1}, 2, into), Errc::invalid_argument);
  EXPECT_EQ(code({.encoding = Encoding::deflate}, 7, into), Errc::invalid_argument);
  EXPECT_EQ(code({.encoding = Encoding::lz4}, 2, MutableBytes(into).first(96)), Errc::invalid_argument);
  EXPECT_EQ(code({.encoding = Encoding::lz4}, 2, into), Errc{});
}

TEST(Codec, DeclaresFiltersAsStored) {
  const auto values = [](const CodecSpec& spec, std::size_t element_bytes, int id) {
    const auto filters = filters_of(spec, element_bytes);
    EXPECT_EQ(filters.size(), 1u);
    EXPECT_EQ(filters.at(0).id, id);
    return filters.at(0).values;
  };
  using Values = std::vector<unsigned>;
  EXPECT_TRUE(filters_of({.encoding = Encoding::none}, 2).empty());
  EXPECT_EQ(values({.encoding = Encoding::bitshuffle_lz4}, 2, 32008), (Values{0, 4, 2, 0, 2}));
  EXPECT_EQ(values({.encoding = Encoding::bitshuffle_lz4, .block_bytes = 65536}, 4, 32008),
            (Values{0, 4, 4, 16384, 2}));
  EXPECT_EQ(values({.encoding = Encoding::bitshuffle_zstd, .level = 5}, 4, 32008), (Values{0, 4, 4, 0, 3, 5}));
  EXPECT_EQ(values({.encoding = Encoding::lz4}, 2, 32004), (Values{0}));
  EXPECT_EQ(values({.encoding = Encoding::zstd, .level = 3}, 2, 32015), (Values{3}));
  EXPECT_EQ(values({.encoding = Encoding::deflate}, 2, 1), (Values{1}));
}

}  // namespace
}  // namespace penstock
