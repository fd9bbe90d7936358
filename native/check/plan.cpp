#include "check/plan.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace penstock::check {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  const auto text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > 80 ? fmt::format("{}…", std::string_view(text).substr(0, 80)) : text;
}

Error wrong(std::string_view field, const json& value, std::string_view allowed) {
  return make_error(Errc::invalid_argument, "plan: '{}' is {}; {}", field, shown(value), allowed);
}

const json* find(const json& object, const char* field) {
  const auto found = object.find(field);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<void> read_text(const json& plan, const char* field, std::string& into) {
  const auto* value = find(plan, field);
  if (value == nullptr) return {};
  if (!value->is_string() || value->get_ref<const std::string&>().empty())
    return wrong(field, *value, "a text is needed");
  into = value->get<std::string>();
  return {};
}

Result<void> read_flag(const json& plan, const char* field, bool& into) {
  const auto* value = find(plan, field);
  if (value == nullptr) return {};
  if (!value->is_boolean()) return wrong(field, *value, "true or false is needed");
  into = value->get<bool>();
  return {};
}

Result<void> read_against(const json& value, CheckPlan& plan) {
  if (!value.is_object() || value.size() != 1)
    return wrong("against", value, R"(one of {"npy": path}, {"simulation": {…}} and {"recorded": true} is needed)");
  const auto& kind = value.begin().key();
  const auto& content = value.begin().value();
  if (kind == "npy") {
    if (!content.is_string()) return wrong("against.npy", content, "the path of a .npy file is needed");
    plan.against = AgainstNpy{content.get<std::string>()};
  } else if (kind == "simulation") {
    if (!content.is_object()) return wrong("against.simulation", content, "an object is needed");
    plan.against = AgainstSimulation{content.dump(-1, ' ', false, json::error_handler_t::replace)};
  } else if (kind == "recorded") {
    if (content != json(true)) return wrong("against.recorded", content, "only true is allowed");
    plan.against = AgainstRecorded{};
  } else {
    return wrong("against", value, "npy, simulation and recorded are known");
  }
  return {};
}

}  // namespace

Result<CheckPlan> CheckPlan::from_json(const json& document) {
  if (!document.is_object()) return make_error(Errc::invalid_argument, "plan: {} is no object", shown(document));
  static constexpr std::array known = {"file",    "against",         "dataset",        "threads",   "decode",
                                       "plugins", "index_timeout_s", "plugin_folders", "log_level", "count_only"};
  for (const auto& [field, value] : document.items())
    if (std::find(known.begin(), known.end(), field) == known.end())
      return wrong(field, value, "this field is not known");
  CheckPlan plan;
  PEN_TRY(read_text(document, "file", plan.file));
  if (plan.file.empty()) return make_error(Errc::invalid_argument, "plan: 'file' is missing");
  PEN_TRY(read_text(document, "dataset", plan.dataset));
  PEN_TRY(read_text(document, "log_level", plan.log_level));
  if (const auto* against = find(document, "against")) PEN_TRY(read_against(*against, plan));
  if (const auto* threads = find(document, "threads")) {
    if (!threads->is_number_unsigned() || threads->get<std::uint64_t>() < 1 || threads->get<std::uint64_t>() > 1024)
      return wrong("threads", *threads, "1 to 1024 are allowed");
    plan.threads = threads->get<unsigned>();
  }
  PEN_TRY(read_flag(document, "count_only", plan.count_only));
  PEN_TRY(read_flag(document, "decode", plan.decode));
  PEN_TRY(read_flag(document, "plugins", plan.plugins));
  if (const auto* folders = find(document, "plugin_folders")) {
    const bool right = folders->is_array() && std::all_of(folders->begin(), folders->end(),
                                                          [](const json& folder) { return folder.is_string(); });
    if (!right) return wrong("plugin_folders", *folders, "a list of paths is needed");
    plan.plugin_folders = folders->get<std::vector<std::string>>();
  }
  if (const auto* timeout = find(document, "index_timeout_s")) {
    if (!timeout->is_number() || !(timeout->get<double>() > 0) || timeout->get<double>() > 1e6)
      return wrong("index_timeout_s", *timeout, "seconds above 0 and up to 1000000 are allowed");
    plan.index_timeout_s = timeout->get<double>();
  }
  return plan;
}

}  // namespace penstock::check
