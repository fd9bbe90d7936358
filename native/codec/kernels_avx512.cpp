#include "codec/kernels.hpp"

#if defined(__x86_64__)

#include "codec/lz4_decoder.hpp"
#include "codec/lz4_encoder.hpp"
#include "codec/transpose_avx512.hpp"

namespace penstock::codec {
namespace {

void transpose(const std::byte* elements, std::byte* planes, std::size_t count, std::size_t element_bytes) {
  std::size_t first = 0;
  switch (element_bytes) {
    case 1: first = transpose_strips<1>(elements, planes, count); break;
    case 2: first = transpose_strips<2>(elements, planes, count); break;
    case 4: first = transpose_strips<4>(elements, planes, count); break;
    case 8: first = transpose_strips<8>(elements, planes, count); break;
    default: break;
  }
  transpose_from(elements, planes, count, element_bytes, first);
}

void untranspose(const std::byte* planes, std::byte* elements, std::size_t count, std::size_t element_bytes) {
  std::size_t first = 0;
  switch (element_bytes) {
    case 1: first = untranspose_strips<1>(planes, elements, count); break;
    case 2: first = untranspose_strips<2>(planes, elements, count); break;
    case 4: first = untranspose_strips<4>(planes, elements, count); break;
    case 8: first = untranspose_strips<8>(planes, elements, count); break;
    default: break;
  }
  untranspose_from(planes, elements, count, element_bytes, first);
}

/// The remainders of 0, 1, 2 … by each offset up to 15.
struct alignas(64) PatternOrders {
  std::uint8_t at[16][64];
};

constexpr PatternOrders pattern_orders() {
  PatternOrders orders{};
  for (std::size_t offset = 1; offset < 16; ++offset)
    for (std::size_t i = 0; i < 64; ++i) orders.at[offset][i] = static_cast<std::uint8_t>(i % offset);
  return orders;
}

constexpr PatternOrders orders_of_offsets = pattern_orders();

struct Avx512Lz4 {
  static constexpr std::size_t width = 64;

  static std::uint64_t equal_mask(const std::byte* a, const std::byte* b) {
    return _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(a), _mm512_loadu_si512(b));
  }
  static std::size_t equal_bytes(const std::byte* a, const std::byte* b) { return _tzcnt_u64(~equal_mask(a, b)); }
  static std::size_t equal_bytes_before(const std::byte* a, const std::byte* b) {
    return _lzcnt_u64(~equal_mask(a - width, b - width));
  }
  static unsigned repeats(const std::byte* at) { return static_cast<unsigned>(_mm_popcnt_u64(equal_mask(at, at - 1))); }

  class Pattern {
   public:
    Pattern(const std::byte* to, std::size_t offset)
        : bytes_(_mm512_permutexvar_epi8(
              _mm512_load_si512(orders_of_offsets.at[offset]),
              _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(to - offset))))),
          period_(width - width % offset) {}
    std::size_t period() const { return period_; }
    void store(std::byte* to) const { _mm512_storeu_si512(to, bytes_); }

   private:
    __m512i bytes_;
    std::size_t period_;
  };
};

}  // namespace

const Kernels avx512_kernels{"avx512", transpose, untranspose, lz4_encode_with<Avx512Lz4>, lz4_decode_with<Avx512Lz4>};

}  // namespace penstock::codec

#endif
