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

/// The largest block for lz4_encode: positions are kept in 16 bits.
constexpr std::size_t lz4_block_bytes_max = 65536;

/// What vectors may read or write before and after a block; its bytes there are rubbish.
constexpr std::size_t slack_bytes = 128;

/// The most bytes that lz4_encode gives for `bytes`; it may write slack_bytes more.
constexpr std::size_t lz4_bound(std::size_t bytes) { return bytes + bytes / 255 + 16; }

/// A compressed block [begin, end) in memory that can be read up to `readable_end`.
struct Lz4Block {
  const std::byte* begin;
  const std::byte* end;
  const std::byte* readable_end;
};

struct Kernels {
  const char* name;

  /// Bit planes of `count` elements (a multiple of 8): row 8·b + k holds bit k of byte b of each
  /// element, element i in bit i % 8 of the row's byte i / 8. Rows are count / 8 bytes.
  void (*transpose)(const std::byte* elements, std::byte* planes, std::size_t count, std::size_t element_bytes);
  /// The reverse.
  void (*untranspose)(const std::byte* planes, std::byte* elements, std::size_t count, std::size_t element_bytes);

  /// Compresses `bytes` (1 to lz4_block_bytes_max) bit planes, with slack_bytes readable before and
  /// after, into a block; returns its size. The bytes are the same for the same input and variant.
  /// `next` is where the next block will be read from; it is only fetched into the cache.
  std::size_t (*lz4_encode)(const std::byte* from, std::size_t bytes, std::byte* to, Lz4Table& table,
                            const std::byte* next);
  /// Expands a block to exactly `bytes`, with slack_bytes writable after; false if it is damaged or
  /// gives another size. `next` is where the bytes will be transposed to; it is only fetched into
  /// the cache.
  bool (*lz4_decode)(const Lz4Block& block, std::byte* to, std::size_t bytes, std::byte* next);
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
