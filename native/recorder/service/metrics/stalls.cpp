#include "recorder/service/metrics/stalls.hpp"

#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

namespace penstock::recorder {

std::string sentence(const Stall& stall) {
  const auto size = stall.bytes > 0 ? fmt::format(" of {} bytes at {}", stall.bytes, stall.offset) : std::string();
  return fmt::format("{}{} of {} {} {:.1f} s (thread {})", name(stall.call), size, stall.file,
                     stall.over ? "returned after" : "has stalled for", stall.seconds, stall.thread);
}

CallWatch::Tell tell_stalls(Events& events, unsigned rank) {
  return [&events, rank](const Stall& stall) {
    spdlog::warn("stall: {}", sentence(stall));
    events.emit("stall", {{"call", name(stall.call)},
                          {"file", stall.file},
                          {"offset", stall.offset},
                          {"bytes", stall.bytes},
                          {"seconds", stall.seconds},
                          {"over", stall.over},
                          {"thread", stall.thread},
                          {"rank", rank}});
  };
}

}  // namespace penstock::recorder
