/// penstock-detector: sends a simulated or replayed series, as its plan says.

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.hpp"
#include "base/parent.hpp"
#include "detector/job.hpp"

namespace {

using namespace penstock;

constexpr int exit_failed = 1;
constexpr int exit_usage = 2;

Result<std::string> read_plan(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream file(path, std::ios::binary);
  if (!file) return errno_error(errno, fmt::format("open plan {}", path));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// One event a line on standard output; a reader that has gone away is not an error.
class EventLines {
 public:
  void emit(std::string_view event, nlohmann::json fields) {
    fields["event"] = event;
    fields["time"] = static_cast<double>(realtime_ns()) * 1e-9;
    const auto line = fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    std::lock_guard lock(mutex_);
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fflush(stdout);
  }

 private:
  std::mutex mutex_;
};

/// Turns SIGINT and SIGTERM into a flag. Made before any other thread, so that none of them sees the signals.
class StopOnSignal {
 public:
  StopOnSignal() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    thread_ = std::jthread([this](const std::stop_token& done) {
      const timespec moment{0, 100'000'000};
      while (!done.stop_requested())
        if (sigtimedwait(&signals_, nullptr, &moment) > 0 && !stop.exchange(true)) spdlog::info("told to stop");
    });
  }

  std::atomic<bool> stop{false};

 private:
  sigset_t signals_{};
  std::jthread thread_;
};

int run(const std::string& plan_path) {
  const auto text = read_plan(plan_path);
  if (!text) {
    spdlog::critical("{}", text.error().message());
    return exit_usage;
  }
  auto plan = detector::DetectorPlan::from_json(*text, realtime_ns());
  if (!plan) {
    spdlog::critical("{}", plan.error().message());
    return exit_usage;
  }
  spdlog::set_level(spdlog::level::from_str(plan->log_level));
  StopOnSignal signals;
  std::signal(SIGPIPE, SIG_IGN);
  EventLines lines;
  const auto emit = [&lines](std::string_view event, const nlohmann::json& fields) { lines.emit(event, fields); };
  const detector::JobContext context{posix_env(), monotonic_pace_clock(), emit, signals.stop};
  if (const auto done = detector::run_job(std::move(plan).value(), context); !done) {
    spdlog::critical("{}", done.error().message());
    // A plan that asks for what cannot be had is wrong, whenever that shows.
    return done.error().code() == Errc::invalid_argument ? exit_usage : exit_failed;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Sends a series of frames, simulated or replayed, as a plan describes it. Events come as JSON lines on standard "
      "output, the log on standard error. Ends with 0 when the series was sent, 1 when it was not, 2 when the plan is "
      "wrong. Plans: detectors/README.md."};
  std::string plan_path;
  app.add_option("--plan", plan_path, "JSON file with the whole job; - reads standard input")->required();
  pid_t parent = 0;
  app.add_option("--for", parent, "The process that this one does not outlive, its parent");
  app.set_version_flag("--version", "penstock-detector " PENSTOCK_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? 0 : exit_usage;
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt("penstock-detector"));
  if (parent != 0 && !end_with_parent(parent, SIGTERM)) return exit_failed;
  return run(plan_path);
}
