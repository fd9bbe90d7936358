/// The bit transposition with AVX-512 byte permutations and the Galois field instructions, 512
/// elements at a time.
///
/// The work is cut into units: one byte of each of 64 elements, eight elements in each 8 bytes,
/// last element first. GF2P8AFFINEQB with the data as its matrix and the unit vectors as its
/// argument transposes the 8×8 bits of each 8 bytes. What is left is moving bytes: between elements
/// and units, and between the units of 8 × 64 elements and rows of 64 bytes. Everything has internal
/// linkage.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "codec/transpose_portable.hpp"

namespace penstock::codec {
namespace {

struct alignas(64) ByteOrder {
  std::uint8_t at[64];
  __m512i load() const { return _mm512_load_si512(at); }
};

/// Elements as they lie in 64 bytes → byte b of all of them after byte b - 1; groups of eight reversed.
template <std::size_t E>
constexpr ByteOrder split_order() {
  ByteOrder order{};
  for (std::size_t p = 0; p < 64; ++p) {
    const std::size_t b = p / (64 / E);
    const std::size_t w = p % (64 / E);
    order.at[p] = static_cast<std::uint8_t>((w / 8 * 8 + 7 - w % 8) * E + b);
  }
  return order;
}

/// The reverse, of groups that are not reversed.
template <std::size_t E>
constexpr ByteOrder join_order() {
  ByteOrder order{};
  for (std::size_t p = 0; p < 64; ++p) order.at[p] = static_cast<std::uint8_t>(p % E * (64 / E) + p / E);
  return order;
}

/// An 8×8 matrix of bytes transposed; `reversed` also turns the result's rows round.
constexpr ByteOrder matrix_order(bool reversed) {
  ByteOrder order{};
  for (std::size_t p = 0; p < 64; ++p)
    order.at[p] = static_cast<std::uint8_t>((reversed ? 7 - p % 8 : p % 8) * 8 + p / 8);
  return order;
}

template <std::size_t E>
constexpr ByteOrder split_bytes_order = split_order<E>();
template <std::size_t E>
constexpr ByteOrder join_bytes_order = join_order<E>();
constexpr ByteOrder rows_order = matrix_order(false);
constexpr ByteOrder groups_order = matrix_order(true);

inline __m512i bits_8x8(__m512i reversed) {
  return _mm512_gf2p8affine_epi64_epi8(_mm512_set1_epi64(static_cast<long long>(0x8040201008040201u)), reversed, 0);
}

template <std::size_t E>
inline void swap_parts(__m512i* v);

template <>
inline void swap_parts<1>(__m512i*) {}

/// Two vectors of two halves, transposed.
template <>
inline void swap_parts<2>(__m512i* v) {
  const __m512i low = _mm512_shuffle_i64x2(v[0], v[1], 0x44);
  v[1] = _mm512_shuffle_i64x2(v[0], v[1], 0xee);
  v[0] = low;
}

/// Four vectors of four quarters, transposed.
template <>
inline void swap_parts<4>(__m512i* v) {
  const __m512i a = _mm512_shuffle_i64x2(v[0], v[1], 0x44);
  const __m512i b = _mm512_shuffle_i64x2(v[0], v[1], 0xee);
  const __m512i c = _mm512_shuffle_i64x2(v[2], v[3], 0x44);
  const __m512i d = _mm512_shuffle_i64x2(v[2], v[3], 0xee);
  v[0] = _mm512_shuffle_i64x2(a, c, 0x88);
  v[1] = _mm512_shuffle_i64x2(a, c, 0xdd);
  v[2] = _mm512_shuffle_i64x2(b, d, 0x88);
  v[3] = _mm512_shuffle_i64x2(b, d, 0xdd);
}

/// Eight vectors of eight 8-byte words, transposed.
template <>
inline void swap_parts<8>(__m512i* v) {
  __m512i even[4];
  __m512i odd[4];
  for (std::size_t i = 0; i < 4; ++i) {
    even[i] = _mm512_unpacklo_epi64(v[2 * i], v[2 * i + 1]);
    odd[i] = _mm512_unpackhi_epi64(v[2 * i], v[2 * i + 1]);
  }
  for (std::size_t side = 0; side < 2; ++side) {
    const __m512i* pair = side == 0 ? even : odd;
    const __m512i a = _mm512_shuffle_i64x2(pair[0], pair[1], 0x88);
    const __m512i b = _mm512_shuffle_i64x2(pair[0], pair[1], 0xdd);
    const __m512i c = _mm512_shuffle_i64x2(pair[2], pair[3], 0x88);
    const __m512i d = _mm512_shuffle_i64x2(pair[2], pair[3], 0xdd);
    v[side] = _mm512_shuffle_i64x2(a, c, 0x88);
    v[4 + side] = _mm512_shuffle_i64x2(a, c, 0xdd);
    v[2 + side] = _mm512_shuffle_i64x2(b, d, 0x88);
    v[6 + side] = _mm512_shuffle_i64x2(b, d, 0xdd);
  }
}

constexpr std::size_t strip_elements = 512;

/// Does whole strips and returns the first element that is left.
template <std::size_t E>
inline std::size_t transpose_strips(const std::byte* elements, std::byte* planes, std::size_t count) {
  const std::size_t row_bytes = count / 8;
  const __m512i split = split_bytes_order<E>.load();
  const __m512i to_rows = rows_order.load();
  std::size_t first = 0;
  for (; first + strip_elements <= count; first += strip_elements) {
    __m512i units[E][8];
    for (std::size_t g = 0; g < 8; ++g) {
      __m512i v[E];
      const std::byte* from = elements + (first + 64 * g) * E;
      for (std::size_t e = 0; e < E; ++e) v[e] = _mm512_permutexvar_epi8(split, _mm512_loadu_si512(from + 64 * e));
      swap_parts<E>(v);
      for (std::size_t b = 0; b < E; ++b) units[b][g] = _mm512_permutexvar_epi8(to_rows, bits_8x8(v[b]));
    }
    for (std::size_t b = 0; b < E; ++b) {
      __m512i v[8];
      for (std::size_t g = 0; g < 8; ++g) v[g] = units[b][g];
      swap_parts<8>(v);
      std::byte* to = planes + 8 * b * row_bytes + first / 8;
      for (std::size_t k = 0; k < 8; ++k) _mm512_storeu_si512(to + k * row_bytes, v[k]);
    }
  }
  return first;
}

template <std::size_t E>
inline std::size_t untranspose_strips(const std::byte* planes, std::byte* elements, std::size_t count) {
  const std::size_t row_bytes = count / 8;
  const __m512i join = join_bytes_order<E>.load();
  const __m512i to_groups = groups_order.load();
  std::size_t first = 0;
  for (; first + strip_elements <= count; first += strip_elements) {
    __m512i units[8][E];
    for (std::size_t b = 0; b < E; ++b) {
      __m512i v[8];
      const std::byte* from = planes + 8 * b * row_bytes + first / 8;
      for (std::size_t k = 0; k < 8; ++k) v[k] = _mm512_loadu_si512(from + k * row_bytes);
      swap_parts<8>(v);
      for (std::size_t g = 0; g < 8; ++g) units[g][b] = bits_8x8(_mm512_permutexvar_epi8(to_groups, v[g]));
    }
    for (std::size_t g = 0; g < 8; ++g) {
      __m512i v[E];
      for (std::size_t b = 0; b < E; ++b) v[b] = units[g][b];
      swap_parts<E>(v);
      std::byte* to = elements + (first + 64 * g) * E;
      for (std::size_t e = 0; e < E; ++e) _mm512_storeu_si512(to + 64 * e, _mm512_permutexvar_epi8(join, v[e]));
    }
  }
  return first;
}

}  // namespace
}  // namespace penstock::codec
