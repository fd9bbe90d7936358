/// The bit transposition with vectors of one or two lanes of 16 bytes.
///
/// `V` wraps the vector: all its operations work inside a lane, so that 16·V::lanes elements are
/// done at once, each lane as SSE2 would do its 16. Everything has internal linkage: the including
/// files are compiled for different processors.
#pragma once

#include <cstddef>

#include "codec/transpose_portable.hpp"

namespace penstock::codec {
namespace {

/// Splits vectors of whole elements into one vector a byte of the element: `v` holds 16 elements a
/// lane of E bytes in E vectors; after it, v[b] holds byte b of all of them.
template <typename V, std::size_t E>
inline void split_bytes(typename V::Type* v) {
  if constexpr (E > 1) {
    typename V::Type even[E / 2];
    typename V::Type odd[E / 2];
    for (std::size_t i = 0; i < E / 2; ++i) {
      even[i] = V::even_bytes(v[2 * i], v[2 * i + 1]);
      odd[i] = V::odd_bytes(v[2 * i], v[2 * i + 1]);
    }
    split_bytes<V, E / 2>(even);
    split_bytes<V, E / 2>(odd);
    for (std::size_t i = 0; i < E / 2; ++i) {
      v[2 * i] = even[i];
      v[2 * i + 1] = odd[i];
    }
  }
}

/// The reverse.
template <typename V, std::size_t E>
inline void join_bytes(typename V::Type* v) {
  if constexpr (E > 1) {
    typename V::Type even[E / 2];
    typename V::Type odd[E / 2];
    for (std::size_t i = 0; i < E / 2; ++i) {
      even[i] = v[2 * i];
      odd[i] = v[2 * i + 1];
    }
    join_bytes<V, E / 2>(even);
    join_bytes<V, E / 2>(odd);
    for (std::size_t i = 0; i < E / 2; ++i) {
      v[2 * i] = V::low_bytes(even[i], odd[i]);
      v[2 * i + 1] = V::high_bytes(even[i], odd[i]);
    }
  }
}

template <typename V, std::size_t E>
inline void transpose_lanes(const std::byte* elements, std::byte* planes, std::size_t count) {
  constexpr std::size_t step = 16 * V::lanes;
  const std::size_t row_bytes = count / 8;
  std::size_t i = 0;
  for (; i + step <= count; i += step) {
    typename V::Type v[E];
    // Lane l gets the 16 elements from i + 16·l on.
    for (std::size_t e = 0; e < E; ++e) v[e] = V::load(elements + i * E + 16 * e, 16 * E);
    split_bytes<V, E>(v);
    for (std::size_t b = 0; b < E; ++b) {
      for (std::size_t k = 8; k-- > 0;) {
        const auto bits = V::top_bits(v[b]);
        std::memcpy(planes + (8 * b + k) * row_bytes + i / 8, &bits, sizeof bits);
        v[b] = V::doubled(v[b]);
      }
    }
  }
  transpose_from(elements, planes, count, E, i);
}

/// Eight rows of 16 bytes a lane to elements' bytes: out[j] of a lane holds elements 16·j to 16·j + 15.
template <typename V>
inline void untranspose_byte(const std::byte* rows, std::size_t row_bytes, typename V::Type* out) {
  using Type = typename V::Type;
  Type r[8];
  for (std::size_t k = 0; k < 8; ++k) r[k] = V::load(rows + k * row_bytes, 16);
  // Bytes of the eight rows side by side: an 8×16 to 16×8 transposition by interleaving.
  Type s[8];
  for (std::size_t k = 0; k < 4; ++k) {
    s[2 * k] = V::low_bytes(r[2 * k], r[2 * k + 1]);
    s[2 * k + 1] = V::high_bytes(r[2 * k], r[2 * k + 1]);
  }
  Type t[8];
  for (std::size_t half = 0; half < 2; ++half) {
    for (std::size_t side = 0; side < 2; ++side) {
      t[4 * half + 2 * side] = V::low_pairs(s[4 * half + side], s[4 * half + 2 + side]);
      t[4 * half + 2 * side + 1] = V::high_pairs(s[4 * half + side], s[4 * half + 2 + side]);
    }
  }
  for (std::size_t j = 0; j < 4; ++j) {
    out[2 * j] = V::bits_8x8(V::low_quads(t[j], t[4 + j]));
    out[2 * j + 1] = V::bits_8x8(V::high_quads(t[j], t[4 + j]));
  }
}

template <typename V, std::size_t E>
inline void untranspose_lanes(const std::byte* planes, std::byte* elements, std::size_t count) {
  constexpr std::size_t step = 128 * V::lanes;  // 16 bytes of a row in each lane
  const std::size_t row_bytes = count / 8;
  std::size_t i = 0;
  for (; i + step <= count; i += step) {
    typename V::Type bytes[E][8];
    for (std::size_t b = 0; b < E; ++b) untranspose_byte<V>(planes + 8 * b * row_bytes + i / 8, row_bytes, bytes[b]);
    for (std::size_t j = 0; j < 8; ++j) {
      typename V::Type v[E];
      for (std::size_t b = 0; b < E; ++b) v[b] = bytes[b][j];
      join_bytes<V, E>(v);
      for (std::size_t e = 0; e < E; ++e) V::store(v[e], elements + (i + 16 * j) * E + 16 * e, 128 * E);
    }
  }
  untranspose_from(planes, elements, count, E, i);
}

template <typename V>
void transpose_with(const std::byte* elements, std::byte* planes, std::size_t count, std::size_t element_bytes) {
  switch (element_bytes) {
    case 1: return transpose_lanes<V, 1>(elements, planes, count);
    case 2: return transpose_lanes<V, 2>(elements, planes, count);
    case 4: return transpose_lanes<V, 4>(elements, planes, count);
    case 8: return transpose_lanes<V, 8>(elements, planes, count);
    default: return transpose_from(elements, planes, count, element_bytes, 0);
  }
}

template <typename V>
void untranspose_with(const std::byte* planes, std::byte* elements, std::size_t count, std::size_t element_bytes) {
  switch (element_bytes) {
    case 1: return untranspose_lanes<V, 1>(planes, elements, count);
    case 2: return untranspose_lanes<V, 2>(planes, elements, count);
    case 4: return untranspose_lanes<V, 4>(planes, elements, count);
    case 8: return untranspose_lanes<V, 8>(planes, elements, count);
    default: return untranspose_from(planes, elements, count, element_bytes, 0);
  }
}

}  // namespace
}  // namespace penstock::codec
