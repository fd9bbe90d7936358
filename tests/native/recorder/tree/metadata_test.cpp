#include "recorder/tree/metadata.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace penstock::recorder {
namespace {

using namespace std::string_literals;

std::string text_of(const MetaValue& value, std::size_t room, bool whole = true) {
  std::vector<std::byte> bytes(room, std::byte{'?'});
  EXPECT_EQ(encode_value(&value, {"t", ElementType::u8, room}, bytes.data()), whole);
  std::string text(room, '\0');
  std::memcpy(text.data(), bytes.data(), room);
  return text.substr(0, text.find_last_not_of('\0') + 1);
}

TEST(MetaColumns, TextGetsTwiceTheRoomOfItsFirstValueWithinBounds) {
  const auto columns = meta_columns({{"short", "a"s},
                                     {"middle", std::string(100, 'x')},
                                     {"long", std::string(5000, 'x')},
                                     {"number", 1.0},
                                     {"signed", std::int64_t{1}},
                                     {"unsigned", std::uint64_t{1}}});
  ASSERT_EQ(columns.size(), 6u);
  EXPECT_EQ(columns[0].row_bytes(), 64u);
  EXPECT_EQ(columns[1].row_bytes(), 208u);
  EXPECT_EQ(columns[2].row_bytes(), 1024u);
  EXPECT_EQ(columns[3].text_bytes, 0u);
  EXPECT_EQ(columns[3].type, ElementType::f64);
  EXPECT_EQ(columns[4].type, ElementType::i64);
  EXPECT_EQ(columns[5].type, ElementType::u64);
}

TEST(MetaColumns, NamesThatAreNoObjectsOrComeTwiceAreLeftOut) {
  const auto columns =
      meta_columns({{"a/b", 1.0}, {"", 1.0}, {"..", 1.0}, {"nul\0"s, 1.0}, {"good", 1.0}, {"good", 2.0}, {"a.b", 1.0}});
  ASSERT_EQ(columns.size(), 2u);
  EXPECT_EQ(columns[0].name, "good");
  EXPECT_EQ(columns[1].name, "a.b");
}

TEST(EncodeValue, ArraysAreRowsOfTheirShape) {
  const MetaArray array{{ElementType::f32, {2, 3}}, std::vector<std::byte>(24, std::byte{1})};
  const auto columns = meta_columns({{"a", array}});
  ASSERT_EQ(columns.size(), 1u);
  EXPECT_EQ(columns[0].shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(columns[0].row_bytes(), 24u);
  std::vector<std::byte> row(24);
  const MetaValue same = array;
  EXPECT_TRUE(encode_value(&same, columns[0], row.data()));
  EXPECT_EQ(row, array.data);
  const MetaValue shorter = MetaArray{{ElementType::f32, {2}}, std::vector<std::byte>(8)};
  const MetaValue number = 4.0, text = "4"s;
  for (const auto* other : {&shorter, &number, &text}) {
    EXPECT_FALSE(encode_value(other, columns[0], row.data()));
    float last = 0;
    std::memcpy(&last, row.data() + 20, sizeof last);
    EXPECT_TRUE(std::isnan(last));
  }
  std::vector<std::byte> cell(8);
  EXPECT_FALSE(encode_value(&same, {"n", ElementType::i64}, cell.data()));
}

TEST(EncodeValue, TextIsCutBetweenCharacters) {
  EXPECT_EQ(text_of("abc"s, 8), "abc");
  EXPECT_EQ(text_of("12345678"s, 8), "12345678");
  EXPECT_EQ(text_of("123456789"s, 8, false), "12345678");
  EXPECT_EQ(text_of("1234567\u00b5"s, 8, false), "1234567");
  EXPECT_EQ(text_of("12345\U0001F52C"s, 8, false), "12345");
  EXPECT_EQ(text_of("1234\U0001F52C"s, 8), "1234\U0001F52C");
  EXPECT_EQ(text_of(std::string(20, '\x80'), 8, false), "") << "no character begins anywhere";
}

TEST(EncodeValue, ShortenedTextIsStillKnownToHaveBeenLonger) {
  Metadata metadata{{"long", std::string(1 << 20, 'x')}, {"full", std::string(1024, 'y')}};
  shorten_text(metadata);
  EXPECT_LT(std::get<std::string>(metadata[0].second).capacity(), 2048u);
  EXPECT_EQ(text_of(metadata[0].second, 1024, false), std::string(1024, 'x'));
  EXPECT_EQ(text_of(metadata[1].second, 1024), std::string(1024, 'y'));
}

TEST(EncodeValue, NumbersInATextColumnAreWrittenOut) {
  EXPECT_EQ(text_of(std::int64_t{-5}, 16), "-5");
  EXPECT_EQ(text_of(0.5, 16), "0.5");
}

TEST(EncodeValue, WhatIsNotToldIsNaNZeroOrEmpty) {
  std::byte bytes[8];
  double number = 0;
  EXPECT_TRUE(encode_value(nullptr, {"x", ElementType::f64}, bytes));
  std::memcpy(&number, bytes, 8);
  EXPECT_TRUE(std::isnan(number));
  const MetaValue text = "no number"s;
  EXPECT_FALSE(encode_value(&text, {"x", ElementType::i64}, bytes));
  EXPECT_EQ(std::to_integer<int>(bytes[0]), 0);
  std::memset(bytes, '?', 8);
  EXPECT_TRUE(encode_value(nullptr, {"x", ElementType::u8, 8}, bytes));
  EXPECT_EQ(std::to_integer<int>(bytes[7]), 0);
}

TEST(EncodeValue, SaysWhetherANumberIsKeptWhole) {
  std::byte bytes[8];
  const auto whole = [&](MetaValue value, ElementType type) { return encode_value(&value, {"x", type}, bytes); };
  EXPECT_TRUE(whole(2.0, ElementType::i64));
  EXPECT_FALSE(whole(2.5, ElementType::i64));
  EXPECT_TRUE(std::all_of(std::begin(bytes), std::end(bytes), [](std::byte b) { return b == std::byte{0}; }))
      << "2 would be taken for a value that came";
  EXPECT_FALSE(whole(std::int64_t{-1}, ElementType::u64));
  EXPECT_FALSE(whole(std::numeric_limits<std::uint64_t>::max(), ElementType::i64));
  EXPECT_FALSE(whole(std::numeric_limits<double>::quiet_NaN(), ElementType::i64));
  EXPECT_TRUE(whole(std::int64_t{-1}, ElementType::f64));
  constexpr auto exact_max = std::int64_t{1} << 53;
  EXPECT_TRUE(whole(-exact_max, ElementType::f64));
  EXPECT_FALSE(whole(exact_max + 1, ElementType::f64));
  EXPECT_TRUE(whole(std::numeric_limits<std::int64_t>::min(), ElementType::f64));
  EXPECT_FALSE(whole(std::numeric_limits<std::int64_t>::max(), ElementType::f64));
  EXPECT_FALSE(whole(std::numeric_limits<std::uint64_t>::max(), ElementType::f64));
}

}  // namespace
}  // namespace penstock::recorder
