/// Events that a job reports to its parent.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace penstock::detector {

/// Takes the name of an event and its fields, an object. Called from several threads, one call at a time.
using EventSink = std::function<void(std::string_view event, const nlohmann::json& fields)>;

}  // namespace penstock::detector
