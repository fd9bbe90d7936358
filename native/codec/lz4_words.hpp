/// The operations of the LZ4 coder on 8-byte words, for processors without a better variant.
/// Everything has internal linkage: the including files are compiled for different processors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace penstock::codec {
namespace {

struct Words {
  static constexpr std::size_t width = 8;

  static std::uint64_t difference(const std::byte* a, const std::byte* b) {
    std::uint64_t x;
    std::uint64_t y;
    std::memcpy(&x, a, sizeof x);
    std::memcpy(&y, b, sizeof y);
    return x ^ y;
  }

  /// Equal bytes from `a` and `b` on; at most width.
  static std::size_t equal_bytes(const std::byte* a, const std::byte* b) {
    const std::uint64_t x = difference(a, b);
    return x == 0 ? width : static_cast<std::size_t>(__builtin_ctzll(x)) / 8;
  }

  /// Equal bytes before `a` and `b`; at most some fixed number.
  static std::size_t equal_bytes_before(const std::byte* a, const std::byte* b) {
    const std::uint64_t x = difference(a - width, b - width);
    return x == 0 ? width : static_cast<std::size_t>(__builtin_clzll(x)) / 8;
  }

  /// How many of the 64 bytes from `at` on equal the one before them.
  static unsigned repeats(const std::byte* at) {
    unsigned count = 0;
    for (std::size_t i = 0; i < 64; ++i) count += at[i] == *(at + i - 1);
    return count;
  }

  /// The `offset` bytes (1 to 15) before `to` again and again.
  class Pattern {
   public:
    Pattern(const std::byte* to, std::size_t offset) : period_(sizeof bytes_ - sizeof bytes_ % offset) {
      std::memcpy(bytes_, to - offset, offset);
      for (std::size_t i = offset; i < sizeof bytes_; ++i) bytes_[i] = bytes_[i - offset];
    }
    std::size_t period() const { return period_; }
    void store(std::byte* to) const { std::memcpy(to, bytes_, sizeof bytes_); }

   private:
    std::byte bytes_[32];
    std::size_t period_;  ///< bytes of a store that count: a multiple of the offset
  };
};

}  // namespace
}  // namespace penstock::codec
