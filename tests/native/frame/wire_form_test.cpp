#include "frame/wire_form.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace penstock {
namespace {

template <typename T>
std::vector<T> made_right(const WireForm& form, const ArraySpec& spec, const std::vector<std::byte>& sent) {
  std::uint64_t count = 1;
  for (const auto extent : spec.shape) count *= extent;
  std::vector<T> values(count);
  straighten(form, spec, sent, std::as_writable_bytes(std::span(values)));
  return values;
}

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values, bool big_endian) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  if (big_endian)
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(T))
      std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                   bytes.begin() + static_cast<std::ptrdiff_t>(i + sizeof(T)));
  return bytes;
}

/// Each element in turn, by the definition of column-major order.
template <typename T>
std::vector<T> in_columns(const std::vector<std::uint64_t>& shape, const std::vector<T>& rows) {
  std::vector<T> columns(rows.size());
  for (std::size_t at = 0; at < rows.size(); ++at) {
    std::uint64_t rest = at, place = 0;
    std::vector<std::uint64_t> index(shape.size());
    for (auto i = shape.size(); i-- > 0; rest /= shape[i]) index[i] = rest % shape[i];
    for (auto i = shape.size(); i-- > 0;) place = place * shape[i] + index[i];
    columns[place] = rows[at];
  }
  return columns;
}

template <typename T>
class Elements : public ::testing::Test {};
using Types = ::testing::Types<std::uint8_t, std::uint16_t, std::int32_t, std::uint64_t>;
TYPED_TEST_SUITE(Elements, Types);

template <typename T>
constexpr ElementType type_for() {
  if constexpr (sizeof(T) == 1) return ElementType::u8;
  if constexpr (sizeof(T) == 2) return ElementType::u16;
  if constexpr (sizeof(T) == 4) return ElementType::i32;
  return ElementType::u64;
}

TYPED_TEST(Elements, ComeRightFromEveryOrder) {
  for (const std::vector<std::uint64_t>& shape :
       {std::vector<std::uint64_t>{7}, {3, 5}, {65, 34}, {4, 3, 5}, {2, 3, 4, 5}}) {
    std::size_t count = 1;
    for (const auto extent : shape) count *= extent;
    std::vector<TypeParam> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<TypeParam>(0x0102030405060708ULL * (i + 1));
    for (const bool big_endian : {false, true})
      for (const bool column_major : {false, true}) {
        const WireForm form{big_endian, column_major, false};
        const auto sent = bytes_of(column_major ? in_columns(shape, values) : values, big_endian);
        EXPECT_EQ(made_right<TypeParam>(form, {type_for<TypeParam>(), shape}, sent), values)
            << shape.size() << " dimensions, " << big_endian << column_major;
      }
  }
}

TEST(WireForm, HalfFloatsBecomeSinglesOfTheSameValue) {
  // Every one of them: value by the format's definition.
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  for (const bool big_endian : {false, true}) {
    const auto singles =
        made_right<float>({big_endian, false, true}, {ElementType::f32, {65536}}, bytes_of(halves, big_endian));
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const int exponent = (halves[i] >> 10) & 31, fraction = halves[i] & 1023;
      double expected = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      if (exponent == 31) expected = fraction == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
      if ((halves[i] & 0x8000) != 0) expected = -expected;
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(singles[i])) << i;
      else
        EXPECT_EQ(static_cast<double>(singles[i]), expected) << i;
    }
  }
}

}  // namespace
}  // namespace penstock
