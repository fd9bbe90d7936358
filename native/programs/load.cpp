/// penstock-load: puts load on a storage, as its plan says, and tells what came of it in one document.
///
/// Built alone, and once for each implementation of MPI (penstock-load-openmpi, -mpich).

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/parent.hpp"
#include "load/run.hpp"
#include "programs/ranks.hpp"
#ifdef PENSTOCK_HDF5
#include "load_hdf5/hdf5_backend.hpp"
#endif
#ifdef PENSTOCK_MPI
#include "load_mpi/mpiio_backend.hpp"
#endif

namespace {

using namespace penstock;
using nlohmann::json;

constexpr int exit_failed = 1;
constexpr int exit_usage = 2;

std::atomic<bool> stopped{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set by a signal handler");

void stop(int) { stopped = true; }

Result<std::string> read_plan(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream file(path, std::ios::binary);
  if (!file) return errno_error(errno, fmt::format("open plan {}", path));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// One event a line; a reader that has gone away is not an error.
void emit(std::string_view event, json fields) {
  fields["event"] = event;
  fields["time"] = static_cast<double>(realtime_ns()) * 1e-9;
  const auto line = fields.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

/// The last event is "result", with the document.
int tell(load::Outcome outcome) {
  outcome.document["program"] = "penstock-load " PENSTOCK_VERSION;
  const int code = outcome.document["problem"].is_null() ? 0 : exit_failed;
  emit("result", {{"document", std::move(outcome.document)}});
  return code;
}

int exit_code_of(const Error& why) {
  spdlog::critical("{}", why.message());
  return why.code() == Errc::invalid_argument ? exit_usage : exit_failed;
}

/// Those back ends that not each of these programs has.
Result<std::shared_ptr<load::Backend>> make_other_backend(const load::LoadPlan& plan, const load::RunContext& context) {
  if (std::holds_alternative<load::Hdf5Plan>(plan.backend)) {
#ifdef PENSTOCK_HDF5
    return load_hdf5::make_hdf5_backend(plan, context.team, context.env);
#else
    return make_error(Errc::invalid_argument, "backend.kind is \"hdf5\", which ranks of this MPI do not have");
#endif
  }
#ifdef PENSTOCK_MPI
  return load_mpi::make_mpiio_backend(plan, context.team);
#else
  (void)context;
  return make_error(Errc::invalid_argument,
                    "backend.kind is \"mpiio\", which ranks of MPI have; start this program with mpirun");
#endif
}

#ifdef PENSTOCK_MPI
/// A rank that shows nothing for less than this may be one whose machine is busy.
constexpr double silence_s_least = 10;

/// As one of the ranks of `job`. The lead tells the events.
int run_as_rank(const load::LoadPlan& plan, job::Job& job, bool stop_at_eof) {
  const auto look = [&] {
    if (job.rank() == job::lead && stop_at_eof && input_has_ended()) stopped = true;
  };
  load::JobTeam team(job, stopped, look, std::max(plan.drain_timeout_s, silence_s_least));
  if (const auto started = team.start(); !started.ok()) return exit_code_of(started.error());
  const auto emit_for_all = [&](std::string_view event, const Json& fields) {
    auto all = event == "progress" ? team.beat(fields) : fields;
    if (all.contains("document")) all["document"]["program"] = "penstock-load " PENSTOCK_VERSION;
    if (team.leads()) emit(event, std::move(all));
  };
  auto outcome = load::run_together(plan, {posix_env(), emit_for_all, stopped, team, make_other_backend}, team);
  const bool together = outcome.ok() && !outcome->left_behind;
  int code = 0;
  if (!outcome.ok()) {
    code = exit_code_of(outcome.error());
  } else if (team.leads()) {
    code = tell(std::move(*outcome));
  }
  // Whoever waited here for a rank that does not come would wait for ever; the launcher ends the others.
  if (!together) std::_Exit(code);
  job.stop();
  return code;
}
#else
int run(const load::LoadPlan& plan) {
  auto outcome = load::run_load(plan, {posix_env(), emit, stopped, load::no_team(), make_other_backend});
  if (!outcome) return exit_code_of(outcome.error());
  const bool left_behind = outcome->left_behind;
  const int code = tell(std::move(*outcome));
  // Threads that hang in the storage do not keep the answer, nor use what main() would take down.
  if (left_behind) std::_Exit(code);
  return code;
}
#endif

/// The lead reads the plan for all ranks.
Result<load::LoadPlan> shared_plan(const std::string& path, job::Job& job) {
  auto text = job.rank() == job::lead ? read_plan(path) : std::string();
  // The others wait for the text, whatever came of reading it.
  PEN_ASSIGN(const auto shared, job.share_text(text.ok() ? *text : std::string()));
  if (!text.ok()) return std::move(text).error();
  return load::LoadPlan::from_json(shared);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Puts load on a storage as a plan (JSON) describes it. Events come as JSON lines on standard output, the last "
      "one\n"
      "with the whole result; the log on standard error. SIGINT ends the run early, with the result so far.\n"
      "Under mpirun or srun its ranks share the plan, begin together, and rank 0 tells the result of all.\n"
      "Works in the folder that the plan names, makes new files there, and overwrites and removes none: `penstock\n"
      "bench` makes such a folder and clears it up.\n"
      "Exit status: 0 done, also where it was interrupted; 1 something failed; 2 a wrong plan."};
  std::string plan_path;
  app.add_option("--plan", plan_path, "The plan: a file, or - for standard input")->required();
  bool stop_at_eof = false;
  app.add_flag("--stop-at-eof", stop_at_eof, "End the run early when standard input ends; of a job");
  pid_t parent = 0;
  app.add_option("--for", parent, "The process that this one does not outlive, its parent");
  app.set_version_flag("--version", "penstock-load " PENSTOCK_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_usage;
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt("penstock-load"));
  if (parent != 0 && !end_with_parent(parent, SIGTERM)) return exit_failed;
  std::signal(SIGINT, stop);
  std::signal(SIGTERM, stop);
  std::signal(SIGPIPE, SIG_IGN);
  auto job = make_job(argc, argv, job::Calls::of_any_thread);
  if (!job.ok()) return exit_code_of(job.error());
  const auto plan = shared_plan(plan_path, **job);
  if (!plan) {
    if ((*job)->rank() == job::lead) spdlog::critical("{}", plan.error().message());
    (*job)->stop();
    return exit_usage;
  }
  spdlog::set_level(spdlog::level::from_str(plan->log_level));
#ifdef PENSTOCK_MPI
  return run_as_rank(*plan, **job, stop_at_eof);
#else
  (void)stop_at_eof;  // a job's input
  return run(*plan);
#endif
}
