/// How the bytes of a frame or chunk are encoded.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock {

/// Each encoding's bytes are what the HDF5 filter of the same meaning stores (docs/reference/format.md):
/// none; bitshuffle_lz4 and bitshuffle_zstd (filter 32008), lz4 (32004), zstd (32015), deflate (1).
enum class Encoding : std::uint8_t { none, bitshuffle_lz4, bitshuffle_zstd, lz4, zstd, deflate };

/// "none", "bslz4", "bszstd", "lz4", "zstd", "deflate"
std::string_view name(Encoding encoding);
std::optional<Encoding> encoding_of(std::string_view name);

}  // namespace penstock
