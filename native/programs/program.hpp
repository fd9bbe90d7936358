/// What the programs share: command line, log, the text of the plan, signals, events. Kept apart so that what reads
/// command lines, which takes a compiler long, is compiled once.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace penstock::program {

constexpr int exit_failed = 1;
constexpr int exit_usage = 2;

/// "0.1.0"
extern const char* const version;

/// Each takes --version, and --for: the process that it does not outlive, its parent. What options are read into lives
/// until parse() has returned.
class CommandLine {
 public:
  /// `about`: text of --help.
  CommandLine(const std::string& name, const std::string& about);
  ~CommandLine();

  /// `--plan`, and `--describe-config`, which prints `description` as JSON and ends the program. `required`: one of
  /// them has to be there.
  void plan(std::string& path, nlohmann::json (*description)(), bool required = true);
  /// An option with a value.
  void text(const std::string& option, std::string& value, const std::string& help);
  void flag(const std::string& option, bool& value, const std::string& help);
  void number(const std::string& option, unsigned& value, unsigned least, unsigned most, const std::string& help);
  /// What stands without an option.
  void rest(const std::string& name, std::vector<std::string>& values, const std::string& help);

  /// The exit code, where the program ends here. Else the log goes to standard error under the program's name, a
  /// reader of standard output that goes away kills nobody, and a SIGTERM comes when the parent dies. To be called
  /// before other threads are there.
  std::optional<int> parse(int argc, char** argv);
  /// Of --for; 0 where it is not given.
  pid_t parent() const;

 private:
  struct Parser;
  const std::string name_;
  std::unique_ptr<Parser> parser_;
};

/// The text of a plan; "-" is standard input.
Result<std::string> read_plan(const std::string& path);
/// The same, parsed.
Result<nlohmann::json> read_json_plan(const std::string& path);

/// Names as in plans: "debug", "info", "warning" …
void set_log_level(const std::string& level);

/// From now on nobody waits for a reader of the log that takes nothing for a while (its user stopped it, say): the
/// oldest lines are lost then. For a program that has blocked its signals. Its thread writes what is left at the exit.
void log_in_background();
/// From now on the log has a warning for what a file system refuses, and files do without.
void log_refusals();

/// Of the event "failed".
nlohmann::json failure_fields(const Error& why);
/// Writes the error to the log and as the event "failed", and gives the exit code: a plan that asks for what cannot be
/// had is wrong, whenever that shows.
int exit_code_of(const Error& why);
/// The same for a program whose events do not go through emit().
int exit_code_without_event(const Error& why);

/// Set by SIGINT and SIGTERM from the first call on, and by whoever else wants the program to end early.
std::atomic<bool>& stop_on_signals();
/// The first of these signals that came; 0: none. A program that did not do all of its work for it ends with
/// 128 and the signal's number, as shells expect.
int stop_signal();

/// One event a line on standard output, with its time (seconds since 1970). Safe from several threads; a reader that
/// has gone away is not an error.
void emit(std::string_view event, nlohmann::json fields);

}  // namespace penstock::program
