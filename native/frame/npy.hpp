/// The header of a .npy file (NumPy's array format, versions 1 to 3).
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "frame/array.hpp"

namespace penstock {

/// A header is at most this long, without the 10 or 12 bytes in front of it.
constexpr std::size_t npy_header_bytes_max = 65536;
/// The start of a file that holds every valid header.
constexpr std::size_t npy_start_bytes = npy_header_bytes_max + 12;

struct NpyHeader {
  ArraySpec array;              ///< all dimensions; little-endian, in C order
  std::size_t data_offset = 0;  ///< where the array's bytes begin
};

/// Parses the start of a file: at least the header, or the whole file. No length is trusted before it was checked
/// against `file`. Returns `malformed`, `unsupported`, `too_large` or `truncated` with the field that is wrong.
Result<NpyHeader> parse_npy_header(Bytes file);

}  // namespace penstock
