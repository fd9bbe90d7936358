#include "codec/kernels.hpp"

#if defined(__x86_64__)

#include <emmintrin.h>

#include "codec/lz4_decoder.hpp"
#include "codec/lz4_encoder.hpp"
#include "codec/lz4_words.hpp"
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

struct Sse2Lz4 : Words {
  static constexpr std::size_t width = 16;

  static unsigned equal_mask(const std::byte* a, const std::byte* b) {
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(Sse2::load(a, 0), Sse2::load(b, 0))));
  }
  static std::size_t equal_bytes(const std::byte* a, const std::byte* b) {
    return static_cast<std::size_t>(__builtin_ctz(~equal_mask(a, b)));
  }
  static std::size_t equal_bytes_before(const std::byte* a, const std::byte* b) {
    // The lowest bit that is set ends the count after 16 equal bytes.
    return static_cast<std::size_t>(__builtin_clz((~equal_mask(a - width, b - width) << 16) | 0x8000u));
  }
  static unsigned repeats(const std::byte* at) {
    int count = 0;
    for (std::size_t i = 0; i < 64; i += width) count += __builtin_popcount(equal_mask(at + i, at + i - 1));
    return static_cast<unsigned>(count);
  }
};

}  // namespace

const Kernels sse2_kernels{"sse2", transpose_with<Sse2>, untranspose_with<Sse2>, lz4_encode_with<Sse2Lz4>,
                           lz4_decode_with<Sse2Lz4>};

}  // namespace penstock::codec

#endif
