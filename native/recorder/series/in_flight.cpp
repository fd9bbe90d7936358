#include "recorder/series/in_flight.hpp"

#include "base/invariant.hpp"

namespace penstock::recorder {

bool InFlight::begin_task() {
  std::lock_guard lock(mutex_);
  if (closing_) return false;
  ++tasks_;
  return true;
}

void InFlight::add_task() {
  std::lock_guard lock(mutex_);
  ++tasks_;
}

void InFlight::end_task() {
  std::lock_guard lock(mutex_);
  PEN_INVARIANT(tasks_ > 0);
  if (--tasks_ == 0) idle_.notify_all();
}

void InFlight::admitted() {
  std::lock_guard lock(mutex_);
  ++unsettled_;
}

void InFlight::settled(std::uint64_t frames) {
  std::lock_guard lock(mutex_);
  PEN_INVARIANT(frames <= unsettled_);
  unsettled_ -= frames;
  if (unsettled_ == 0) idle_.notify_all();
}

bool InFlight::busy(std::uint64_t waiting) const {
  std::lock_guard lock(mutex_);
  return tasks_ > 0 || unsettled_ > waiting;
}

std::uint64_t InFlight::unsettled() const {
  std::lock_guard lock(mutex_);
  return unsettled_;
}

void InFlight::wait_until_settled() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return unsettled_ == 0; });
}

}  // namespace penstock::recorder
