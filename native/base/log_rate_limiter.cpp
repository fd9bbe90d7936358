#include "base/log_rate_limiter.hpp"

#include <algorithm>
#include <utility>

namespace penstock {
namespace {

constexpr std::size_t kinds_max = 256;
constexpr std::size_t kind_bytes_max = 512;

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

}  // namespace

std::optional<std::uint64_t> LogRateLimiter::admit(std::string_view kind, std::int64_t now_ns) {
  MutexLock lock(mutex_);
  if (kinds_.size() >= kinds_max) kinds_.clear();
  auto& known = kinds_[std::string(kind)];
  if (known.logged < limits_.burst) {
    ++known.logged;
    known.interval_ns = limits_.interval_ns;
  } else if (now_ns < known.next_ns) {
    ++known.suppressed;
    return std::nullopt;
  } else {
    known.interval_ns = std::min(2 * known.interval_ns, limits_.interval_ns_max);
  }
  known.next_ns = now_ns + known.interval_ns;
  return std::exchange(known.suppressed, 0);
}

std::string message_kind(Errc code, std::string_view message) {
  std::string kind(name(code));
  bool quoted = false;
  for (const char letter : message.substr(0, kind_bytes_max)) {
    if (letter == '"') quoted = !quoted;
    if (quoted || !is_digit(letter))
      kind.push_back(letter);
    else if (kind.back() != '#')
      kind.push_back('#');
  }
  return kind;
}

std::string and_suppressed(std::uint64_t suppressed) {
  return suppressed == 0 ? std::string() : " (and " + std::to_string(suppressed) + " more like it)";
}

}  // namespace penstock
