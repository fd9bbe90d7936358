#include "codec/kernels.hpp"

#if defined(__x86_64__)

#include <emmintrin.h>

#include "codec/transpose_lanes.hpp"

namespace penstock::codec {
namespace {

struct Sse2 {
  using Type = __m128i;
  static constexpr std::size_t lanes = 1;

  static Type load(const std::byte* from, std::size_t) { return _mm_loadu_si128(reinterpret_cast<const Type*>(from)); }
  static void store(Type v, std::byte* to, std::size_t) { _mm_storeu_si128(reinterpret_cast<Type*>(to), v); }
  static Type even_bytes(Type a, Type b) {
    const Type mask = _mm_set1_epi16(0xff);
    return _mm_packus_epi16(_mm_and_si128(a, mask), _mm_and_si128(b, mask));
  }
  static Type odd_bytes(Type a, Type b) { return _mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8)); }
  static Type low_bytes(Type a, Type b) { return _mm_unpacklo_epi8(a, b); }
  static Type high_bytes(Type a, Type b) { return _mm_unpackhi_epi8(a, b); }
  static Type low_pairs(Type a, Type b) { return _mm_unpacklo_epi16(a, b); }
  static Type high_pairs(Type a, Type b) { return _mm_unpackhi_epi16(a, b); }
  static Type low_quads(Type a, Type b) { return _mm_unpacklo_epi32(a, b); }
  static Type high_quads(Type a, Type b) { return _mm_unpackhi_epi32(a, b); }
  static Type doubled(Type v) { return _mm_add_epi8(v, v); }
  static std::uint16_t top_bits(Type v) { return static_cast<std::uint16_t>(_mm_movemask_epi8(v)); }

  template <int shift>
  static Type swap_bits(Type x, long long mask) {
    const Type t = _mm_and_si128(_mm_xor_si128(x, _mm_srli_epi64(x, shift)), _mm_set1_epi64x(mask));
    return _mm_xor_si128(x, _mm_xor_si128(t, _mm_slli_epi64(t, shift)));
  }
  /// transpose_8x8() of each 8 bytes.
  static Type bits_8x8(Type x) {
    return swap_bits<28>(swap_bits<14>(swap_bits<7>(x, 0x00AA00AA00AA00AA), 0x0000CCCC0000CCCC), 0x00000000F0F0F0F0);
  }
};

}  // namespace

const Kernels sse2_kernels{"sse2", transpose_with<Sse2>, untranspose_with<Sse2>};

}  // namespace penstock::codec

#endif
