#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "recover/recover.hpp"

namespace penstock::recover {

using nlohmann::json;

Result<RecoverPlan> RecoverPlan::from_json(const json& document) {
  const auto wrong = [](std::string_view field, std::string_view allowed) {
    return make_error(Errc::invalid_argument, "plan: '{}': {}", field, allowed);
  };
  if (!document.is_object()) return make_error(Errc::invalid_argument, "plan: it is no object");
  static constexpr std::array known = {"file", "dry_run", "rebuild", "index_timeout_s", "log_level", "series"};
  for (const auto& [field, value] : document.items())
    if (std::find(known.begin(), known.end(), field) == known.end()) return wrong(field, "this field is not known");
  RecoverPlan plan;
  const auto text = [&](const char* field, std::string& into) {
    if (!document.contains(field)) return true;
    if (!document[field].is_string()) return false;
    into = document[field].get<std::string>();
    return !into.empty();
  };
  if (!text("file", plan.file) || plan.file.empty()) return wrong("file", "the path of a file is needed");
  if (!text("log_level", plan.log_level)) return wrong("log_level", "a text is needed");
  for (const auto& [field, into] : {std::pair("dry_run", &plan.dry_run), std::pair("rebuild", &plan.rebuild)}) {
    if (!document.contains(field)) continue;
    if (!document[field].is_boolean()) return wrong(field, "true or false is needed");
    *into = document[field].get<bool>();
  }
  if (document.contains("index_timeout_s")) {
    const auto& seconds = document["index_timeout_s"];
    if (!seconds.is_number() || !(seconds.get<double>() > 0) || seconds.get<double>() > 1e6)
      return wrong("index_timeout_s", "seconds above 0 and up to 1000000 are allowed");
    plan.index_timeout_s = seconds.get<double>();
  }
  if (document.contains("series")) {
    const auto& series = document["series"];
    const bool complete = series.is_object() && series.size() == 2 && series.contains("unique_id") &&
                          series["unique_id"].is_string() && series.contains("finished") &&
                          series["finished"].is_boolean();
    if (!complete) return wrong("series", "an object with the text unique_id and the truth value finished is needed");
    plan.series = ForSeries{series["unique_id"].get<std::string>(), series["finished"].get<bool>()};
  }
  return plan;
}

}  // namespace penstock::recover
