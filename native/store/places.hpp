/// Where the chunks of a dataset go.
#pragma once

#include <cstdint>

namespace penstock::store {

enum class Placement {
  log,    ///< gathered into segments, which follow one another
  slots,  ///< each at a place of its own that follows from its number, as a segment of one chunk; holes between
};

/// Fixed places: `run` chunks are `step_bytes` apart, then the next run begins. Of Placement::log nothing counts.
struct Places {
  Placement placement = Placement::log;
  std::uint64_t address = 0;         ///< of the place of chunk 0
  std::uint64_t step_bytes = 0;      ///< from one place to the next
  std::uint64_t run = 0;             ///< chunks that follow one another; 0: all of them
  std::uint64_t run_step_bytes = 0;  ///< from one run to the next
  std::uint64_t place_bytes = 0;     ///< room at a place

  std::uint64_t address_of(std::uint64_t chunk) const {
    return run == 0 ? address + chunk * step_bytes : address + chunk / run * run_step_bytes + chunk % run * step_bytes;
  }
  bool operator==(const Places&) const = default;
};

}  // namespace penstock::store
