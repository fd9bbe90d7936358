/// Encodings that cut a chunk into blocks, transpose the bits of each and compress it: HDF5 filter
/// 32008 with LZ4 or zstd. framing.hpp has the bytes around the blocks.
#pragma once

#include "codec/codec.hpp"

namespace penstock::codec {

/// `block_bytes` and `level` of a CodecSpec with its defaults filled in; an error where the filter
/// could not hold them.
Result<CodecSpec> resolved_bitshuffle(const CodecSpec& spec, std::size_t element_bytes);

std::size_t bitshuffle_bound(const CodecSpec& resolved, std::size_t raw_bytes, std::size_t element_bytes);
Result<std::size_t> bitshuffle_encode(const CodecSpec& resolved, Bytes raw, std::size_t element_bytes,
                                      MutableBytes into, CodecScratch::Impl& scratch);
Result<void> bitshuffle_decode(Encoding encoding, Bytes encoded, std::size_t element_bytes, MutableBytes into,
                               CodecScratch::Impl& scratch);
Result<void> bitshuffle_check(Bytes encoded, std::size_t element_bytes, std::size_t raw_bytes);

}  // namespace penstock::codec
