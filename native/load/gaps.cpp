#include "load/gaps.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/time/clock.hpp"

namespace penstock::load {
namespace {

constexpr std::chrono::milliseconds between_looks{10};

}  // namespace

void Gaps::add(std::int64_t begin_ns, std::int64_t end_ns) {
  const auto gap_ns = end_ns - begin_ns;
  longest_ns = std::max(longest_ns, gap_ns);
  if (gap_ns < counted_ns_min) return;
  sum_ns += gap_ns;
  if (listed.size() < listed_max) listed.push_back({begin_ns, end_ns});
}

Json to_json(const Gaps& gaps) {
  return {{"longest_ns", static_cast<std::uint64_t>(gaps.longest_ns)},
          {"sum_ns", static_cast<std::uint64_t>(gaps.sum_ns)}};
}

GapWatch::~GapWatch() {
  {
    MutexLock lock(mutex_);
    goes_ = true;
  }
  told_.notify_all();
  // It waits for nothing else.
  while (!crew_.wait_until(monotonic_ns() + 1'000'000'000)) continue;
}

Result<void> GapWatch::start() {
  return crew_.start("pen-load-watch", Role::other, [this] { look_on(); });
}

void GapWatch::begin() {
  MutexLock lock(mutex_);
  measures_ = true;
  gaps_ = {};
  looked_ns_ = monotonic_ns();
}

Gaps GapWatch::end() {
  MutexLock lock(mutex_);
  // Whoever ends the phase may have woken up before the thread that looks.
  look();
  measures_ = false;
  return std::exchange(gaps_, {});
}

void GapWatch::look_on() {
  MutexLock lock(mutex_);
  while (!goes_) {
    told_.wait_for(lock, between_looks);
    look();
  }
}

void GapWatch::look() {
  if (!measures_) return;
  const auto now_ns = monotonic_ns();
  gaps_.add(looked_ns_, now_ns);
  looked_ns_ = now_ns;
}

}  // namespace penstock::load
