/// penstock-recorder: records series after series into HDF5 files, as its plan says.
///
/// Built alone, and once for each implementation of MPI (penstock-recorder-openmpi, -mpich).

#include "recorder/service/recorder.hpp"

#include <malloc.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <csignal>
#include <iostream>

#include "base/files/watched_env.hpp"
#include "base/parent.hpp"
#include "programs/program.hpp"
#include "programs/ranks.hpp"
#include "recorder/config/machine.hpp"
#include "recorder/service/metrics/metrics.hpp"
#include "recorder/service/metrics/stalls.hpp"
#include "stream/tcp/tcp.hpp"
#include "stream/zmq/source.hpp"

namespace {

using namespace penstock;
using nlohmann::json;
using program::exit_code_of;
using program::exit_failed;
using program::exit_usage;

/// The lead reads the plan for all ranks.
Result<recorder::Config> read_config(const std::string& path, job::Job& job) {
  auto text = job.rank() == job::lead ? program::read_plan(path) : std::string();
  // The others wait for the text, whatever came of reading it.
  PEN_ASSIGN(const auto shared, job.share_text(text.ok() ? *text : std::string()));
  if (!text.ok()) return std::move(text).error();
  const auto plan = json::parse(shared, nullptr, false);
  if (plan.is_discarded()) return make_error(Errc::malformed, "plan {} is not JSON", path);
  PEN_ASSIGN(const auto config, recorder::Config::from_json(plan));
  return config.for_rank(job.rank(), job.ranks());
}

stream::MessageLimits limits_of(const recorder::Config& config) {
  stream::MessageLimits limits;
  limits.frame_bytes_max = config.frame_bytes_max;
  limits.table_bytes_max = config.tables_bytes;
  return limits;
}

Result<std::unique_ptr<Source>> make_source(const recorder::SourceConfig& config, const recorder::Config& of_all,
                                            bool alone, const std::shared_ptr<stream::TcpSeriesTable>& over_tcp) {
  if (config.kind == recorder::SourceConfig::Kind::tcp) {
    stream::TcpSourceOptions options;
    options.host = config.host;
    options.port = config.port;
    options.token = config.token;
    options.lag.lag_max = std::chrono::milliseconds(std::llround(config.lag_max_s * 1000));
    options.lag.rate_min_bytes_per_s = config.rate_min_bytes_per_s;
    options.limits = limits_of(of_all);
    options.table = over_tcp;
    return stream::make_tcp_source(options);
  }
  stream::ZmqSourceOptions options;
  options.endpoint = config.endpoint;
  options.bind = config.bind;
  options.alone = alone;
  options.element = config.element;
  options.limits = limits_of(of_all);
  options.waiting_bytes_max = of_all.tables_bytes;
  return stream::make_zmq_source(options);
}

Result<void> start_sources(const recorder::Config& config, recorder::Recorder& recorder,
                           std::vector<std::unique_ptr<Source>>& sources, recorder::Events& events, unsigned rank,
                           unsigned ranks) {
  json addresses = json::array(), pulled = json::array();
  const auto over_tcp = stream::make_tcp_series_table();
  for (const auto& source_config : config.sources) {
    PEN_ASSIGN(auto source, make_source(source_config, config, ranks == 1, over_tcp));
    PEN_TRY(source->start(recorder));
    const bool connects = source_config.kind == recorder::SourceConfig::Kind::zmq && !source_config.bind;
    spdlog::info("{} {}", connects ? "pulling from" : "listening on", source->address());
    if (connects) pulled.push_back(source->address());
    addresses.push_back(source->address());
    sources.push_back(std::move(source));
  }
  events.emit("listening", {{"sources", addresses}, {"pulled", pulled}, {"rank", rank}});
  return {};
}

Result<void> place(const recorder::Config& config) {
  if (config.machine.chosen()) {
    PEN_ASSIGN(const auto placement, recorder::Placement::find(config.machine));
    placement.apply();
  }
  if (const auto trouble = recorder::huge_page_trouble(config); !trouble.empty()) spdlog::warn("{}", trouble);
  return {};
}

Result<void> serve_metrics(const recorder::Config& config, const recorder::Recorder& recorder, const CallWatch& watch,
                           recorder::Events& events, unsigned rank, std::unique_ptr<recorder::MetricsServer>& server) {
  PEN_ASSIGN(server, recorder::MetricsServer::start(*config.metrics,
                                                    {[&recorder] { return recorder.snapshot(); }, &watch, rank}));
  spdlog::info("metrics at {}", server->address());
  events.emit("metrics", {{"address", server->address()}, {"rank", rank}});
  return {};
}

/// Until a signal comes, enough series are closed, or another rank says so.
void wait_until_told(const sigset_t& signals, bool stop_at_eof, const recorder::Config& config,
                     recorder::Recorder& recorder) {
  const timespec moment{0, 100'000'000};
  while (!recorder.told_to_stop()) {
    int signal = sigtimedwait(&signals, nullptr, &moment);
    const auto input = stop_at_eof ? read_input() : Input::none;
    if (signal == SIGUSR2 || input == Input::end_series) recorder.end_series();
    if (signal == SIGUSR2) signal = 0;
    if (signal > 0) spdlog::info("{}: completing the files", signal == SIGINT ? "interrupted" : "stopped by SIGTERM");
    const bool enough = config.series_limit > 0 && recorder.wait_for_limit(std::chrono::milliseconds(0));
    if (input == Input::ended && config.resume) ::kill(::getpid(), SIGKILL);  // see Lifetime
    if (signal > 0 || enough || input == Input::stop || input == Input::ended) recorder.tell_to_stop();
  }
}

/// Before any thread, MPI's own among them, so that only sigtimedwait sees them.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

/// Standard output for this program alone: what a filter plug-in prints goes to standard error.
std::FILE* take_standard_output() {
  const int own = ::dup(STDOUT_FILENO);
  std::FILE* out = own >= 0 ? ::fdopen(own, "w") : nullptr;
  if (out == nullptr || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return stdout;
  return out;
}

/// What `penstock filters` shows.
int list_filters(const std::vector<std::string>& folders) {
  auto list = json::array();
  for (const auto& filter : store::find_filters(folders))
    list.push_back({{"id", filter.id},
                    {"name", filter.name},
                    {"path", filter.path},
                    {"keeps_all_values", store::keeps_all_values({filter.id, {}})}});
  std::cout << list.dump(-1, ' ', true, json::error_handler_t::replace) << std::endl;
  return 0;
}

int record(const recorder::Config& config, const sigset_t& signals, bool stop_at_eof, job::Job& job) {
  // What is free again and kept counts beside the pool: of a small one not more than that, and not for each thread.
  constexpr std::uint64_t large_pool_bytes = 1 << 30;
  if (config.pool_bytes < large_pool_bytes) mallopt(M_ARENA_MAX, 3);
  mallopt(M_TRIM_THRESHOLD, static_cast<int>(std::clamp<std::uint64_t>(config.pool_bytes / 4, 8 << 20, 1 << 30)));
  recorder::Team team(job);
  std::FILE* out = take_standard_output();  // on all ranks: a job has one for all of them
  const bool is_coordinator = job.rank() == job::lead;
  auto events = team.events(out);
  CallWatch watch(std::chrono::milliseconds(config.stall_limit_ms), recorder::tell_stalls(events, job.rank()));
  const auto env = make_watched_env(posix_env(), watch);
  recorder::Recorder recorder(*env, config, events, team);
  std::vector<std::unique_ptr<Source>> sources;
  std::unique_ptr<recorder::MetricsServer> metrics;
  Result<void> started = place(config);
  if (started.ok()) started = recorder.start();
  if (started.ok() && config.metrics) started = serve_metrics(config, recorder, watch, events, job.rank(), metrics);
  if (started.ok()) started = start_sources(config, recorder, sources, events, job.rank(), job.ranks());
  if (started.ok()) wait_until_told(signals, stop_at_eof && is_coordinator, config, recorder);
  outlive_parent();  // the files are completed now
  recorder.stop_waiting();
  for (auto& source : sources) source->stop();
  recorder.stop();
  const auto failed = recorder.failed_series(), refused = recorder.refused_series();
  const bool all_refused = is_coordinator && recorder.refused_everything();
  if (is_coordinator && started.ok())
    events.emit("stopped",
                {{"failed_series", failed}, {"refused_series", refused}, {"all_messages_refused", all_refused}});
  if (!started.ok()) events.emit("failed", program::failure_fields(started.error()));
  team.stop();
  if (!started.ok()) return program::exit_code_without_event(started.error());
  if (all_refused) {
    spdlog::error("every message was rejected; nothing was recorded");
    return exit_failed;
  }
  return failed == 0 && refused == 0 ? 0 : exit_failed;
}

int show_placement(const recorder::Config& config) {
  const auto placement = recorder::describe_placement(config);
  if (!placement.ok()) return exit_code_of(placement.error());
  recorder::Events(stdout).emit("placement", *placement);
  return 0;
}

/// What record() refuses before the first source is there, in the same order.
Result<void> try_out(recorder::Config config, unsigned ranks) {
  for (unsigned rank = 0; rank < ranks; ++rank) PEN_TRY(config.for_rank(rank, ranks));
  if (config.machine.chosen()) PEN_TRY(recorder::Placement::find(config.machine));
  PEN_TRY(recorder::try_folder(config.folder));
  return config.load_filters();
}

/// What is shown instead of recording.
struct Only {
  bool placement = false;
  unsigned try_ranks = 0;  ///< not 0: only try the plan out, for so many
};

/// How the recorder learns that the command which started it is gone. It completes its files then. With `resume` it
/// exits at once instead, as in a crash, and the next recorder resumes its series.
struct Lifetime {
  pid_t parent = 0;          ///< of a single process; 0: none
  bool stop_at_eof = false;  ///< of a job
};

int run(const std::string& plan_path, const sigset_t& signals, Lifetime lifetime, Only only, job::Job& job) {
  const auto config = read_config(plan_path, job);
  if (!config.ok()) {
    if (job.rank() == job::lead) spdlog::critical("{}", config.error().message());
    job.stop();
    return exit_usage;
  }
  program::set_log_level(config->log_level);
  program::log_in_background();
  program::log_refusals();
  if (only.try_ranks > 0) {
    const auto tried = try_out(*config, only.try_ranks);
    job.stop();
    return tried.ok() ? 0 : exit_code_of(tried.error());
  }
  if (only.placement) {
    const int code = job.rank() == job::lead ? show_placement(*config) : 0;
    job.stop();
    return code;
  }
  if (config->resume && lifetime.parent != 0 && !end_with_parent(lifetime.parent, SIGKILL)) return exit_failed;
  return record(*config, signals, lifetime.stop_at_eof, job);
}

}  // namespace

namespace {

/// Files are made with 0666, less the umask.
Result<void> set_file_mode(const std::string& octal) {
  if (octal.empty()) return {};
  unsigned mode = 0;
  const auto [end, error] = std::from_chars(octal.data(), octal.data() + octal.size(), mode, 8);
  if (error != std::errc() || end != octal.data() + octal.size() || (mode & ~0666U) != 0 || (mode & 0600U) != 0600U)
    return make_error(Errc::invalid_argument,
                      "--file-mode {}: not an octal mode that lets the owner read and write, such as 0640", octal);
  ::umask(0666U & ~mode);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  // Large messages come and go all the time: their memory is kept rather than mapped anew.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that it takes

  program::CommandLine line(
      "penstock-recorder",
      "Records detector streams into HDF5/NeXus files. `penstock record` writes the job and starts this program.\n"
      "Under mpirun or srun its ranks write one file per series; each rank listens on its own port.\n"
      "Prints events as JSON lines on standard output and the log on standard error.\n"
      "Exit status: 0 done, 1 a series failed or was rejected, or every message was rejected, 2 invalid job.");
  std::string plan;
  line.plan(plan, recorder::Config::description, false);
  bool filters = false;
  line.flag("--filters", filters, "List the HDF5 filter plug-ins that are found, and end");
  std::vector<std::string> filter_folders;
  line.rest("folders", filter_folders, "With --filters: folders to look in before those of HDF5");
  Lifetime lifetime;
  line.flag("--stop-at-eof", lifetime.stop_at_eof, "Complete the files and end when standard input ends");
  Only only;
  line.flag("--show-placement", only.placement, "Print where threads and memory of rank 0 would be placed, and exit");
  line.number("--try", only.try_ranks, 1, 256,
              "Check the job as a recorder with this number of ranks would at its start, and exit");
  std::string file_mode;
  line.text("--file-mode", file_mode, "Who may read and write the files, in octal: 0640; otherwise the umask decides");
  bool alone = false;
  line.flag("--alone", alone, "One process, though a launcher of jobs started this program");
  if (const auto code = line.parse(argc, argv)) return *code;
  if (filters) return list_filters(filter_folders);
  if (plan.empty() || !filter_folders.empty()) {
    spdlog::critical(plan.empty() ? "--plan is required" : "folders require --filters");
    return exit_usage;
  }
  if (auto set = set_file_mode(file_mode); !set.ok()) {
    spdlog::critical("{}", set.error().message());
    return exit_usage;
  }
  const auto signals = block_signals();
  auto job = alone ? job::make_alone() : make_job(argc, argv, job::Calls::of_the_job);
  if (!job.ok()) {
    spdlog::critical("{}", job.error().message());
    return exit_failed;
  }
  lifetime.parent = line.parent();
  return run(plan, signals, lifetime, only, **job);
}
