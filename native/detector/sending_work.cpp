#include "detector/sending_work.hpp"

#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "base/time/clock.hpp"

namespace penstock::detector {
namespace {

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

SendingWork::Clocks SendingWork::now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return {monotonic_ns(), std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec};
}

void SendingWork::begin() {
  sender_ = ::gettid();
  before_ = thread_times();
  paced_ = {};
  began_ = now();
}

void SendingWork::end() {
  const auto ended = now();
  seconds_ns_ = ended.wall_ns - began_.wall_ns;
  running_ns_ = ended.processor_ns - began_.processor_ns - paced_.processor_ns;
  busiest_ns_ = delayed_ns_ = 0;
  for (const auto& times : thread_times()) {
    const auto known = std::ranges::find(before_, times.id, &ThreadTimes::id);
    const auto delayed = times.delayed_ns - (known == before_.end() ? 0 : known->delayed_ns);
    const auto running = times.running_ns - (known == before_.end() ? 0 : known->running_ns);
    if (times.id == sender_) delayed_ns_ = delayed;
    busiest_ns_ = std::max(busiest_ns_, delayed + (times.id == sender_ ? running_ns_ : running));
  }
}

nlohmann::json SendingWork::description() const {
  const auto blocked_ns = std::max<std::int64_t>(0, seconds_ns_ - paced_.wall_ns - running_ns_ - delayed_ns_);
  return {{"seconds", seconds(seconds_ns_)},
          {"paced", seconds(paced_.wall_ns)},
          {"running", seconds(running_ns_)},
          {"delayed", seconds(delayed_ns_)},
          {"blocked", seconds(blocked_ns)},
          {"busiest", seconds_ns_ > 0 ? std::min(1.0, seconds(busiest_ns_) / seconds(seconds_ns_)) : 0.0}};
}

}  // namespace penstock::detector
