/// Errors as values.
///
/// A fallible function returns `Result<T>`: a value or an `Error`. An error carries a code from one
/// table, and a sentence that names the thing, the value and, where there is one, the remedy. Each
/// hop that knows more adds context with `PEN_TRY`. Nothing here throws except `value()` on an
/// error, which is a mistake of ours and never reachable from outside input.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

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
  no_place = 107,  ///< at the moment: who tries again may get one
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
  Error with_context(std::string_view context) const;

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

namespace detail {
/// A value was asked of an error, or the other way round.
[[noreturn]] void wrong_alternative();
}  // namespace detail

/// A union instead of std::variant: there are results of some 150 types, and a variant of each would be a fifth of what
/// the compiler makes.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : ok_(true), value_(std::move(value)) {}
  Result(Error error) : ok_(false), error_(std::move(error)) {}
  Result(const Result& other) requires std::copy_constructible<T> : ok_(other.ok_) {
    if (ok_)
      std::construct_at(&value_, other.value_);
    else
      std::construct_at(&error_, other.error_);
  }
  Result(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>) : ok_(other.ok_) {
    if (ok_)
      std::construct_at(&value_, std::move(other.value_));
    else
      std::construct_at(&error_, std::move(other.error_));
  }
  Result& operator=(Result other) noexcept {
    std::destroy_at(this);
    std::construct_at(this, std::move(other));
    return *this;
  }
  ~Result() {
    if (ok_)
      std::destroy_at(&value_);
    else
      std::destroy_at(&error_);
  }

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }

  T& value() & {
    if (!ok_) detail::wrong_alternative();
    return value_;
  }
  const T& value() const& {
    if (!ok_) detail::wrong_alternative();
    return value_;
  }
  T&& value() && {
    if (!ok_) detail::wrong_alternative();
    return std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    if (ok_) detail::wrong_alternative();
    return error_;
  }
  Error&& error() && {
    if (ok_) detail::wrong_alternative();
    return std::move(error_);
  }

 private:
  bool ok_;
  union {
    T value_;
    Error error_;
  };
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& {
    if (ok()) detail::wrong_alternative();
    return *error_;
  }
  Error&& error() && {
    if (ok()) detail::wrong_alternative();
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
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
