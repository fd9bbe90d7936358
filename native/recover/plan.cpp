#include <nlohmann/json.hpp>

#include "base/archive.hpp"
#include "recover/recover.hpp"

namespace penstock::recover {

using nlohmann::json;

static void fields(Archive& archive, ForSeries& series) {
  archive.required("unique_id", series.unique_id);
  archive.required("finished", series.finished);
}

static void fields(Archive& archive, RecoverPlan& plan) {
  archive.required("file", plan.file, not_empty);
  archive.field("dry_run", plan.dry_run);
  archive.field("rebuild", plan.rebuild);
  archive.field("salvage", plan.salvage);
  archive.field("not_in_use", plan.not_in_use);
  archive.field("index_timeout_s", plan.index_timeout_s, between_reals(0.001, 1e6));
  archive.one_of("log_level", plan.log_level, log_levels);
  archive.field("series", plan.series);
}

Result<RecoverPlan> RecoverPlan::from_json(const json& document) { return job_from<RecoverPlan>(document); }

json RecoverPlan::description() {
  json description;
  describe_job<RecoverPlan>(description);
  return description;
}

}  // namespace penstock::recover
