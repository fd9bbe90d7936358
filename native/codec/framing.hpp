/// The framings around compressed blocks, as HDF5's filters 32008 (bitshuffle) and 32004 (lz4) store
/// them. Numbers are big-endian.
///
/// bitshuffle: u64 raw bytes, u32 block bytes; then for each block u32 length and that many bytes;
/// then up to 7 elements as they are. All blocks have `block_bytes` raw bytes but the last, which has
/// what is left, rounded down to whole groups of 8 elements.
/// lz4: u64 raw bytes, u32 block bytes; then for each block u32 length and that many bytes; a block
/// whose length equals its raw bytes is stored as it is. The last block is shorter.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace penstock::codec {

constexpr std::size_t frame_header_bytes = 12;
constexpr std::size_t length_bytes = 4;

/// How raw bytes are cut into blocks.
struct BlockPlan {
  std::uint64_t block_bytes = 0;
  std::uint64_t full_blocks = 0;
  std::uint64_t last_bytes = 0;      ///< of the short block at the end; 0 if there is none
  std::uint64_t leftover_bytes = 0;  ///< stored as they are after the last block

  std::uint64_t blocks() const { return full_blocks + (last_bytes != 0); }
  std::uint64_t bytes_of(std::uint64_t block) const { return block < full_blocks ? block_bytes : last_bytes; }
};

/// The block size of the bitshuffle filter where none is chosen: 8 KiB in whole groups of elements.
constexpr std::uint64_t default_block_bytes(std::size_t element_bytes) {
  return 8192 / (8 * element_bytes) * (8 * element_bytes);
}

BlockPlan bitshuffle_plan(std::uint64_t raw_bytes, std::uint64_t block_bytes, std::size_t element_bytes);
BlockPlan lz4_plan(std::uint64_t raw_bytes, std::uint64_t block_bytes);

/// Reads the header of a bitshuffle or lz4 framing that has to give `raw_bytes`.
Result<BlockPlan> read_bitshuffle_header(Bytes encoded, std::size_t element_bytes, std::uint64_t raw_bytes);
Result<BlockPlan> read_lz4_header(Bytes encoded, std::uint64_t raw_bytes);

/// The blocks of a framing one after another; every length is checked against what is there.
class BlockReader {
 public:
  /// `encoded` is the whole chunk, header included; it must outlive the reader.
  BlockReader(Bytes encoded, const BlockPlan& plan) : encoded_(encoded), plan_(plan) {}

  /// The next block's compressed bytes. At most plan.blocks() times.
  Result<Bytes> next();
  /// After the last block: exactly plan.leftover_bytes; an error where the chunk has more or less.
  Result<Bytes> leftover() const;

 private:
  Bytes encoded_;
  BlockPlan plan_;
  std::size_t at_ = frame_header_bytes;
  std::uint64_t block_ = 0;
};

void write_header(std::byte* to, std::uint64_t raw_bytes, std::uint32_t block_bytes);

}  // namespace penstock::codec
