#include "codec/kernels.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#include "codec/transpose_lanes.hpp"

namespace penstock::codec {
namespace {

struct Avx2 {
  using Type = __m256i;
  static constexpr std::size_t lanes = 2;

  static const __m128i* lane(const std::byte* from) { return reinterpret_cast<const __m128i*>(from); }
  static __m128i* lane(std::byte* to) { return reinterpret_cast<__m128i*>(to); }

  static Type load(const std::byte* from, std::size_t stride) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(lane(from))),
                                   _mm_loadu_si128(lane(from + stride)), 1);
  }
  static void store(Type v, std::byte* to, std::size_t stride) {
    _mm_storeu_si128(lane(to), _mm256_castsi256_si128(v));
    _mm_storeu_si128(lane(to + stride), _mm256_extracti128_si256(v, 1));
  }
  static Type even_bytes(Type a, Type b) {
    const Type mask = _mm256_set1_epi16(0xff);
    return _mm256_packus_epi16(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask));
  }
  static Type odd_bytes(Type a, Type b) {
    return _mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8));
  }
  static Type low_bytes(Type a, Type b) { return _mm256_unpacklo_epi8(a, b); }
  static Type high_bytes(Type a, Type b) { return _mm256_unpackhi_epi8(a, b); }
  static Type low_pairs(Type a, Type b) { return _mm256_unpacklo_epi16(a, b); }
  static Type high_pairs(Type a, Type b) { return _mm256_unpackhi_epi16(a, b); }
  static Type low_quads(Type a, Type b) { return _mm256_unpacklo_epi32(a, b); }
  static Type high_quads(Type a, Type b) { return _mm256_unpackhi_epi32(a, b); }
  static Type doubled(Type v) { return _mm256_add_epi8(v, v); }
  static std::uint32_t top_bits(Type v) { return static_cast<std::uint32_t>(_mm256_movemask_epi8(v)); }

  template <int shift>
  static Type swap_bits(Type x, long long mask) {
    const Type t = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, shift)), _mm256_set1_epi64x(mask));
    return _mm256_xor_si256(x, _mm256_xor_si256(t, _mm256_slli_epi64(t, shift)));
  }
  /// transpose_8x8() of each 8 bytes.
  static Type bits_8x8(Type x) {
    return swap_bits<28>(swap_bits<14>(swap_bits<7>(x, 0x00AA00AA00AA00AA), 0x0000CCCC0000CCCC), 0x00000000F0F0F0F0);
  }
};

}  // namespace

const Kernels avx2_kernels{"avx2", transpose_with<Avx2>, untranspose_with<Avx2>};

}  // namespace penstock::codec

#endif
