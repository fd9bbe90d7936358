#include "programs/program.hpp"

#include <spdlog/async.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <mutex>
#include <utility>

#include "base/files/refusals.hpp"
#include "base/parent.hpp"
#include "base/threads.hpp"
#include "base/time/clock.hpp"
#include "programs/log_text.hpp"

namespace penstock::program {
namespace {

std::atomic<bool> stopped{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set by a signal handler");

std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "set by a signal handler");

void stop(int number) {
  int none = 0;
  first_signal.compare_exchange_strong(none, number);
  stopped = true;
}

}  // namespace

const char* const version = PENSTOCK_VERSION;

struct CommandLine::Parser {
  explicit Parser(const std::string& about) : app(about) {}

  CLI::App app;
  pid_t parent = 0;
  bool describe = false;
  nlohmann::json (*description)() = nullptr;
  const std::string* plan = nullptr;  // that is required
};

CommandLine::CommandLine(const std::string& name, const std::string& about)
    : name_(name), parser_(std::make_unique<Parser>(about)) {
  parser_->app.add_option("--for", parser_->parent, "ID of the parent process; this process exits when it ends");
  parser_->app.set_version_flag("--version", name + " " + version);
}

CommandLine::~CommandLine() = default;

void CommandLine::plan(std::string& path, nlohmann::json (*description)(), bool required) {
  parser_->app.add_option("--plan", path, "JSON file with the job; - reads standard input");
  parser_->app.add_flag("--describe-config", parser_->describe,
                        "Print the fields of a job with types, defaults, limits and units as JSON, and exit");
  parser_->description = description;
  if (required) parser_->plan = &path;
}

void CommandLine::text(const std::string& option, std::string& value, const std::string& help) {
  parser_->app.add_option(option, value, help);
}

void CommandLine::flag(const std::string& option, bool& value, const std::string& help) {
  parser_->app.add_flag(option, value, help);
}

void CommandLine::number(const std::string& option, unsigned& value, unsigned least, unsigned most,
                         const std::string& help) {
  parser_->app.add_option(option, value, help)->check(CLI::Range(least, most));
}

void CommandLine::rest(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  parser_->app.add_option(name, values, help);
}

std::optional<int> CommandLine::parse(int argc, char** argv) {
  try {
    parser_->app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return parser_->app.exit(problem) == 0 ? 0 : exit_usage;
  }
  if (parser_->describe) {
    std::cout << parser_->description().dump(2) << '\n';
    return 0;
  }
  if (parser_->plan != nullptr && parser_->plan->empty()) {
    std::cerr << "--plan is required\n";
    return exit_usage;
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt(name_));
  spdlog::set_formatter(make_log_formatter());
  // What goes wrong with a pipe, or beyond a limit on the size of files (ulimit -f), the call tells.
  for (const int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
  if (parser_->parent != 0 && !end_with_parent(parser_->parent, SIGTERM)) return exit_failed;
  return std::nullopt;
}

pid_t CommandLine::parent() const { return parser_->parent; }

Result<std::string> read_plan(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream file(path, std::ios::binary);
  if (!file) return errno_error(errno, "open plan " + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<nlohmann::json> read_json_plan(const std::string& path) {
  PEN_ASSIGN(const auto text, read_plan(path));
  auto plan = nlohmann::json::parse(text, nullptr, false);
  if (plan.is_discarded()) return make_error(Errc::malformed, "plan {} is not JSON", path);
  return plan;
}

void set_log_level(const std::string& level) { spdlog::set_level(spdlog::level::from_str(level)); }

void log_in_background() {
  constexpr std::size_t lines_max = 8192;
  spdlog::init_thread_pool(lines_max, 1, [] { begin_thread("pen-log", Role::other); });
  const auto before = spdlog::default_logger();
  auto logger =
      std::make_shared<spdlog::async_logger>(before->name(), before->sinks().begin(), before->sinks().end(),
                                             spdlog::thread_pool(), spdlog::async_overflow_policy::overrun_oldest);
  logger->set_level(before->level());
  spdlog::set_default_logger(std::move(logger));
}

void log_refusals() {
  set_refusal_listener([](const Refusal& refusal) { spdlog::warn("{}", text_of(refusal)); });
}

nlohmann::json failure_fields(const Error& why) {
  return {{"code", std::string(name(why.code()))}, {"path", ""}, {"detail", why.message()}};
}

int exit_code_of(const Error& why) {
  emit("failed", failure_fields(why));
  return exit_code_without_event(why);
}

int exit_code_without_event(const Error& why) {
  spdlog::critical("{}", why.message());
  return why.code() == Errc::invalid_argument ? exit_usage : exit_failed;
}

std::atomic<bool>& stop_on_signals() {
  std::signal(SIGINT, stop);
  std::signal(SIGTERM, stop);
  return stopped;
}

int stop_signal() { return first_signal; }

void emit(std::string_view event, nlohmann::json fields) {
  static std::mutex one_line;
  fields["event"] = event;
  fields["time"] = static_cast<double>(realtime_ns()) * 1e-9;
  const auto line = fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::lock_guard lock(one_line);
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

}  // namespace penstock::program
