/// penstock-recover: completes the index of a file whose recorder died.

#include "recover/recover.hpp"

#include <spdlog/spdlog.h>

#include "programs/program.hpp"

namespace {

using namespace penstock;

constexpr int exit_stopped = 128;  // and the signal's number

int run(const recover::RecoverPlan& plan) {
  const auto& stopped = program::stop_on_signals();
  const auto tell = [](std::uint64_t done, std::uint64_t total, const std::string& what) {
    program::emit("progress", {{"done", done}, {"total", total}, {"what", what}});
  };
  const auto report = recover::run_recover(posix_env(), plan, tell, [&stopped] { return stopped.load(); });
  if (!report.ok()) {
    const auto& why = report.error();
    program::emit("failed", {{"code", std::string(name(why.code()))},
                             {"number", static_cast<int>(why.code())},
                             {"path", plan.file},
                             {"detail", why.message()}});
  }
  if (!report.ok() && plan.series) return program::exit_failed;  // whoever asked for it makes its own of it
  if (!report.ok()) {
    spdlog::critical("{}", report.error().message());
    const auto signal = report.error().code() == Errc::cancelled ? program::stop_signal() : 0;
    return signal != 0 ? exit_stopped + signal : program::exit_failed;
  }
  program::emit("report", recover::to_json(*report));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  program::CommandLine line(
      "penstock-recover",
      "Completes the index of a file whose recorder died, from the segments in the file. Reads a job\n(JSON), prints "
      "events as JSON lines on standard output and the log on standard error.\n"
      "Exit status: 0 done, or nothing to do; 1 failed; 2 invalid job; 130 or 143 stopped by SIGINT or SIGTERM\nbefore "
      "anything was written.");
  std::string plan_path;
  line.plan(plan_path, recover::RecoverPlan::description);
  // On the SIGTERM that its parent's death brings it ends before the first byte is written, and gives the lock on the
  // file back; after that it completes its work.
  if (const auto code = line.parse(argc, argv)) return *code;
  const auto document = program::read_json_plan(plan_path);
  const auto plan =
      document.ok() ? recover::RecoverPlan::from_json(*document) : Result<recover::RecoverPlan>(document.error());
  if (!plan.ok()) {
    spdlog::critical("{}", plan.error().message());
    return program::exit_usage;
  }
  program::set_log_level(plan->log_level);
  program::log_refusals();
  return run(*plan);
}
