/// CRC-32C (Castagnoli; polynomial 0x1EDC6F41 reflected, as in RFC 3720 and in SSE 4.2).
#pragma once

#include "base/bytes.hpp"

namespace penstock {

/// The checksum of `data`; of several pieces by passing the result of the one before as `previous`.
/// crc32c("123456789") is 0xE3069283.
std::uint32_t crc32c(Bytes data, std::uint32_t previous = 0);

}  // namespace penstock
