/// penstock-check: proves that a file holds what it should.

#include "check/check.hpp"

#include <spdlog/spdlog.h>

#include <csignal>

#include "programs/program.hpp"

namespace {

using namespace penstock;

constexpr int exit_damage = 1;
constexpr int exit_stopped = 128;  // and the signal's number

int run(const check::CheckPlan& plan) {
  const auto& stopped = program::stop_on_signals();
  const auto tell = [](std::uint64_t done, std::uint64_t total, const std::string& what) {
    program::emit("progress", {{"done", done}, {"total", total}, {"what", what}});
  };
  const auto report = check::run_check(posix_env(), plan, tell, [&stopped] { return stopped.load(); });
  auto document = check::to_json(report);
  const auto signal = report.complete ? 0 : program::stop_signal();
  if (signal != 0) document["stopped_by"] = signal == SIGINT ? "SIGINT" : "SIGTERM";
  program::emit("report", std::move(document));
  if (signal != 0) return exit_stopped + signal;
  return report.ok() ? 0 : exit_damage;
}

}  // namespace

int main(int argc, char** argv) {
  program::CommandLine line(
      "penstock-check",
      "Verifies a file: checksums, index, frame states and, on request, every pixel. Reads a job\n(JSON), prints "
      "events as JSON lines on standard output and the log on standard error.\n"
      "Exit status: 0 no damage, 1 damage found, 2 invalid job, 130 or 143 stopped by SIGINT or SIGTERM.");
  std::string plan_path;
  line.plan(plan_path, check::CheckPlan::description);
  if (const auto code = line.parse(argc, argv)) return *code;
  const auto document = program::read_json_plan(plan_path);
  const auto plan = document.ok() ? check::CheckPlan::from_json(*document) : Result<check::CheckPlan>(document.error());
  if (!plan.ok()) {
    spdlog::critical("{}", plan.error().message());
    return program::exit_usage;
  }
  program::set_log_level(plan->log_level);
  return run(*plan);
}
