/// Pixels in a gzip file, two in a byte.
///
/// A gzip file may say itself which bits mean which byte. Where 15 differences of pixels, from -7 to 7, have codes of
/// four bits each, random bytes are an image, as long as none of their halves is the one code that is left, 0xF, and
/// the checksum behind them fits. It is a CRC-32, which is linear: what changes in the pixels says what changes in it,
/// so that a frame costs a look at its stamps, and not at all of its pixels.
#pragma once

#include <cstdint>

#include "base/bytes.hpp"

namespace penstock::load {

/// Makes codes of any bytes.
void make_codes(MutableBytes packed);

/// What the pixels add to the checksum of the unpacked file, in which so many bytes follow them: where they are others,
/// it changes by the exclusive or of both.
std::uint32_t crc_of_codes(Bytes packed, std::uint64_t bytes_after);
/// The same of the first eight bytes of each sector alone.
std::uint32_t crc_of_stamps(Bytes packed, std::uint64_t bytes_after);

}  // namespace penstock::load
