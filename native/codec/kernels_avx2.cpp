#include "codec/kernels.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#include "codec/lz4_decoder.hpp"
#include "codec/lz4_encoder.hpp"
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

/// The remainders of 0, 1, 2 … by each offset up to 15.
struct alignas(32) PatternOrders {
  std::uint8_t at[16][32];
};

constexpr PatternOrders pattern_orders() {
  PatternOrders orders{};
  for (std::size_t offset = 1; offset < 16; ++offset)
    for (std::size_t i = 0; i < 32; ++i) orders.at[offset][i] = static_cast<std::uint8_t>(i % offset);
  return orders;
}

constexpr PatternOrders orders_of_offsets = pattern_orders();

struct Avx2Lz4 {
  static constexpr std::size_t width = 32;

  static __m256i load(const std::byte* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
  static unsigned equal_mask(const std::byte* a, const std::byte* b) {
    return static_cast<unsigned>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(load(a), load(b))));
  }
  static std::size_t equal_bytes(const std::byte* a, const std::byte* b) { return _tzcnt_u32(~equal_mask(a, b)); }
  static std::size_t equal_bytes_before(const std::byte* a, const std::byte* b) {
    return _lzcnt_u32(~equal_mask(a - width, b - width));
  }
  static unsigned repeats(const std::byte* at) {
    return static_cast<unsigned>(_mm_popcnt_u32(equal_mask(at, at - 1)) +
                                 _mm_popcnt_u32(equal_mask(at + width, at + width - 1)));
  }

  class Pattern {
   public:
    Pattern(const std::byte* to, std::size_t offset)
        : bytes_(_mm256_shuffle_epi8(
              _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(to - offset))),
              _mm256_load_si256(reinterpret_cast<const __m256i*>(orders_of_offsets.at[offset])))),
          period_(width - width % offset) {}
    std::size_t period() const { return period_; }
    void store(std::byte* to) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes_); }

   private:
    __m256i bytes_;
    std::size_t period_;
  };
};

}  // namespace

const Kernels avx2_kernels{"avx2", transpose_with<Avx2>, untranspose_with<Avx2>, lz4_encode_with<Avx2Lz4>,
                           lz4_decode_with<Avx2Lz4>};

}  // namespace penstock::codec

#endif
