/// penstock-check: proves that a file holds what it should.

#include "check/check.hpp"

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

constexpr int exit_damage = 1;
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

int run(const check::CheckPlan& plan) {
  std::signal(SIGINT, stop);
  std::signal(SIGTERM, stop);
  const auto tell = [](std::uint64_t done, std::uint64_t total, const std::string& what) {
    emit("progress", {{"done", done}, {"total", total}, {"what", what}});
  };
  const auto report = check::run_check(posix_env(), plan, tell, [] { return stopped.load(); });
  emit("report", check::to_json(report));
  if (!report.complete) spdlog::warn("stopped before the end; the report is partial");
  return report.ok() ? 0 : exit_damage;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Proves that a file holds what it should: checksums, index, frame states, and on request every\n"
      "pixel. Takes a plan (JSON), prints events as JSON lines on stdout and a log on stderr.\n"
      "Exit status: 0 nothing wrong, 1 damage found or stopped early, 2 a wrong plan."};
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
  spdlog::set_default_logger(spdlog::stderr_color_mt("penstock-check"));
  if (parent != 0 && !end_with_parent(parent, SIGTERM)) return exit_damage;
  const auto document = read_plan(plan_path);
  const auto plan = document.ok() ? check::CheckPlan::from_json(*document) : Result<check::CheckPlan>(document.error());
  if (!plan.ok()) {
    spdlog::critical("{}", plan.error().message());
    return exit_usage;
  }
  spdlog::set_level(spdlog::level::from_str(plan->log_level));
  return run(*plan);
}
