/// How often a test with random rounds repeats them.
#pragma once

namespace penstock::testing {

/// `all` in an ordinary build; a third of them under a sanitizer, where each takes five times as long.
constexpr int rounds(int all) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return all / 3;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return all / 3;
#else
  return all;
#endif
#else
  return all;
#endif
}

}  // namespace penstock::testing
