#include "recover/contents.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace penstock::recover {
namespace {

constexpr std::uint8_t damaged = 2, dropped = 3, lost = 4;

}  // namespace

std::vector<Contents::Run> runs_of(const std::vector<std::uint64_t>& frames) {
  std::vector<Contents::Run> runs;
  for (const auto frame : frames) {
    if (!runs.empty() && runs.back().last + 1 == frame)
      runs.back().last = frame;
    else
      runs.push_back({frame, frame});
  }
  return runs;
}

Contents contents_of(const std::vector<std::uint64_t>& whole, Bytes states) {
  Contents contents;
  auto next = whole.begin();
  for (std::uint64_t frame = 0; frame < states.size(); ++frame) {
    next = std::find_if(next, whole.end(), [&](std::uint64_t there) { return there >= frame; });
    if (next != whole.end() && *next == frame) continue;
    const auto state = std::to_integer<std::uint8_t>(states[frame]);
    if (state == damaged) ++contents.damaged;
    if (state == dropped) ++contents.dropped;
    if (state == lost) ++contents.lost;
  }
  return contents;
}

nlohmann::json to_json(const Contents& contents) {
  auto datasets = nlohmann::json::array();
  for (const auto& runs : contents.datasets) {
    auto list = nlohmann::json::array();
    for (const auto& run : runs) list.push_back({run.first, run.last});
    datasets.push_back(std::move(list));
  }
  return {{"runs", datasets},
          {"stored_bytes", contents.stored_bytes},
          {"last_sequence", contents.last_sequence},
          {"last_received_ns", contents.last_received_ns},
          {"damaged", contents.damaged},
          {"dropped", contents.dropped},
          {"lost", contents.lost}};
}

}  // namespace penstock::recover
