/// penstock-load: puts load on a storage, as its plan says, and tells what came of it in one document.

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
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
int run(const load::LoadPlan& plan) {
  std::signal(SIGINT, stop);
  std::signal(SIGTERM, stop);
  std::signal(SIGPIPE, SIG_IGN);
  auto outcome = load::run_load(plan, {posix_env(), emit, stopped});
  if (!outcome) {
    spdlog::critical("{}", outcome.error().message());
    return exit_failed;
  }
  outcome->document["program"] = "penstock-load " PENSTOCK_VERSION;
  const int code = outcome->document["problem"].is_null() ? 0 : exit_failed;
  emit("result", {{"document", std::move(outcome->document)}});
  // Threads that hang in the storage do not keep the answer, nor use what main() would take down.
  if (outcome->left_behind) std::_Exit(code);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Puts load on a storage as a plan (JSON) describes it. Events come as JSON lines on standard output, the last "
      "one\n"
      "with the whole result; the log on standard error. SIGINT ends the run early, with the result so far.\n"
      "Works in the folder that the plan names, makes new files there, and overwrites and removes none: `penstock\n"
      "bench` makes such a folder and clears it up.\n"
      "Exit status: 0 done, also where it was interrupted; 1 something failed; 2 a wrong plan."};
  std::string plan_path;
  app.add_option("--plan", plan_path, "The plan: a file, or - for standard input")->required();
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
  const auto text = read_plan(plan_path);
  const auto plan = text.ok() ? load::LoadPlan::from_json(*text) : Result<load::LoadPlan>(text.error());
  if (!plan) {
    spdlog::critical("{}", plan.error().message());
    return exit_usage;
  }
  spdlog::set_level(spdlog::level::from_str(plan->log_level));
  return run(*plan);
}
