#include "recorder/told.hpp"

#include <algorithm>
#include <utility>

namespace penstock::recorder {
namespace {

constexpr std::size_t kinds_max = 256;
constexpr std::int64_t interval_first_ns = 10'000'000'000;
constexpr std::int64_t interval_max_ns = 600'000'000'000;

/// Frames without a start come for as long as the detector runs: one line says it all.
unsigned at_once(Errc code) { return code == Errc::out_of_order ? 1 : 5; }

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

std::string kind_of(Errc code, std::string_view message) {
  constexpr std::size_t bytes_max = 512;
  std::string kind(name(code));
  bool quoted = false;
  for (const char letter : message.substr(0, bytes_max)) {
    if (letter == '"') quoted = !quoted;
    if (quoted || !is_digit(letter))
      kind.push_back(letter);
    else if (kind.back() != '#')
      kind.push_back('#');
  }
  return kind;
}

}  // namespace

std::optional<std::uint64_t> Told::may_tell(Errc code, std::string_view message, std::int64_t now_ns) {
  if (kinds_.size() >= kinds_max) kinds_.clear();
  auto& kind = kinds_[kind_of(code, message)];
  if (kind.told < at_once(code)) {
    ++kind.told;
    kind.interval_ns = interval_first_ns;
    kind.next_ns = now_ns + kind.interval_ns;
    return 0;
  }
  if (now_ns < kind.next_ns) {
    ++kind.silent;
    return std::nullopt;
  }
  kind.interval_ns = std::min(2 * kind.interval_ns, interval_max_ns);
  kind.next_ns = now_ns + kind.interval_ns;
  return std::exchange(kind.silent, 0);
}

}  // namespace penstock::recorder
