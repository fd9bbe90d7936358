/// penstock-recorder: records series after series into HDF5 files, as its plan says.

#include "recorder/recorder.hpp"

#include <malloc.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "stream/tcp.hpp"
#include "stream/zmq_source.hpp"

namespace {

using namespace penstock;
using nlohmann::json;

constexpr int exit_failed = 1;
constexpr int exit_usage = 2;

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

Result<std::unique_ptr<Source>> make_source(const recorder::SourceConfig& config, std::uint64_t frame_bytes_max) {
  if (config.kind == recorder::SourceConfig::Kind::tcp) {
    stream::TcpSourceOptions options;
    options.host = config.host;
    options.port = config.port;
    options.token = config.token;
    options.limits.frame_bytes_max = frame_bytes_max;
    return stream::make_tcp_source(options);
  }
  stream::ZmqSourceOptions options;
  options.endpoint = config.endpoint;
  options.bind = config.bind;
  options.limits.frame_bytes_max = frame_bytes_max;
  return stream::make_zmq_source(options);
}

Result<void> start_sources(const recorder::Config& config, recorder::Recorder& recorder,
                           std::vector<std::unique_ptr<Source>>& sources, recorder::Events& events) {
  json addresses = json::array(), pulled = json::array();
  for (const auto& source_config : config.sources) {
    PEN_ASSIGN(auto source, make_source(source_config, config.frame_bytes_max));
    PEN_TRY(source->start(recorder));
    const bool connects = source_config.kind == recorder::SourceConfig::Kind::zmq && !source_config.bind;
    spdlog::info("{} {}", connects ? "pulling from" : "listening on", source->address());
    if (connects) pulled.push_back(source->address());
    addresses.push_back(source->address());
    sources.push_back(std::move(source));
  }
  events.emit("listening", {{"sources", addresses}, {"pulled", pulled}});
  return {};
}

/// Until a signal comes or enough series are closed.
void wait_until_told(const sigset_t& signals, const recorder::Config& config, recorder::Recorder& recorder) {
  const timespec moment{0, 100'000'000};
  while (true) {
    const int signal = sigtimedwait(&signals, nullptr, &moment);
    if (signal > 0) {
      spdlog::info("{}: completing the files", signal == SIGINT ? "interrupted" : "told to stop");
      return;
    }
    if (config.series_limit > 0 && recorder.wait_for_limit(std::chrono::milliseconds(0))) return;
  }
}

int run(const std::string& plan_path) {
  auto plan = read_plan(plan_path);
  if (!plan.ok()) {
    spdlog::critical("{}", plan.error().message());
    return exit_usage;
  }
  auto config = recorder::Config::from_json(*plan);
  if (!config.ok()) {
    spdlog::critical("{}", config.error().message());
    return exit_usage;
  }
  spdlog::set_level(spdlog::level::from_str(config->log_level));

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread, so that only sigtimedwait sees them
  std::signal(SIGPIPE, SIG_IGN);

  recorder::Events events(stdout);
  recorder::Recorder recorder(posix_env(), *config, events);
  std::vector<std::unique_ptr<Source>> sources;
  Result<void> started = recorder.start();
  if (started.ok()) started = start_sources(*config, recorder, sources, events);
  if (started.ok()) wait_until_told(signals, *config, recorder);
  for (auto& source : sources) source->stop();
  recorder.stop();
  if (!started.ok()) {
    spdlog::critical("{}", started.error().message());
    return started.error().code() == Errc::invalid_argument ? exit_usage : exit_failed;
  }
  events.emit("stopped", {{"failed_series", recorder.failed_series()}});
  return recorder.failed_series() == 0 ? 0 : exit_failed;
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("penstock-recorder"));
  // Large messages come and go all the time: their memory is kept rather than mapped anew.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that it takes
  mallopt(M_TRIM_THRESHOLD, 1 << 30);

  CLI::App app{
      "Records detector streams into HDF5/NeXus files. `penstock record` writes the plan and runs this program.\n"
      "Events go to standard output as JSON lines, the log to standard error.\n"
      "Exit status: 0 done, 1 a series failed, 2 the plan is wrong."};
  std::string plan;
  app.add_option("--plan", plan, "JSON file with the whole job; - is standard input")->required();
  app.set_version_flag("--version", "penstock-recorder " PENSTOCK_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_usage;
  }
  return run(plan);
}
