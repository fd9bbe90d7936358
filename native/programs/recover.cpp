/// penstock-recover: completes the index of a file whose recorder died.

#include "recover/recover.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/parent.hpp"

namespace {

using namespace penstock;
using nlohmann::json;

constexpr int exit_failed = 1;
constexpr int exit_usage = 2;

std::atomic<bool> stopped{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set by a signal handler");

void stop(int) { stopped = true; }

Result<json> read_plan(const std::string& path) {
  json plan;
  if (path == "-") {
    plan = json::parse(std::cin, nullptr, false);
  } else {
    std::ifstream file(path);
    if (!file) return errno_error(errno, "open plan " + path);
    plan = json::parse(file, nullptr, false);
  }
  if (plan.is_discarded()) return make_error(Errc::malformed, "plan {} is no JSON", path);
  return plan;
}

void emit(const char* event, json fields) {
  fields["event"] = event;
  fields["time"] = static_cast<double>(realtime_ns()) * 1e-9;
  std::cout << fields.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
}

int run(const recover::RecoverPlan& plan) {
  std::signal(SIGINT, stop);
  std::signal(SIGTERM, stop);
  const auto tell = [](std::uint64_t done, std::uint64_t total, const std::string& what) {
    emit("progress", {{"done", done}, {"total", total}, {"what", what}});
  };
  const auto report = recover::run_recover(posix_env(), plan, tell, [] { return stopped.load(); });
  if (!report.ok() && plan.series) {
    // Whoever asked for it makes its own of it.
    emit("failed", {{"code", static_cast<int>(report.error().code())}, {"message", report.error().message()}});
    return exit_failed;
  }
  if (!report.ok()) {
    spdlog::critical("{}", report.error().message());
    return exit_failed;
  }
  emit("report", recover::to_json(*report));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Completes the index of a file whose recorder died, from the segments that are in it. Takes a plan\n"
      "(JSON), prints events as JSON lines on stdout and a log on stderr.\n"
      "Exit status: 0 done, or nothing to do; 1 not possible, or stopped early; 2 a wrong plan."};
  std::string plan_path;
  app.add_option("--plan", plan_path, "the plan: a file, or - for standard input")->required();
  pid_t parent = 0;
  app.add_option("--for", parent, "The process that this one does not outlive, its parent");
  app.set_version_flag("--version", PENSTOCK_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_usage;
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt("penstock-recover"));
  // Before the first byte is written it ends, as on any SIGTERM, and gives the lock on the file back; after that it
  // completes its work.
  if (parent != 0 && !end_with_parent(parent, SIGTERM)) return exit_failed;
  const auto document = read_plan(plan_path);
  const auto plan =
      document.ok() ? recover::RecoverPlan::from_json(*document) : Result<recover::RecoverPlan>(document.error());
  if (!plan.ok()) {
    spdlog::critical("{}", plan.error().message());
    return exit_usage;
  }
  spdlog::set_level(spdlog::level::from_str(plan->log_level));
  return run(*plan);
}
