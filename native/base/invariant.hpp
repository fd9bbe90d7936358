/// Checks of what the code itself guarantees, in every build.
///
/// `PEN_INVARIANT(next_ <= extent_end_)` ends the process if the condition is false: a recorder whose accounting is
/// wrong must not write any further, and a killed recorder loses no acknowledged frame. Never use it for input: what
/// comes from outside is answered with a `Result`. The condition is evaluated once and has to be cheap.
#pragma once

namespace penstock {

/// Prints the condition and its place to standard error, and aborts.
[[noreturn]] void invariant_broken(const char* condition, const char* file, int line) noexcept;

}  // namespace penstock

#define PEN_INVARIANT(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::penstock::invariant_broken(#condition, __FILE__, __LINE__))
