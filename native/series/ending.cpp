#include "series/ending.hpp"

#include <algorithm>

namespace penstock::series {
namespace {

/// For a sender that was asked to connect again and to send what the storage did not take.
constexpr Time again_patience = 5 * second;

}  // namespace

void Ending::set(Time now, Time patience, bool all, EndedBy why, bool has_elements) {
  if (has_elements || !set_) at_ = now;
  set_ = true;
  patience_ = patience;
  all_ = all;
  why_ = why;
}

bool Ending::is_over(Time now, const Facts& facts, const Timeouts& timeouts, bool has_elements, bool ranked) const {
  const auto since_last = now - facts.last_activity;
  if (facts.hopeless) return true;
  // The end message of a series that is whole is not waited for without end.
  if (!set_) return facts.whole && since_last >= timeouts.end && !facts.busy;
  // What the storage did not take may come again, but it is not waited for without end.
  const bool may_wait = now - at_ < timeouts.idle;
  if (may_wait && facts.losers) return false;
  const auto last_sign = facts.lost ? std::max(facts.asked_again, facts.last_activity) : facts.asked_again;
  if (may_wait && facts.asked_again != 0 && now - last_sign < again_patience) return false;
  const bool ends_may_follow = has_elements && !all_ && since_last < timeouts.end;
  // What is on its way to the storage may have to come again.
  if (may_wait && facts.busy) return false;
  if (facts.whole && !ends_may_follow) return true;
  return now - std::max(at_, facts.last_activity) >= patience_ && !(ranked && facts.busy);
}

std::optional<Time> Ending::left(Time now, const Facts& facts, const Timeouts& timeouts) const {
  if (!set_ && !facts.whole) return std::nullopt;
  const auto patience = set_ ? patience_ : timeouts.end;
  return std::max<Time>(0, patience - (now - std::max(set_ ? at_ : 0, facts.last_activity)));
}

bool Ending::is_silent(Time now, const Facts& facts, const Timeouts& timeouts) const {
  return timeouts.after > 0 && !set_ && facts.any_frame && !facts.busy && now - facts.last_activity >= timeouts.after;
}

EndedBy Ending::ended_by(const Facts& facts) const {
  if (set_) return why_;
  return facts.whole ? EndedBy::count : EndedBy::stop;
}

}  // namespace penstock::series
