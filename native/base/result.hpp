/// Errors as values.
///
/// A fallible function returns `Result<T>`: a value or an `Error`. An error carries a code from one
/// table, and a sentence that names the thing, the value and, where there is one, the remedy. Each
/// hop that knows more adds context with `PEN_TRY`. Nothing here throws except `value()` on an
/// error, which is a mistake of ours and never reachable from outside input.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace penstock {

/// What kind of failure; banded by subsystem so that scripts can distinguish them.
enum class Errc : int {
  // anywhere
  invalid_argument = 1,
  out_of_memory = 2,
  cancelled = 3,
  timed_out = 4,
  internal = 5,
  // input from outside: 100
  malformed = 100,
  truncated = 101,
  too_large = 102,
  unsupported = 103,
  out_of_order = 104,
  mismatch = 105,
  refused = 106,
  no_place = 107,  ///< not yet: a start that has to wait for a file to be closed
  // operating system and storage: 200
  io = 200,
  not_found = 201,
  already_exists = 202,
  permission = 203,
  no_space = 204,
  locked = 205,
  disconnected = 206,
  // the file: 300
  corrupt = 300,
  hdf5 = 301,
};

/// The name of a code in lower case with underscores, as it appears in logs and metrics.
std::string_view name(Errc code);

class [[nodiscard]] Error {
 public:
  Error(Errc code, std::string message) : code_(code), message_(std::move(message)) {}

  Errc code() const { return code_; }
  const std::string& message() const { return message_; }

  /// The same error with what the caller was doing in front of it.
  Error with_context(std::string_view context) const { return Error(code_, fmt::format("{}: {}", context, message_)); }

 private:
  Errc code_;
  std::string message_;
};

template <typename... Args>
Error make_error(Errc code, fmt::format_string<Args...> format, Args&&... args) {
  return Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// The error for a failed system call: `what` names the call and its object, `errnum` is errno.
Error errno_error(int errnum, std::string_view what);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<std::monostate, Error> state_;
};

}  // namespace penstock

#define PEN_CONCAT_INNER(a, b) a##b
#define PEN_CONCAT(a, b) PEN_CONCAT_INNER(a, b)

/// Runs an expression of type Result<void>; on error returns it, with context where given:
/// `PEN_TRY(file.sync(), "segment {}", id);`
#define PEN_TRY(expression, ...)                                                                                    \
  do {                                                                                                              \
    if (auto pen_result_ = (expression); !pen_result_.ok())                                                         \
      return ::penstock::detail::in_context(std::move(pen_result_).error() __VA_OPT__(, fmt::format(__VA_ARGS__))); \
  } while (false)

/// The same for Result<T>, declaring `target` with the value:
/// `PEN_ASSIGN(auto file, env.open(path), "target {}", path);`
#define PEN_ASSIGN(target, expression, ...) \
  PEN_ASSIGN_INNER(PEN_CONCAT(pen_result_, __COUNTER__), target, expression __VA_OPT__(, ) __VA_ARGS__)
#define PEN_ASSIGN_INNER(temporary, target, expression, ...)                                                    \
  auto temporary = (expression);                                                                                \
  if (!temporary.ok())                                                                                          \
    return ::penstock::detail::in_context(std::move(temporary).error() __VA_OPT__(, fmt::format(__VA_ARGS__))); \
  target = std::move(temporary).value()

namespace penstock::detail {
inline Error in_context(Error error) { return error; }
inline Error in_context(const Error& error, const std::string& context) { return error.with_context(context); }
}  // namespace penstock::detail
