/// One frame as the bytes of an image file, as a detector's own server writes them. No I/O.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "frame/frame.hpp"
#include "frame/series.hpp"

namespace penstock::detector {

/// Adds the pixels in x-CBF_BYTE_OFFSET: each as its difference from the one before, in one byte, or
/// an escape and two, four or eight bytes. `pixels` are little-endian of `type`, which is an integer
/// type of at most 4 bytes.
void append_byte_offsets(ElementType type, Bytes pixels, std::vector<std::byte>& into);

/// A CBF with the mini header of PILATUS servers. `name` (file name without suffix) names the data
/// block. Replaces the contents of `into`.
Result<void> encode_cbf(const Series& series, const Frame& frame, const std::string& name,
                        std::vector<std::byte>& into);

/// A little-endian grey-scale TIFF without compression, of any integer or float type.
Result<void> encode_tiff(const Series& series, const Frame& frame, std::vector<std::byte>& into);

}  // namespace penstock::detector
