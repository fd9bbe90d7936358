#include "recorder/series/resume/recover_child.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>

namespace penstock::recorder {
namespace {

using nlohmann::json;

/// One end of a pipe.
class End {
 public:
  explicit End(int descriptor = -1) : descriptor_(descriptor) {}
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  ~End() { close(); }
  void take(int descriptor) { descriptor_ = descriptor; }
  int get() const { return descriptor_; }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_;
};

struct Pipe {
  End read;
  End write;

  Result<void> open() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error(errno, "a pipe for penstock-recover");
    read.take(ends[0]);
    write.take(ends[1]);
    return {};
  }
};

/// What the child is started with: its two pipes, no other descriptor, and no signal blocked or ignored.
class SpawnSettings {
 public:
  SpawnSettings(const Pipe& input, const Pipe& output) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, input.read.get(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, output.write.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

Result<pid_t> start(const std::string& program, const Pipe& input, const Pipe& output) {
  const SpawnSettings settings(input, output);
  auto parent = std::to_string(::getpid());
  std::string plan = "--plan", standard_input = "-", lifetime = "--for";
  auto name = program;
  const std::array<char*, 6> arguments{name.data(),     plan.data(),   standard_input.data(),
                                       lifetime.data(), parent.data(), nullptr};
  pid_t child = 0;
  const int failed =
      ::posix_spawn(&child, program.c_str(), settings.actions(), settings.attributes(), arguments.data(), environ);
  if (failed != 0)
    return errno_error(failed, fmt::format("start {}, which completes the file of a killed recorder", program));
  return child;
}

/// Short enough for the pipe to hold it, so that this does not wait. SIGPIPE is ignored in a recorder.
Result<void> write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const auto count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(errno, "send penstock-recover its job");
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

/// Of the child's events the last one that tells an outcome.
json read_outcome(int descriptor) {
  json outcome;
  std::string line;
  std::array<char, 64 << 10> piece{};
  while (true) {
    const auto count = ::read(descriptor, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return outcome;
    for (const char c : std::string_view(piece.data(), static_cast<std::size_t>(count))) {
      if (c != '\n') {
        line += c;
        continue;
      }
      auto event = json::parse(line, nullptr, false);
      line.clear();
      if (event.is_object() && (event.value("event", "") == "report" || event.value("event", "") == "failed"))
        outcome = std::move(event);
    }
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Result<json> run_recover_child(const json& plan) {
  std::error_code unknown;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (unknown) return errno_error(unknown.value(), "find the folder of this program, where penstock-recover is");
  const auto program = std::filesystem::path(self).replace_filename("penstock-recover").string();
  Pipe input, output;
  PEN_TRY(input.open());
  PEN_TRY(output.open());
  PEN_ASSIGN(const auto child, start(program, input, output));
  input.read.close();
  output.write.close();
  const auto told = write_all(input.write.get(), plan.dump(-1, ' ', false, json::error_handler_t::replace));
  input.write.close();
  const auto outcome = read_outcome(output.read.get());
  const int status = wait_for(child);
  if (outcome.is_object() && outcome.value("event", "") == "failed")
    return Error(static_cast<Errc>(outcome.value("number", static_cast<int>(Errc::internal))),
                 outcome.value("detail", std::string("penstock-recover failed")));
  PEN_TRY(told);
  if (status != 0 || !outcome.is_object())
    return make_error(Errc::internal, "penstock-recover ended without a report (wait status {}); see its log", status);
  return outcome;
}

}  // namespace penstock::recorder
