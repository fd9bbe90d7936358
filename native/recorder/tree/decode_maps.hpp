/// Masks, flat fields and tables of start messages.
#pragma once

#include <cstdint>
#include <functional>

#include "frame/series.hpp"

namespace penstock::recorder {

/// Masks and tables may come compressed; the file holds them plain. Those of a detector's elements are kept until the
/// series is closed: of `budget_bytes`, others use `used_bytes` already. What has no room, or cannot be decoded, is
/// left out, and `note` hears of it.
void decode_maps(Series& series, std::uint64_t budget_bytes, std::uint64_t used_bytes,
                 const std::function<void(const Error& what)>& note);

}  // namespace penstock::recorder
