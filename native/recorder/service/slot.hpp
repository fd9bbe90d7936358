/// What belongs to the name of a series beside its state, which the registry has: its file, and what waits for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "recorder/series/series_file.hpp"
#include "recorder/service/line.hpp"

namespace penstock::recorder {

struct Slot {
  std::shared_ptr<SeriesFile> file;   ///< until it is closed
  std::vector<std::string> channels;  ///< of a series whose file is not there yet
  Line line;                          ///< its start and what came behind that, unless it waits at another rank
  bool has_line = false;              ///< something waits, or is just being presented
  std::uint64_t refused = 0;          ///< events that found no room in the line
};

}  // namespace penstock::recorder
