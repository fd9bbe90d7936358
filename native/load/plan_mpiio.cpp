#include "load/plan_mpiio.hpp"

namespace penstock::load {
namespace {

constexpr std::size_t hints_max = 100;
/// What every MPI takes is less, and its own to say; this bounds what is held here.
constexpr std::size_t hint_bytes_max = 1000;

bool is_hint(const std::string& text) {
  return !text.empty() && text.size() <= hint_bytes_max && text.find('\0') == std::string::npos;
}

Result<std::map<std::string, std::string>> read_hints(Fields& fields) {
  std::map<std::string, std::string> hints;
  const auto* given = fields.find("hints");
  if (given == nullptr) return hints;
  if (!given->is_object() || given->size() > hints_max)
    return fields.wrong("hints", fmt::format("an object of at most {} texts", hints_max));
  for (const auto& [name, value] : given->items()) {
    if (!is_hint(name) || !value.is_string() || !is_hint(value.get<std::string>()))
      return fields.wrong("hints", fmt::format("names and texts of 1 to {} bytes", hint_bytes_max));
    hints[name] = value.get<std::string>();
  }
  return hints;
}

}  // namespace

Result<MpiioPlan> read_mpiio(Fields& fields) {
  MpiioPlan plan;
  PEN_ASSIGN(plan.folder, read_folder(fields));
  PEN_ASSIGN(plan.shared, fields.flag("shared", false));
  PEN_ASSIGN(plan.collective, fields.flag("collective", false));
  if (plan.collective && !plan.shared) return fields.wrong("collective", "false where each rank has a file of its own");
  PEN_ASSIGN(plan.block_bytes, fields.whole("block_bytes", 0, 0, std::uint64_t{1} << 50));
  if (plan.block_bytes > 0 && !plan.shared)
    return fields.wrong("block_bytes", "0 where each rank has a file of its own");
  PEN_ASSIGN(plan.hints, read_hints(fields));
  return plan;
}

Json to_json(const MpiioPlan& plan, std::string_view sync) {
  return {{"kind", "mpiio"},       {"folder", plan.folder},         {"sync", sync},
          {"shared", plan.shared}, {"collective", plan.collective}, {"block_bytes", plan.block_bytes},
          {"hints", plan.hints}};
}

Result<void> check_workload(const MpiioPlan& plan, const FramesPlan& frames) {
  if (frames.writers != 1)
    return make_error(Errc::invalid_argument, "workload.writers is {}, expected 1 with backend.kind mpiio: more ranks",
                      frames.writers);
  if (plan.shared)
    return make_error(Errc::invalid_argument, "backend.shared is true, expected false with workload.kind frames");
  return {};
}

Result<void> check_workload(const MpiioPlan& plan, const StreamPlan& stream) {
  if (stream.shared)
    return make_error(Errc::invalid_argument,
                      "workload.shared is true, expected false: with this backend.kind it is backend.shared");
  if (stream.threads != 1)
    return make_error(Errc::invalid_argument, "workload.threads is {}, expected 1 with backend.kind mpiio: more ranks",
                      stream.threads);
  // Forcing a shared file to storage is a call that all ranks make together.
  if (plan.shared && !plan.collective && plan.sync == Sync::each)
    return make_error(Errc::invalid_argument,
                      "backend.sync is \"each\", expected none or end where ranks write one file independently");
  if (plan.block_bytes % stream.transfer_bytes != 0)
    return make_error(Errc::invalid_argument, "backend.block_bytes is {}, expected a multiple of {} (transfer_bytes)",
                      plan.block_bytes, stream.transfer_bytes);
  if (plan.block_bytes > 0 && stream.thread_bytes % plan.block_bytes != 0)
    return make_error(Errc::invalid_argument, "workload.thread_bytes is {}, expected a multiple of {} (block_bytes)",
                      stream.thread_bytes, plan.block_bytes);
  return {};
}

}  // namespace penstock::load
