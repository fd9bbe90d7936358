#include <algorithm>
#include <nlohmann/json.hpp>

#include "check/check.hpp"

namespace penstock::check {

bool Report::ok() const {
  return complete && std::none_of(findings.begin(), findings.end(),
                                  [](const auto& finding) { return finding.level == Level::error; });
}

namespace {

/// null for a check that came to its end.
nlohmann::json reached_json(const Report& report) {
  if (report.complete) return nullptr;
  return {{"what", report.reached.what}, {"done", report.reached.done}, {"total", report.reached.total}};
}

}  // namespace

nlohmann::json to_json(const Report& report) {
  auto findings = nlohmann::json::array();
  for (const auto& finding : report.findings) findings.push_back(to_json(finding));
  return {{"ok", report.ok()},
          {"complete", report.complete},
          {"reached", reached_json(report)},
          {"unfinished", report.unfinished()},
          {"being_recorded", report.being_recorded()},
          {"findings", findings},
          {"chunks", report.chunks},
          {"frame_chunks", report.frame_chunks},
          {"frames", report.frames},
          {"missing", report.missing},
          {"partial", report.partial},
          {"damaged_frames", report.damaged_frames},
          {"dropped_frames", report.dropped_frames},
          {"lost_frames", report.lost_frames},
          {"recoverable", report.recoverable ? nlohmann::json(*report.recoverable) : nlohmann::json(nullptr)},
          {"segments", report.segments},
          {"bytes", report.bytes},
          {"compared_frames", report.compared_frames},
          {"different_frames", report.different_frames},
          {"seconds", report.seconds}};
}

}  // namespace penstock::check
