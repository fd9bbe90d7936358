/// The inner loops of the codec, in one variant for each family of processors.
///
/// A variant is a table of functions; all variants give the same transposed bytes, and LZ4 blocks
/// that every LZ4 decoder reads. The best one for this processor is chosen once. Functions are
/// stateless and safe from several threads; they allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::codec {

/// Where an LZ4 encoder remembers positions of four-byte words. One thread's; needs no clearing.
struct Lz4Table {
  static constexpr std::size_t bits = 12;
  std::uint16_t position[std::size_t{1} << bits];
};

/// The largest block for the LZ4 encoder of the kernels: positions are kept in 16 bits.
constexpr std::size_t lz4_block_bytes_max = 65536;
/// What lz4_decode may write beyond the end of a block, and the scratch memory must have.
constexpr std::size_t decode_slack_bytes = 128;

/// The most bytes that lz4_encode writes for `bytes`.
constexpr std::size_t lz4_bound(std::size_t bytes) { return bytes + bytes / 255 + 16; }

struct Kernels {
  const char* name;

  /// Bit planes of `count` elements (a multiple of 8): row 8·b + k holds bit k of byte b of each
  /// element, element i in bit i % 8 of the row's byte i / 8. Rows are count / 8 bytes.
  void (*transpose)(const std::byte* elements, std::byte* planes, std::size_t count, std::size_t element_bytes);
  /// The reverse.
  void (*untranspose)(const std::byte* planes, std::byte* elements, std::size_t count, std::size_t element_bytes);
};

/// The best variant that this processor runs.
const Kernels& kernels();

/// All variants that this processor runs, the portable one first.
std::span<const Kernels* const> supported_kernels();

extern const Kernels portable_kernels;
extern const Kernels sse2_kernels;
extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;

}  // namespace penstock::codec
