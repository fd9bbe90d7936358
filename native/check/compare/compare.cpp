#include "check/compare/compare.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace penstock::check {
namespace {

bool is_floating(ElementType type) { return type == ElementType::f32 || type == ElementType::f64; }

/// Holds every value of every element type exactly.
using Wide = long double;
static_assert(std::numeric_limits<Wide>::digits >= 64);

Wide load(ElementType type, const std::byte* from) {
  switch (type) {
    case ElementType::u8: return load_le<std::uint8_t>(from);
    case ElementType::u16: return load_le<std::uint16_t>(from);
    case ElementType::u32: return load_le<std::uint32_t>(from);
    case ElementType::u64: return static_cast<Wide>(load_le<std::uint64_t>(from));
    case ElementType::i8: return load_le<std::int8_t>(from);
    case ElementType::i16: return load_le<std::int16_t>(from);
    case ElementType::i32: return load_le<std::int32_t>(from);
    case ElementType::i64: return static_cast<Wide>(load_le<std::int64_t>(from));
    case ElementType::f32: return load_le<float>(from);
    case ElementType::f64: return load_le<double>(from);
  }
  return 0;
}

std::string text_of(ElementType type, const std::byte* from) {
  const auto value = load(type, from);
  if (is_floating(type)) return fmt::format("{}", static_cast<double>(value));
  return fmt::format("{:.0f}", value);
}

void note(ElementType expected_type, const std::byte* expected, ElementType actual_type, const std::byte* actual,
          std::uint64_t position, PixelDifferences& into) {
  ++into.count;
  if (into.first.size() < pixel_differences_kept)
    into.first.push_back({position, text_of(expected_type, expected), text_of(actual_type, actual)});
}

}  // namespace

void compare_pixels(ElementType expected_type, const std::byte* expected, ElementType actual_type,
                    const std::byte* actual, std::uint64_t count, std::uint64_t position, PixelDifferences& into) {
  const auto expected_bytes = size_of(expected_type);
  const auto actual_bytes = size_of(actual_type);
  const bool bits = expected_bytes == actual_bytes && is_floating(expected_type) == is_floating(actual_type);
  if (bits && std::memcmp(expected, actual, count * actual_bytes) == 0) return;
  for (std::uint64_t i = 0; i < count; ++i, expected += expected_bytes, actual += actual_bytes) {
    if (bits && std::memcmp(expected, actual, actual_bytes) == 0) continue;
    const auto a = load(expected_type, expected);
    const auto b = load(actual_type, actual);
    const bool both_nan = std::isnan(a) && std::isnan(b);
    if (both_nan || (!bits && a == b)) continue;
    note(expected_type, expected, actual_type, actual, position + i, into);
  }
}

}  // namespace penstock::check
