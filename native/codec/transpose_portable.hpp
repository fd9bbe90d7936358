/// The bit transposition in plain C++, from an element on: the reference of all variants, and what
/// does the last elements where the vectors of a variant do not fit any more.
///
/// Everything has internal linkage: the including files are compiled for different processors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace penstock::codec {
namespace {

/// Transposes an 8×8 bit matrix: bit j of byte i goes to bit i of byte j.
inline std::uint64_t transpose_8x8(std::uint64_t x) {
  std::uint64_t t = (x ^ (x >> 7)) & 0x00AA00AA00AA00AAu;
  x ^= t ^ (t << 7);
  t = (x ^ (x >> 14)) & 0x0000CCCC0000CCCCu;
  x ^= t ^ (t << 14);
  t = (x ^ (x >> 28)) & 0x00000000F0F0F0F0u;
  return x ^ t ^ (t << 28);
}

inline void transpose_from(const std::byte* elements, std::byte* planes, std::size_t count, std::size_t element_bytes,
                           std::size_t first) {
  const std::size_t row_bytes = count / 8;
  for (std::size_t group = first / 8; group < row_bytes; ++group) {
    for (std::size_t b = 0; b < element_bytes; ++b) {
      std::uint64_t x = 0;
      for (std::size_t i = 0; i < 8; ++i)
        x |= static_cast<std::uint64_t>(elements[(8 * group + i) * element_bytes + b]) << (8 * i);
      x = transpose_8x8(x);
      for (std::size_t k = 0; k < 8; ++k)
        planes[(8 * b + k) * row_bytes + group] = static_cast<std::byte>(x >> (8 * k));
    }
  }
}

inline void untranspose_from(const std::byte* planes, std::byte* elements, std::size_t count, std::size_t element_bytes,
                             std::size_t first) {
  const std::size_t row_bytes = count / 8;
  for (std::size_t group = first / 8; group < row_bytes; ++group) {
    for (std::size_t b = 0; b < element_bytes; ++b) {
      std::uint64_t x = 0;
      for (std::size_t k = 0; k < 8; ++k)
        x |= static_cast<std::uint64_t>(planes[(8 * b + k) * row_bytes + group]) << (8 * k);
      x = transpose_8x8(x);
      for (std::size_t i = 0; i < 8; ++i)
        elements[(8 * group + i) * element_bytes + b] = static_cast<std::byte>(x >> (8 * i));
    }
  }
}

}  // namespace
}  // namespace penstock::codec
