/// What a recorder reports, read while it goes on reporting.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace penstock {

/// The events of that name in a file of events. The stream keeps its position, at which the recorder may be writing,
/// and a last line that is not whole yet is left out.
inline std::vector<nlohmann::json> all_events(std::FILE* events, const std::string& name) {
  std::string text;
  char part[1 << 16];
  for (ssize_t got = 0; (got = ::pread(::fileno(events), part, sizeof part, static_cast<off_t>(text.size()))) > 0;)
    text.append(part, static_cast<std::size_t>(got));
  std::vector<nlohmann::json> found;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    if (auto parsed = nlohmann::json::parse(text.substr(at, end - at)); parsed["event"] == name)
      found.push_back(std::move(parsed));
  return found;
}

/// The last one, null without any.
inline nlohmann::json last_event(std::FILE* events, const std::string& name) {
  const auto all = all_events(events, name);
  return all.empty() ? nlohmann::json() : all.back();
}

}  // namespace penstock
