/// How often a test with random or numbered rounds repeats them.
#pragma once

namespace penstock::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif
#else
inline constexpr bool is_sanitized = false;
#endif

/// Returns `all` in an ordinary build, and one in `share` of them under a sanitizer, where each takes many times as
/// long. `make test-all` runs all of them in the release build.
template <typename Number>
constexpr Number rounds(Number all, Number share = 3) {
  return is_sanitized ? all / share : all;
}

}  // namespace penstock::testing
