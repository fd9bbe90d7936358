#include "frame/array.hpp"

#include <fmt/ranges.h>

#include <array>
#include <utility>

namespace penstock {
namespace {

constexpr std::array<std::pair<ElementType, std::string_view>, 10> names{{
    {ElementType::u8, "uint8"},
    {ElementType::u16, "uint16"},
    {ElementType::u32, "uint32"},
    {ElementType::u64, "uint64"},
    {ElementType::i8, "int8"},
    {ElementType::i16, "int16"},
    {ElementType::i32, "int32"},
    {ElementType::i64, "int64"},
    {ElementType::f32, "float32"},
    {ElementType::f64, "float64"},
}};

}  // namespace

std::string_view name(ElementType type) {
  for (const auto& [candidate, text] : names)
    if (candidate == type) return text;
  return "unknown";
}

std::optional<ElementType> element_type_of(std::string_view text) {
  for (const auto& [type, candidate] : names)
    if (candidate == text) return type;
  return std::nullopt;
}

Result<std::uint64_t> ArraySpec::bytes(std::uint64_t limit_bytes) const {
  std::uint64_t total = size_of(type);
  for (const auto extent : shape) {
    if (extent == 0) return make_error(Errc::malformed, "shape [{}] has a dimension of 0", fmt::join(shape, ", "));
    if (extent > limit_bytes / total)
      return make_error(Errc::too_large, "shape [{}] of {} exceeds the limit of {} bytes", fmt::join(shape, ", "),
                        name(type), limit_bytes);
    total *= extent;
  }
  return total;
}

}  // namespace penstock
