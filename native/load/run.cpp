#include "load/run.hpp"

#include <atomic>
#include <memory>
#include <utility>

#include "base/files/refusals.hpp"
#include "base/time/clock.hpp"
#include "load/machine.hpp"
#include "load/merge.hpp"
#include "load/workloads/workload.hpp"

namespace penstock::load {
namespace {

constexpr double bytes_of_all_max = 0x1p62;

/// Whether a file system refused direct I/O in the life of this object: some do so at the first transfer, when the back
/// ends have opened their files.
class DirectRefusals {
 public:
  DirectRefusals() {
    set_refusal_listener([any = any_](const Refusal& refusal) {
      if (refusal.aid == Aid::direct) *any = true;
    });
  }
  ~DirectRefusals() { set_refusal_listener({}); }
  DirectRefusals(const DirectRefusals&) = delete;
  DirectRefusals& operator=(const DirectRefusals&) = delete;

  explicit operator bool() const { return *any_; }

 private:
  const std::shared_ptr<std::atomic<bool>> any_ = std::make_shared<std::atomic<bool>>(false);
};

Json describe(const Backend& backend, const DirectRefusals& refusals) {
  auto storage = backend.describe();
  if (refusals) storage["direct"] = false;
  return storage;
}

Result<Measured> run_workload(const LoadPlan& plan, std::shared_ptr<Backend> backend, const RunContext& context) {
  if (std::holds_alternative<FramesPlan>(plan.workload)) return run_frames(plan, std::move(backend), context);
  if (std::holds_alternative<StreamPlan>(plan.workload)) return run_stream(plan, std::move(backend), context);
  if (std::holds_alternative<RemovePlan>(plan.workload)) return run_remove(plan, std::move(backend), context);
  if (std::holds_alternative<NetworkPlan>(plan.workload)) return run_network(plan, context);
  if (std::holds_alternative<NetworkServerPlan>(plan.workload)) return run_network_server(plan, context);
  return run_metadata(plan, std::move(backend), context);
}

Result<std::shared_ptr<Backend>> make_any_backend(const LoadPlan& plan, const RunContext& context) {
  if (auto backend = make_backend(plan, context.env)) return backend;
  if (context.make_other) return context.make_other(plan, context);
  return make_error(Errc::invalid_argument,
                    "backend.kind requires MPI ranks; start penstock-load with mpirun, or penstock bench with "
                    "--ranks");
}

Result<void> check_ranks(const LoadPlan& plan, const Team& team) {
  const auto* metadata = std::get_if<MetadataPlan>(&plan.workload);
  if (metadata != nullptr) return metadata->check(team.ranks());
  const bool has_shares =
      std::holds_alternative<FramesPlan>(plan.workload) || std::holds_alternative<StreamPlan>(plan.workload);
  if (team.ranks() > 1 && !has_shares)
    return make_error(Errc::invalid_argument,
                      "workload.kind does not support several ranks, expected frames, stream or metadata");
  const auto* frames = std::get_if<FramesPlan>(&plan.workload);
  if (frames != nullptr && frames->frames < team.ranks())
    return make_error(Errc::invalid_argument, "workload.frames is {}, expected one for each of {} ranks at least",
                      frames->frames, team.ranks());
  PEN_TRY(check_store(plan, team.ranks()));
  const auto* stream = std::get_if<StreamPlan>(&plan.workload);
  if (stream == nullptr) return {};
  if (stream->read && !reading_shift(plan, team.ranks()))
    return make_error(Errc::invalid_argument,
                      "workload.read is true with {} ranks and {} folders: one of them would read through the folder "
                      "that it was written through; use an even number of ranks",
                      team.ranks(), plan.folders.size());
  // Also where ranks have a file each: less is not to be had either, and places are counted in 64 bits.
  const auto all = static_cast<double>(stream->thread_bytes) * stream->threads * team.ranks();
  if (all > bytes_of_all_max)
    return make_error(Errc::invalid_argument,
                      "workload.thread_bytes is {}, of {} threads of {} ranks: {:.3g} bytes, more than {:.3g} together",
                      stream->thread_bytes, stream->threads, team.ranks(), all, bytes_of_all_max);
  return {};
}

/// What the lead gets of this rank.
Json part_of(const Result<Outcome>& outcome, const LoadPlan& plan, const JobTeam& team, const Made& made) {
  auto about = team.describe();
  if (!plan.folders.empty()) about["folder"] = plan.folders[team.rank() % plan.folders.size()];
  if (!outcome.ok())
    return {{"document", nullptr},
            {"problem", outcome.error().message()},
            {"failure", Problem(outcome.error()).to_json()},
            {"made", made.to_json()},
            {"rank", std::move(about)}};
  return {{"document", outcome->document},
          {"problem", outcome->document["problem"]},
          {"failure", outcome->document["failure"]},
          {"made", made.to_json()},
          {"rank", std::move(about)}};
}

Json made_by(const std::vector<Json>& parts) {
  std::vector<Json> of_ranks;
  of_ranks.reserve(parts.size());
  for (const auto& part : parts) of_ranks.push_back(part.is_null() ? Json() : part.at("made"));
  return Made::merged(of_ranks);
}

Result<Outcome> measure(const LoadPlan& plan, const RunContext& context) {
  PEN_TRY(check_ranks(plan, context.team));
  const DirectRefusals refusals;
  PEN_ASSIGN(const auto backend, make_any_backend(plan.for_rank(context.team.rank()), context));
  const auto before = machine_counters();
  const auto started_ns = realtime_ns();
  PEN_ASSIGN(auto measured, run_workload(plan, backend, context));
  Json document = {{"format", "penstock-load 1"},
                   {"plan", plan.to_json()},
                   {"started", iso_time(started_ns)},
                   {"interrupted", context.stop.load()},
                   {"problem", measured.problem.empty() ? Json() : Json(measured.problem.text())},
                   {"failure", measured.problem.to_json()},
                   {"storage", describe(*backend, refusals)},
                   {"machine", {{"before", before}, {"after", machine_counters()}}}};
  document.update(measured.fields);
  return Outcome{std::move(document), measured.left_behind};
}

}  // namespace

Result<Outcome> run_load(const LoadPlan& plan, const RunContext& context) {
  auto outcome = measure(plan, context);
  context.made->close();
  return outcome;
}

Result<Outcome> run_together(const LoadPlan& plan, const RunContext& context, JobTeam& team) {
  auto outcome = run_load(plan, context);
  auto part = part_of(outcome, plan, team, *context.made);
  if (!part["problem"].is_null()) team.end_for_all();
  const bool interrupted = team.interrupted();
  const auto merged = [&](const std::vector<Json>& parts) {
    auto all = merge(parts);
    if (!all.contains("document")) return all;
    all["document"]["interrupted"] = interrupted || team.interrupted();
    all["document"]["job"]["library"] = team.library();
    return all;
  };
  const auto parts = team.gather(std::move(part), [&](const auto& some) {
    if (auto all = merged(some); all.contains("document"))
      context.emit("partial", {{"document", std::move(all["document"])}});
  });
  const bool behind = !team.complete() || (outcome.ok() && outcome->left_behind);
  if (!team.leads()) return Outcome{nullptr, behind};
  context.emit("made", {{"made", made_by(parts)}});
  auto all = merged(parts);
  if (!all.contains("document")) return make_error(Errc::io, "{}", all["problem"].get<std::string>());
  return Outcome{std::move(all["document"]), behind};
}

}  // namespace penstock::load
