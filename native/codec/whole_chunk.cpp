#include "codec/whole_chunk.hpp"

#include <lz4.h>

#include <algorithm>

#include "codec/framing.hpp"
#include "codec/scratch.hpp"

namespace penstock::codec {
namespace {

/// What the lz4 filter takes where no block size is chosen.
constexpr std::uint64_t lz4_block_bytes = std::uint64_t{1} << 30;

const char* chars(const std::byte* bytes) { return reinterpret_cast<const char*>(bytes); }
char* chars(std::byte* bytes) { return reinterpret_cast<char*>(bytes); }

}  // namespace

Result<int> resolved_level(const CodecSpec& spec) {
  const bool zstd = spec.encoding == Encoding::zstd || spec.encoding == Encoding::bitshuffle_zstd;
  if (!zstd && spec.encoding != Encoding::deflate) return 0;
  const int level_max = zstd ? 19 : 9;
  const int level = spec.level == 0 ? 1 : spec.level;
  if (level < 1 || level > level_max)
    return make_error(Errc::invalid_argument, "level {} of {} must be 1 to {}", spec.level, name(spec.encoding),
                      level_max);
  return level;
}

Result<void> prepare_zstd_compressor(CodecScratch::Impl& scratch) {
  if (!scratch.zstd_compressor) scratch.zstd_compressor.reset(ZSTD_createCCtx());
  if (!scratch.zstd_compressor) return make_error(Errc::out_of_memory, "no memory for a zstd compressor");
  return {};
}

Result<void> prepare_zstd_decompressor(CodecScratch::Impl& scratch) {
  if (!scratch.zstd_decompressor) scratch.zstd_decompressor.reset(ZSTD_createDCtx());
  if (!scratch.zstd_decompressor) return make_error(Errc::out_of_memory, "no memory for a zstd decompressor");
  return {};
}

std::size_t lz4_chunk_bound(std::size_t raw_bytes) {
  const BlockPlan plan = lz4_plan(raw_bytes, lz4_block_bytes);
  return frame_header_bytes + plan.blocks() * (length_bytes + 16) + raw_bytes + raw_bytes / 255;
}

Result<std::size_t> lz4_chunk_encode(Bytes raw, MutableBytes into, CodecScratch::Impl& scratch) {
  // The filter stores the size of a single block as its block size.
  const std::uint64_t block_bytes = std::min<std::uint64_t>(lz4_block_bytes, raw.size());
  const BlockPlan plan = block_bytes == 0 ? BlockPlan{} : lz4_plan(raw.size(), block_bytes);
  std::byte* const state = scratch.lz4_state.at_least(static_cast<std::size_t>(LZ4_sizeofState()));
  if (state == nullptr) return make_error(Errc::out_of_memory, "no memory for the state of LZ4");
  write_header(into.data(), raw.size(), static_cast<std::uint32_t>(block_bytes));
  std::size_t at = frame_header_bytes;
  for (std::uint64_t block = 0; block < plan.blocks(); ++block) {
    const Bytes from = raw.subspan(block * block_bytes, plan.bytes_of(block));
    const MutableBytes to = into.subspan(at + length_bytes);
    const int room = static_cast<int>(std::min<std::size_t>(to.size(), LZ4_MAX_INPUT_SIZE));
    auto size = static_cast<std::size_t>(LZ4_compress_fast_extState(state, chars(from.data()), chars(to.data()),
                                                                    static_cast<int>(from.size()), room, 1));
    if (size == 0 || size >= from.size()) {
      std::memcpy(to.data(), from.data(), from.size());
      size = from.size();
    }
    store_be(into.data() + at, static_cast<std::uint32_t>(size));
    at += length_bytes + size;
  }
  return at;
}

Result<void> lz4_chunk_decode(Bytes encoded, MutableBytes into) {
  PEN_ASSIGN(const BlockPlan plan, read_lz4_header(encoded, into.size()));
  BlockReader reader(encoded, plan);
  std::size_t at = 0;
  for (std::uint64_t block = 0; block < plan.blocks(); ++block) {
    PEN_ASSIGN(const Bytes compressed, reader.next());
    const MutableBytes to = into.subspan(at, plan.bytes_of(block));
    if (compressed.size() == to.size()) {
      std::memcpy(to.data(), compressed.data(), to.size());
    } else if (compressed.size() > LZ4_MAX_INPUT_SIZE || to.size() > LZ4_MAX_INPUT_SIZE ||
               LZ4_decompress_safe(chars(compressed.data()), chars(to.data()), static_cast<int>(compressed.size()),
                                   static_cast<int>(to.size())) != static_cast<int>(to.size())) {
      return make_error(Errc::corrupt, "block {} of {} does not decode to {} bytes", block, plan.blocks(), to.size());
    }
    at += to.size();
  }
  PEN_TRY(reader.leftover());
  return {};
}

Result<void> lz4_chunk_check(Bytes encoded, std::size_t raw_bytes) {
  PEN_ASSIGN(const BlockPlan plan, read_lz4_header(encoded, raw_bytes));
  BlockReader reader(encoded, plan);
  for (std::uint64_t block = 0; block < plan.blocks(); ++block) PEN_TRY(reader.next());
  PEN_TRY(reader.leftover());
  return {};
}

std::size_t zstd_chunk_bound(std::size_t raw_bytes) { return ZSTD_compressBound(raw_bytes); }

Result<std::size_t> zstd_chunk_encode(int level, Bytes raw, MutableBytes into, CodecScratch::Impl& scratch) {
  PEN_TRY(prepare_zstd_compressor(scratch));
  const std::size_t size =
      ZSTD_compressCCtx(scratch.zstd_compressor.get(), into.data(), into.size(), raw.data(), raw.size(), level);
  if (ZSTD_isError(size)) return make_error(Errc::internal, "zstd: {}", ZSTD_getErrorName(size));
  return size;
}

Result<void> zstd_chunk_decode(Bytes encoded, MutableBytes into, CodecScratch::Impl& scratch) {
  PEN_TRY(prepare_zstd_decompressor(scratch));
  const std::size_t size =
      ZSTD_decompressDCtx(scratch.zstd_decompressor.get(), into.data(), into.size(), encoded.data(), encoded.size());
  if (ZSTD_isError(size)) return make_error(Errc::corrupt, "zstd: {}", ZSTD_getErrorName(size));
  if (size != into.size())
    return make_error(Errc::corrupt, "zstd frame decodes to {} bytes, expected {}", size, into.size());
  return {};
}

Result<void> zstd_chunk_check(Bytes encoded, std::size_t raw_bytes) {
  const unsigned long long claimed = ZSTD_getFrameContentSize(encoded.data(), encoded.size());
  if (claimed == ZSTD_CONTENTSIZE_ERROR) return make_error(Errc::corrupt, "chunk does not start with a zstd frame");
  // The filter sizes its memory by this field, so a frame without it could not be read back.
  if (claimed == ZSTD_CONTENTSIZE_UNKNOWN) return make_error(Errc::corrupt, "zstd frame lacks its content size");
  if (claimed != raw_bytes)
    return make_error(Errc::corrupt, "zstd frame claims {} raw bytes, expected {}", claimed, raw_bytes);
  const std::size_t size = ZSTD_findFrameCompressedSize(encoded.data(), encoded.size());
  if (ZSTD_isError(size)) return make_error(Errc::corrupt, "zstd: {}", ZSTD_getErrorName(size));
  if (size != encoded.size()) return make_error(Errc::corrupt, "{} bytes follow the zstd frame", encoded.size() - size);
  return {};
}

std::size_t deflate_chunk_bound(std::size_t raw_bytes) { return libdeflate_zlib_compress_bound(nullptr, raw_bytes); }

Result<std::size_t> deflate_chunk_encode(int level, Bytes raw, MutableBytes into, CodecScratch::Impl& scratch) {
  if (!scratch.deflate_compressor || scratch.deflate_level != level) {
    scratch.deflate_compressor.reset(libdeflate_alloc_compressor(level));
    scratch.deflate_level = level;
  }
  if (!scratch.deflate_compressor) return make_error(Errc::out_of_memory, "no memory for a deflate compressor");
  const std::size_t size =
      libdeflate_zlib_compress(scratch.deflate_compressor.get(), raw.data(), raw.size(), into.data(), into.size());
  if (size == 0) return make_error(Errc::internal, "{} bytes could not be deflated", raw.size());
  return size;
}

Result<void> deflate_chunk_decode(Bytes encoded, MutableBytes into, CodecScratch::Impl& scratch) {
  if (!scratch.deflate_decompressor) scratch.deflate_decompressor.reset(libdeflate_alloc_decompressor());
  if (!scratch.deflate_decompressor) return make_error(Errc::out_of_memory, "no memory for a deflate decompressor");
  std::size_t used = 0;
  const libdeflate_result result = libdeflate_zlib_decompress_ex(
      scratch.deflate_decompressor.get(), encoded.data(), encoded.size(), into.data(), into.size(), &used, nullptr);
  if (result != LIBDEFLATE_SUCCESS)
    return make_error(Errc::corrupt, "zlib stream of {} bytes does not decode to {} bytes", encoded.size(),
                      into.size());
  if (used != encoded.size())
    return make_error(Errc::corrupt, "{} bytes follow the zlib stream", encoded.size() - used);
  return {};
}

Result<void> deflate_chunk_check(Bytes encoded, std::size_t raw_bytes) {
  // Header 2, an empty deflate block 2, checksum 4.
  constexpr std::size_t stream_bytes_min = 8;
  if (encoded.size() < stream_bytes_min)
    return make_error(Errc::truncated, "zlib stream of {} bytes is too short", encoded.size());
  const auto header = load_be<std::uint16_t>(encoded.data());
  const bool deflate = (header >> 8 & 0x0f) == 8 && (header >> 12) <= 7;
  const bool preset_dictionary = (header & 0x20) != 0;
  if (!deflate || header % 31 != 0 || preset_dictionary)
    return make_error(Errc::corrupt, "chunk does not start with a zlib header: {:#06x}", header);
  // Deflate expands each byte to at most 1032.
  if (raw_bytes / 1032 > encoded.size())
    return make_error(Errc::corrupt, "zlib stream of {} bytes cannot hold {}", encoded.size(), raw_bytes);
  return {};
}

}  // namespace penstock::codec
