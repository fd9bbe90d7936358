#include "codec/bitshuffle.hpp"

#include <lz4.h>

#include <algorithm>

#include "codec/framing.hpp"
#include "codec/kernels.hpp"
#include "codec/scratch.hpp"
#include "codec/whole_chunk.hpp"

namespace penstock::codec {
namespace {

/// LZ4 counts in ints, and a block's planes are kept in scratch memory.
constexpr std::uint32_t block_bytes_max = 1u << 28;

bool known_element(std::size_t element_bytes) {
  return element_bytes == 1 || element_bytes == 2 || element_bytes == 4 || element_bytes == 8;
}

Result<void> check_element(std::size_t element_bytes) {
  if (known_element(element_bytes)) return {};
  return make_error(Errc::unsupported, "elements of {} bytes cannot be bit-transposed, only of 1, 2, 4 or 8",
                    element_bytes);
}

/// Memory for a block of bit planes, with slack on both sides; null where there is none.
std::byte* block_memory(CodecScratch::Impl& scratch, std::size_t bytes) {
  std::byte* const memory = scratch.planes.at_least(bytes + 2 * slack_bytes);
  return memory == nullptr ? nullptr : memory + slack_bytes;
}

/// Compresses one block of bit planes; 0 means that the library refused. `next` is what will be read
/// afterwards.
std::size_t compress_block(const CodecSpec& spec, Bytes planes, MutableBytes into, const std::byte* next,
                           CodecScratch::Impl& scratch) {
  if (spec.encoding == Encoding::bitshuffle_zstd) {
    const std::size_t size = ZSTD_compressCCtx(scratch.zstd_compressor.get(), into.data(), into.size(), planes.data(),
                                               planes.size(), spec.level);
    return ZSTD_isError(size) ? 0 : size;
  }
  if (planes.size() <= lz4_block_bytes_max)
    return kernels().lz4_encode(planes.data(), planes.size(), into.data(), scratch.table, next);
  std::byte* const state = scratch.lz4_state.at_least(static_cast<std::size_t>(LZ4_sizeofState()));
  if (state == nullptr) return 0;
  return static_cast<std::size_t>(LZ4_compress_fast_extState(
      state, reinterpret_cast<const char*>(planes.data()), reinterpret_cast<char*>(into.data()),
      static_cast<int>(planes.size()), static_cast<int>(std::min<std::size_t>(into.size(), INT32_MAX)), 1));
}

/// Expands a block that lies in `encoded`; `to` is where the pixels will be written afterwards.
bool decompress_block(Encoding encoding, Bytes block, Bytes encoded, MutableBytes planes, std::byte* to,
                      CodecScratch::Impl& scratch) {
  if (encoding == Encoding::bitshuffle_zstd)
    return ZSTD_decompressDCtx(scratch.zstd_decompressor.get(), planes.data(), planes.size(), block.data(),
                               block.size()) == planes.size();
  const Lz4Block lz4{block.data(), block.data() + block.size(), encoded.data() + encoded.size()};
  return kernels().lz4_decode(lz4, planes.data(), planes.size(), to);
}

std::size_t block_bound(Encoding encoding, std::size_t bytes) {
  return encoding == Encoding::bitshuffle_zstd ? ZSTD_compressBound(bytes) : lz4_bound(bytes);
}

}  // namespace

Result<CodecSpec> resolved_bitshuffle(const CodecSpec& spec, std::size_t element_bytes) {
  PEN_TRY(check_element(element_bytes));
  CodecSpec resolved = spec;
  if (spec.block_bytes == 0) resolved.block_bytes = static_cast<std::uint32_t>(default_block_bytes(element_bytes));
  if (resolved.block_bytes % (8 * element_bytes) != 0 || resolved.block_bytes > block_bytes_max)
    return make_error(Errc::invalid_argument, "block_bytes {} must be a multiple of {} and at most {}",
                      spec.block_bytes, 8 * element_bytes, block_bytes_max);
  if (spec.encoding == Encoding::bitshuffle_zstd) {
    PEN_ASSIGN(resolved.level, resolved_level(spec));
  }
  return resolved;
}

std::size_t bitshuffle_bound(const CodecSpec& resolved, std::size_t raw_bytes, std::size_t element_bytes) {
  const BlockPlan plan = bitshuffle_plan(raw_bytes, resolved.block_bytes, element_bytes);
  std::size_t bound = frame_header_bytes + plan.leftover_bytes + slack_bytes;
  bound += plan.full_blocks * (length_bytes + block_bound(resolved.encoding, plan.block_bytes));
  if (plan.last_bytes != 0) bound += length_bytes + block_bound(resolved.encoding, plan.last_bytes);
  return bound;
}

Result<std::size_t> bitshuffle_encode(const CodecSpec& resolved, Bytes raw, std::size_t element_bytes,
                                      MutableBytes into, CodecScratch::Impl& scratch) {
  const BlockPlan plan = bitshuffle_plan(raw.size(), resolved.block_bytes, element_bytes);
  const Kernels& kernel = kernels();
  std::byte* const planes = block_memory(scratch, std::min<std::size_t>(plan.block_bytes, raw.size()));
  if (planes == nullptr) return make_error(Errc::out_of_memory, "no memory for blocks of {} bytes", plan.block_bytes);
  if (resolved.encoding == Encoding::bitshuffle_zstd) PEN_TRY(prepare_zstd_compressor(scratch));

  write_header(into.data(), raw.size(), resolved.block_bytes);
  std::size_t at = frame_header_bytes;
  const std::byte* from = raw.data();
  for (std::uint64_t block = 0; block < plan.blocks(); ++block) {
    const std::size_t bytes = plan.bytes_of(block);
    kernel.transpose(from, planes, bytes / element_bytes, element_bytes);
    const std::size_t size =
        compress_block(resolved, {planes, bytes}, into.subspan(at + length_bytes), from + bytes, scratch);
    if (size == 0) return make_error(Errc::internal, "block {} could not be compressed", block);
    store_be(into.data() + at, static_cast<std::uint32_t>(size));
    at += length_bytes + size;
    from += bytes;
  }
  if (plan.leftover_bytes != 0) std::memcpy(into.data() + at, from, plan.leftover_bytes);
  return at + plan.leftover_bytes;
}

Result<void> bitshuffle_decode(Encoding encoding, Bytes encoded, std::size_t element_bytes, MutableBytes into,
                               CodecScratch::Impl& scratch) {
  PEN_TRY(check_element(element_bytes));
  PEN_ASSIGN(const BlockPlan plan, read_bitshuffle_header(encoded, element_bytes, into.size()));
  const Kernels& kernel = kernels();
  // Bounded by the caller's memory, whatever block size the header claims.
  std::byte* const planes = block_memory(scratch, std::min<std::size_t>(plan.block_bytes, into.size()));
  if (planes == nullptr) return make_error(Errc::out_of_memory, "no memory for blocks of {} bytes", plan.block_bytes);
  if (encoding == Encoding::bitshuffle_zstd) PEN_TRY(prepare_zstd_decompressor(scratch));

  BlockReader reader(encoded, plan);
  std::byte* to = into.data();
  for (std::uint64_t block = 0; block < plan.blocks(); ++block) {
    PEN_ASSIGN(const Bytes compressed, reader.next());
    const std::size_t bytes = plan.bytes_of(block);
    if (!decompress_block(encoding, compressed, encoded, {planes, bytes}, to, scratch))
      return make_error(Errc::corrupt, "block {} of {} does not decode to {} bytes", block, plan.blocks(), bytes);
    kernel.untranspose(planes, to, bytes / element_bytes, element_bytes);
    to += bytes;
  }
  PEN_ASSIGN(const Bytes leftover, reader.leftover());
  if (!leftover.empty()) std::memcpy(to, leftover.data(), leftover.size());
  return {};
}

Result<void> bitshuffle_check(Bytes encoded, std::size_t element_bytes, std::size_t raw_bytes) {
  PEN_TRY(check_element(element_bytes));
  PEN_ASSIGN(const BlockPlan plan, read_bitshuffle_header(encoded, element_bytes, raw_bytes));
  BlockReader reader(encoded, plan);
  for (std::uint64_t block = 0; block < plan.blocks(); ++block) PEN_TRY(reader.next());
  PEN_TRY(reader.leftover());
  return {};
}

}  // namespace penstock::codec
