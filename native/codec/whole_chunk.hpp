/// Encodings that hand the chunk to a library as it is: lz4 (HDF5 filter 32004, one block for up to
/// 1 GiB), zstd (32015, one frame with its content size) and deflate (1, one zlib stream).
#pragma once

#include "codec/codec.hpp"

namespace penstock::codec {

/// The level with its default filled in; an error where the encoding has no such level.
Result<int> resolved_level(const CodecSpec& spec);

Result<void> prepare_zstd_compressor(CodecScratch::Impl& scratch);
Result<void> prepare_zstd_decompressor(CodecScratch::Impl& scratch);

std::size_t lz4_chunk_bound(std::size_t raw_bytes);
Result<std::size_t> lz4_chunk_encode(Bytes raw, MutableBytes into, CodecScratch::Impl& scratch);
Result<void> lz4_chunk_decode(Bytes encoded, MutableBytes into);
Result<void> lz4_chunk_check(Bytes encoded, std::size_t raw_bytes);

std::size_t zstd_chunk_bound(std::size_t raw_bytes);
Result<std::size_t> zstd_chunk_encode(int level, Bytes raw, MutableBytes into, CodecScratch::Impl& scratch);
Result<void> zstd_chunk_decode(Bytes encoded, MutableBytes into, CodecScratch::Impl& scratch);
Result<void> zstd_chunk_check(Bytes encoded, std::size_t raw_bytes);

std::size_t deflate_chunk_bound(std::size_t raw_bytes);
Result<std::size_t> deflate_chunk_encode(int level, Bytes raw, MutableBytes into, CodecScratch::Impl& scratch);
Result<void> deflate_chunk_decode(Bytes encoded, MutableBytes into, CodecScratch::Impl& scratch);
Result<void> deflate_chunk_check(Bytes encoded, std::size_t raw_bytes);

}  // namespace penstock::codec
