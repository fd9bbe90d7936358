/// Element types and array shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace penstock {

enum class ElementType : std::uint8_t { u8, u16, u32, u64, i8, i16, i32, i64, f32, f64 };

constexpr std::size_t size_of(ElementType type) {
  switch (type) {
    case ElementType::u8:
    case ElementType::i8: return 1;
    case ElementType::u16:
    case ElementType::i16: return 2;
    case ElementType::u32:
    case ElementType::i32:
    case ElementType::f32: return 4;
    case ElementType::u64:
    case ElementType::i64:
    case ElementType::f64: return 8;
  }
  return 0;
}

/// numpy's names: "uint16", "int32", "float32" …
std::string_view name(ElementType type);
std::optional<ElementType> element_type_of(std::string_view name);

/// Type and shape of an array in row-major order; the last dimension runs fastest.
struct ArraySpec {
  ElementType type = ElementType::u16;
  std::vector<std::uint64_t> shape;

  bool operator==(const ArraySpec&) const = default;
  /// Product of shape and element size; an error where it exceeds `limit_bytes` or a dimension is 0.
  Result<std::uint64_t> bytes(std::uint64_t limit_bytes) const;
};

}  // namespace penstock
