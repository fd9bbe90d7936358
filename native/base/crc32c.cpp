#include "base/crc32c.hpp"

#include <isa-l/crc.h>

#include <algorithm>

namespace penstock {

std::uint32_t crc32c(Bytes data, std::uint32_t previous) {
  // The library takes the running register without the inversions, and a length in an int.
  constexpr std::size_t step_bytes = std::size_t{1} << 30;
  std::uint32_t state = ~previous;
  auto* at = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(data.data()));
  for (std::size_t left = data.size(); left > 0;) {
    const auto now = std::min(left, step_bytes);
    state = crc32_iscsi(at, static_cast<int>(now), state);
    at += now;
    left -= now;
  }
  return ~state;
}

}  // namespace penstock
