/// penstock-load: puts load on a storage, as its plan says, and tells what came of it in one document.
///
/// Built alone, with protocols of servers (penstock-load-remote), and once for each implementation of MPI
/// (penstock-load-openmpi, -mpich).

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "load/run.hpp"
#include "programs/program.hpp"
#include "programs/ranks.hpp"
#ifdef PENSTOCK_HDF5
#include "load_hdf5/hdf5_backend.hpp"
#endif
#ifdef PENSTOCK_STORE
#include "load_hdf5/store_backend.hpp"
#endif
#ifdef PENSTOCK_REMOTE
#include "load_remote/remote_backend.hpp"
#endif
#ifdef PENSTOCK_MPI
#include "load_mpi/mpiio_backend.hpp"
#endif

namespace {

using namespace penstock;
using program::emit;
using program::exit_code_of;

/// Marks what this program creates: `penstock bench` removes files with these permissions only
/// (python/penstock/bench/data/marks.py).
constexpr unsigned own_umask = 0062;

/// The last event is "result", with the document.
int tell(load::Outcome outcome) {
  outcome.document["program"] = std::string("penstock-load ") + program::version;
  const int code = outcome.document["problem"].is_null() ? 0 : program::exit_failed;
  emit("result", {{"document", std::move(outcome.document)}});
  return code;
}

/// HDF5 crashes at the end of a process in which it could not close a file: where something failed nothing is taken
/// down.
[[noreturn]] void end(int code) {
  if (code != 0) std::_Exit(code);
  std::exit(code);
}

/// Those back ends that not each of these programs has.
Result<std::shared_ptr<load::Backend>> make_other_backend(const load::LoadPlan& plan, const load::RunContext& context) {
  if (std::holds_alternative<load::Hdf5Plan>(plan.backend)) {
#ifdef PENSTOCK_HDF5
    return load_hdf5::make_hdf5_backend(plan, context.team, context.env);
#else
    return make_error(Errc::invalid_argument, "backend.kind \"hdf5\" is not available with this MPI");
#endif
  }
  if (std::holds_alternative<load::StorePlan>(plan.backend)) {
#ifdef PENSTOCK_STORE
    return load_hdf5::make_store_backend(plan, context.team, context.env);
#else
    return make_error(Errc::invalid_argument, "backend.kind \"store\" is not available in this build");
#endif
  }
  if (std::holds_alternative<load::RemotePlan>(plan.backend)) {
#ifdef PENSTOCK_REMOTE
    return load_remote::make_remote_backend(plan);
#else
    return make_error(Errc::invalid_argument, "backend.kind \"remote\" requires penstock-load-remote");
#endif
  }
#ifdef PENSTOCK_MPI
  return load_mpi::make_mpiio_backend(plan, context.team);
#else
  (void)context;
  return make_error(Errc::invalid_argument,
                    "backend.kind \"mpiio\" requires MPI ranks; start this program with mpirun");
#endif
}

#ifdef PENSTOCK_MPI
/// A rank that shows nothing for less than this may be one whose machine is busy.
constexpr double silence_s_least = 10;

/// As one of the ranks of `job`. The lead tells the events.
int run_as_rank(const load::LoadPlan& plan, job::Job& job, std::atomic<bool>& stopped, bool stop_at_eof) {
  const auto look = [&] {
    if (job.rank() != job::lead || !stop_at_eof) return;
    const auto input = read_input();
    if (input == Input::stop || input == Input::ended) stopped = true;
  };
  load::JobTeam team(job, stopped, look, std::max(plan.drain_timeout_s, silence_s_least));
  if (const auto started = team.start(); !started.ok()) return exit_code_of(started.error());
  const auto emit_for_all = [&](std::string_view event, const Json& fields) {
    auto all = event == "progress" ? team.beat(fields) : fields;
    if (all.contains("document")) all["document"]["program"] = std::string("penstock-load ") + program::version;
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
  if (!together) std::_Exit(team.leads() ? code : program::exit_failed);
  job.stop();
  end(code);
}
#else
int run(const load::LoadPlan& plan, const std::atomic<bool>& stopped) {
  const load::RunContext context{posix_env(), emit, stopped, load::no_team(), make_other_backend};
  auto outcome = load::run_load(plan, context);
  emit("made", {{"made", context.made->to_json()}});
  if (!outcome) return exit_code_of(outcome.error());
  const bool left_behind = outcome->left_behind;
  const int code = tell(std::move(*outcome));
  // Threads that hang in the storage do not keep the answer, nor use what main() would take down.
  if (left_behind) std::_Exit(code);
  end(code);
}
#endif

/// The lead reads the plan for all ranks.
Result<load::LoadPlan> shared_plan(const std::string& path, job::Job& job) {
  auto text = job.rank() == job::lead ? program::read_plan(path) : std::string();
  // The others wait for the text, whatever came of reading it.
  PEN_ASSIGN(const auto shared, job.share_text(text.ok() ? *text : std::string()));
  if (!text.ok()) return std::move(text).error();
  return load::LoadPlan::from_json(shared);
}

}  // namespace

int main(int argc, char** argv) {
  program::CommandLine line(
      "penstock-load",
      "Puts load on a storage as a job (JSON) describes. Prints events as JSON lines on standard output, the last one\n"
      "with the complete result, and the log on standard error. SIGINT ends the run early, with the result so far.\n"
      "Under mpirun or srun its ranks share the job and start together, and rank 0 reports the result of all.\n"
      "Creates new files in the directory that the job names, with permissions 0604, and neither overwrites nor\n"
      "removes any: `penstock bench` creates such a directory and removes it.\n"
      "Exit status: 0 done or interrupted, 1 failed, 2 invalid job.");
  std::string plan_path;
  line.plan(plan_path, load::LoadPlan::description);
  bool stop_at_eof = false;
  line.flag("--stop-at-eof", stop_at_eof, "End the run early when standard input ends; of a job");
  if (const auto code = line.parse(argc, argv)) return *code;
  ::umask(own_umask);
  auto& stopped = program::stop_on_signals();
  auto job = make_job(argc, argv, job::Calls::of_any_thread);
  if (!job.ok()) return exit_code_of(job.error());
  const auto plan = shared_plan(plan_path, **job);
  if (!plan) {
    if ((*job)->rank() == job::lead) spdlog::critical("{}", plan.error().message());
    (*job)->stop();
    return program::exit_usage;
  }
  program::set_log_level(plan->log_level);
#ifdef PENSTOCK_MPI
  return run_as_rank(*plan, **job, stopped, stop_at_eof);
#else
  (void)stop_at_eof;  // a job's input
  return run(*plan, stopped);
#endif
}
