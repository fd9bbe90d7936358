/// Why a series ended, as reported to its file, the event series_end and its senders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock::series {

enum class EndedBy : std::uint8_t {
  message,    ///< its source said so
  new_start,  ///< its source began another series, and had not said so
  count,      ///< every announced frame was there, and its source did not say so
  silence,    ///< no frame came for end_after_s
  command,    ///< a user requested it
  room,       ///< another series needed its file
  stop,       ///< the recorder was stopped
  failure,    ///< its file was removed or replaced, or the storage failed for too long
};

constexpr std::string_view name(EndedBy why) {
  constexpr std::string_view names[] = {"message", "new_start", "count", "silence",
                                        "command", "room",      "stop",  "failure"};
  return names[static_cast<std::size_t>(why)];
}

}  // namespace penstock::series
