// penstock-detector: sends a simulated or replayed series, as its plan says.

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <stop_token>
#include <thread>

#include "base/time/clock.hpp"
#include "detector/job.hpp"
#include "programs/program.hpp"

namespace {

using namespace penstock;

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
        if (sigtimedwait(&signals_, nullptr, &moment) > 0 && !stop.exchange(true)) {
          spdlog::info("stopped by SIGTERM");
          if (!started) leave();
        }
    });
  }

  std::atomic<bool> stop{false};
  std::atomic<bool> started{false};  ///< the series: before that nothing is sent or written

 private:
  /// Looking up a host, and connecting to one that does not answer, may take long, and hear of nothing.
  [[noreturn]] static void leave() {
    spdlog::critical("stopped before the series started");
    std::_Exit(program::exit_failed);
  }

  sigset_t signals_{};
  std::jthread thread_;
};

int run(const std::string& plan_path) {
  const auto text = program::read_plan(plan_path);
  if (!text) {
    spdlog::critical("{}", text.error().message());
    return program::exit_usage;
  }
  auto plan = detector::DetectorPlan::from_json(*text, realtime_ns());
  if (!plan) {
    spdlog::critical("{}", plan.error().message());
    return program::exit_usage;
  }
  program::set_log_level(plan->log_level);
  StopOnSignal signals;
  const auto emit = [&signals](std::string_view event, nlohmann::json fields) {
    if (event == "series_start") signals.started = true;
    program::emit(event, std::move(fields));
  };
  const detector::JobContext context{posix_env(), monotonic_pace_clock(), emit, signals.stop};
  const auto done = detector::run_job(std::move(plan).value(), context);
  return done ? 0 : program::exit_code_of(done.error());
}

}  // namespace

int main(int argc, char** argv) {
  program::CommandLine line("penstock-detector",
                            "Sends a series of simulated or replayed frames as a job (JSON) describes. Prints events "
                            "as JSON lines on standard output and the log on standard error. Exit status: 0 the series "
                            "was sent, 1 failed, 2 invalid job. Jobs: detectors/README.md.");
  std::string plan_path;
  line.plan(plan_path, detector::DetectorPlan::description);
  if (const auto code = line.parse(argc, argv)) return *code;
  return run(plan_path);
}
