#include <nlohmann/json.hpp>

#include "recover/contents.hpp"
#include "recover/recover.hpp"

namespace penstock::recover {
namespace {

const char* name(Way way) {
  switch (way) {
    case Way::nothing: return "nothing";
    case Way::seal: return "seal";
    case Way::repair: return "repair";
    case Way::rebuild: return "rebuild";
  }
  return "nothing";
}

}  // namespace

nlohmann::json to_json(const RecoverReport& report) {
  auto findings = nlohmann::json::array();
  for (const auto& finding : report.findings) findings.push_back(check::to_json(finding));
  nlohmann::json json = {{"way", name(report.way)},
                         {"written", report.written},
                         {"findings", findings},
                         {"segments", report.segments},
                         {"indexed", report.indexed},
                         {"recovered", report.recovered},
                         {"damaged", report.damaged},
                         {"frames", report.frames},
                         {"missing", report.missing},
                         {"damaged_frames", report.damaged_frames},
                         {"dropped_frames", report.dropped_frames},
                         {"lost_frames", report.lost_frames},
                         {"partial", report.partial},
                         {"seconds", report.seconds}};
  if (report.contents) json["contents"] = to_json(*report.contents);
  return json;
}

}  // namespace penstock::recover
