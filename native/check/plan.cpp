#include "check/plan.hpp"

#include <nlohmann/json.hpp>

#include "base/archive.hpp"
#include "base/fields.hpp"

namespace penstock::check {
namespace {

Result<void> read_against(const Json& value, CheckPlan& plan) {
  const auto wrong = [&](std::string_view rule) {
    return make_error(Errc::invalid_argument, "against: {} {}", excerpt(value), rule);
  };
  if (!value.is_object() || value.size() != 1)
    return wrong(R"(must be one of {"npy": path}, {"simulation": {…}} and {"recorded": true})");
  const auto& kind = value.begin().key();
  const auto& content = value.begin().value();
  if (kind == "npy") {
    if (!content.is_string()) return wrong("must have the path of a .npy file");
    plan.against = AgainstNpy{content.get<std::string>()};
  } else if (kind == "simulation") {
    if (!content.is_object()) return wrong("must have an object as simulation");
    plan.against = AgainstSimulation{content.dump(-1, ' ', false, Json::error_handler_t::replace)};
  } else if (kind == "recorded") {
    if (content != Json(true)) return wrong("must have true as recorded");
    plan.against = AgainstRecorded{};
  } else {
    return wrong("is not one of npy, simulation, recorded");
  }
  return {};
}

}  // namespace

static void fields(Archive& archive, CheckPlan& plan) {
  archive.required("file", plan.file, not_empty);
  archive.custom(
      "against", "one of npy, simulation, recorded", [&](const Json& value) { return read_against(value, plan); },
      [] { return Json(); });
  archive.field("dataset", plan.dataset);
  archive.field("threads", plan.threads, between(1, 1024));
  archive.field("count_only", plan.count_only);
  archive.field("decode", plan.decode);
  archive.field("plugins", plan.plugins);
  archive.field("plugin_folders", plan.plugin_folders);
  archive.field("index_timeout_s", plan.index_timeout_s, between_reals(0.001, 1e6));
  archive.one_of("log_level", plan.log_level, log_levels);
}

Result<CheckPlan> CheckPlan::from_json(const Json& document) { return job_from<CheckPlan>(document); }

Json CheckPlan::description() {
  Json description;
  describe_job<CheckPlan>(description);
  return description;
}

}  // namespace penstock::check
