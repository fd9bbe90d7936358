#include "recorder/series/accounting/ledger.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/time/clock.hpp"

namespace penstock::recorder {

namespace {

/// Of frames; a sender that says more never waits for a single block.
constexpr std::uint64_t window_max = 1 << 20;
/// For a client whose connection broke to come back, and of how many that is hoped.
constexpr std::int64_t gone_patience_ns = 2'000'000'000;
constexpr std::size_t gone_max = 64;

std::uint32_t bit_of(std::uint32_t part) { return 1u << part; }

}  // namespace

Ledger::Ledger(unsigned parts)
    : all_parts_(parts >= 32 ? 0xFFFF'FFFFu : bit_of(parts) - 1), entries_(all_parts_), parts_(parts) {}

Ledger::Admission Ledger::receive(FrameNumber number, std::uint32_t part, const Session& session, bool more) {
  std::lock_guard lock(mutex_);
  const auto n = value(number);
  const auto bit = bit_of(part);
  if (!entries_.may_hold(n, counts_.received)) return Admission::no_room;
  auto& frame = entry(n);
  if (session) {
    auto& sent = sessions_[session];
    if (watches_windows_ && sent.end == 0)
      sent.window = std::min(session->window_frames(), window_max) * std::popcount(all_parts_);
    sent.end = std::max(sent.end, n + 1);
    sent.begun = more ? std::optional(n) : std::nullopt;
    if (sent.kept.size() < sent.window) sent.kept.push_back(n);
    if (!(frame.safe & bit)) sent.waiting.emplace(n, part);
  }
  if (frame.received & bit) {
    note_duplicate(part);
    return Admission::duplicate;
  }
  // One that was lost and is sent again came in time before.
  if (n + 1 < parts_[part].end && !(frame.lost & bit)) {
    ++counts_.late;
    ++parts_[part].counts.late;
  }
  counts_.end = std::max(counts_.end, n + 1);
  parts_[part].end = std::max(parts_[part].end, n + 1);
  take(frame, part);
  return Admission::take;
}

/// With mutex_ held: of a part that was not received.
void Ledger::take(Entry& frame, std::uint32_t part) {
  if (frame.lost & bit_of(part)) --still_lost_;
  frame.lost &= ~bit_of(part);
  frame.received |= bit_of(part);
  ++parts_[part].counts.received;
  if (frame.received == all_parts_) ++counts_.received;
}

/// With mutex_ held.
void Ledger::note_duplicate(std::uint32_t part) {
  ++counts_.duplicate;
  ++parts_[part].counts.duplicate;
}

void Ledger::note_unplaced(std::uint64_t number, FrameState state) {
  if (!entries_.may_hold(number, counts_.received)) return;
  counts_.end = std::max(counts_.end, number + 1);
  entry(number).state = state;
  unplaced_.push_back(number);
}

void Ledger::damaged(FrameNumber number, std::optional<std::uint32_t> part) {
  std::lock_guard lock(mutex_);
  ++counts_.damaged;
  if (part) ++parts_[*part].counts.damaged;
  note_unplaced(value(number), FrameState::damaged);
}

void Ledger::dropped(FrameNumber number) {
  std::lock_guard lock(mutex_);
  ++counts_.dropped;
  note_unplaced(value(number), FrameState::dropped);
}

void Ledger::settle(const Item& item) {
  for (auto& [session, sent] : sessions_) sent.waiting.erase({value(item.number), item.part});
}

void Ledger::placed(std::span<const Item> items) {
  std::lock_guard lock(mutex_);
  for (const auto& item : items) {
    entry(value(item.number)).safe |= bit_of(item.part);
    settle(item);
  }
}

bool Ledger::whole(FrameNumber number) {
  std::lock_guard lock(mutex_);
  return entry(value(number)).safe == all_parts_;
}

void Ledger::lost(std::span<const Item> items) {
  std::lock_guard lock(mutex_);
  for (const auto& item : items) {
    if (entry(value(item.number)).safe & bit_of(item.part)) {
      // Another rank's copy is in the file.
      note_duplicate(item.part);
      settle(item);
      continue;
    }
    take_back(item);
    // However often it is tried.
    if (entry(value(item.number)).state != FrameState::lost) ++counts_.lost;
    if (auto& frame = entry(value(item.number)); !(frame.lost & bit_of(item.part))) {
      frame.lost |= bit_of(item.part);
      ++still_lost_;
    }
    note_unplaced(value(item.number), FrameState::lost);
    // It stays in the sessions' waiting sets, so that no acknowledgement passes it.
    for (auto& [session, sent] : sessions_)
      sent.has_lost = sent.has_lost || sent.waiting.contains({value(item.number), item.part});
  }
}

void Ledger::give_up(const Item& item, FrameState why) {
  std::lock_guard lock(mutex_);
  settle(item);
  if (entry(value(item.number)).safe & bit_of(item.part)) {
    note_duplicate(item.part);  // another rank's copy is in the file
    return;
  }
  take_back(item);
  ++(why == FrameState::damaged ? counts_.damaged : counts_.dropped);
  if (why == FrameState::damaged) ++parts_[item.part].counts.damaged;
  note_unplaced(value(item.number), why);
}

/// With mutex_ held: it counts as not received.
void Ledger::take_back(const Item& item) {
  auto& frame = entry(value(item.number));
  if (frame.received == all_parts_) --counts_.received;
  if (frame.received & bit_of(item.part)) --parts_[item.part].counts.received;
  frame.received &= ~bit_of(item.part);
}

void Ledger::already_there(std::span<const Item> items) {
  std::lock_guard lock(mutex_);
  for (const auto& item : items) {
    entry(value(item.number)).safe |= bit_of(item.part);
    note_duplicate(item.part);
    settle(item);
  }
}

std::vector<FrameNumber> Ledger::placed_elsewhere(std::span<const Item> items) {
  std::lock_guard lock(mutex_);
  std::vector<FrameNumber> whole;
  for (const auto& item : items) {
    auto& frame = entry(value(item.number));
    if (!(frame.received & bit_of(item.part))) take(frame, item.part);
    frame.safe |= bit_of(item.part);
    if (frame.safe == all_parts_) whole.push_back(item.number);
    counts_.end = std::max(counts_.end, value(item.number) + 1);
    settle(item);
  }
  return whole;
}

void Ledger::unplaced_elsewhere(FrameNumber number, FrameState state) {
  std::lock_guard lock(mutex_);
  note_unplaced(value(number), state);
}

void Ledger::add(const LedgerCounts& of_another) {
  std::lock_guard lock(mutex_);
  counts_.add_anomalies(of_another);
  counts_.end = std::max(counts_.end, of_another.end);
  added_.add_anomalies(of_another);
}

std::vector<Ledger::Notice> Ledger::take_notices() {
  std::lock_guard lock(mutex_);
  std::vector<Notice> notices;
  forget_gone();
  for (auto& [session, sent] : sessions_) {
    const auto put = sent.waiting.empty() ? sent.end : sent.waiting.begin()->first;
    const auto below = std::min(put, sent.begun.value_or(put));
    if (below <= sent.told) continue;
    sent.told = below;
    while (!sent.kept.empty() && sent.kept.front() < below) sent.kept.pop_front();
    notices.push_back({session, FrameNumber{below}});
  }
  return notices;
}

std::optional<Ledger::Item> Ledger::held_up_by(const Session& session) {
  std::lock_guard lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return std::nullopt;
  const auto& sent = found->second;
  if (sent.window == 0 || sent.waiting.empty() || sent.kept.size() < sent.window) return std::nullopt;
  const auto& [number, channel] = *sent.waiting.begin();
  return Item{FrameNumber{number}, channel};
}

void Ledger::expect(const Session& session) {
  std::lock_guard lock(mutex_);
  if (watches_windows_) sessions_.try_emplace(session);
}

/// Of the frame that it put last, another channel may follow.
bool Ledger::Sent::may_bring(const Session& self, std::uint64_t number, bool waited) const {
  if (end > number + 1 || vain_end == end) return false;
  return self->waiting > 0 ? !waited : !self->has_ended();
}

std::optional<std::uint64_t> Ledger::is_awaited(FrameNumber number, const Session& session, bool waited) {
  std::lock_guard lock(mutex_);
  forget_gone();
  std::optional<std::uint64_t> come;
  for (const auto& [other, sent] : sessions_)
    if (other != session && sent.may_bring(other, value(number), waited)) come = come.value_or(0) + sent.end;
  return come;
}

/// With mutex_ held. A client that comes back, often perhaps, is another session each time: whoever is gone is
/// forgotten, after a while where somebody may wait for it.
void Ledger::forget_gone() {
  const auto now = monotonic_ns();
  std::size_t gone = 0;
  for (auto each = sessions_.begin(); each != sessions_.end();) {
    auto& [session, sent] = *each;
    const bool is_gone = session.use_count() == 1;
    if (is_gone && sent.gone_ns == 0) sent.gone_ns = now;
    const bool may_come_back = watches_windows_ && !session->has_ended() && now - sent.gone_ns <= gone_patience_ns;
    if (is_gone && (!may_come_back || ++gone > gone_max))
      each = sessions_.erase(each);
    else
      ++each;
  }
}

void Ledger::await_no_longer(FrameNumber number, const Session& session, bool waited) {
  std::lock_guard lock(mutex_);
  for (auto& [other, sent] : sessions_)
    if (other != session && sent.may_bring(other, value(number), waited)) sent.vain_end = sent.end;
}

std::vector<Session> Ledger::take_losers() {
  std::lock_guard lock(mutex_);
  std::vector<Session> losers;
  for (auto& [session, sent] : sessions_)
    if (std::exchange(sent.has_lost, false)) losers.push_back(session);
  return losers;
}

bool Ledger::has_losers() const {
  std::lock_guard lock(mutex_);
  return std::any_of(sessions_.begin(), sessions_.end(), [](const auto& each) { return each.second.has_lost; });
}

std::uint64_t Ledger::still_lost() const {
  std::lock_guard lock(mutex_);
  return still_lost_;
}

std::vector<Ledger::Lack> Ledger::settle_partial() {
  std::lock_guard lock(mutex_);
  std::vector<Lack> lacks(parts_.size());
  std::vector<std::uint64_t> partial;
  entries_.for_each([&](std::uint64_t number, const Entry& frame) {
    // The reason why a part of any other frame is absent is recorded already.
    const bool came_again = frame.state == FrameState::lost && frame.lost == 0;
    if (frame.safe != 0 && frame.safe != all_parts_ && (frame.state == FrameState::missing || came_again))
      partial.push_back(number);
  });
  std::sort(partial.begin(), partial.end());
  for (const auto number : partial) {
    auto& frame = entry(number);
    frame.state = FrameState::partial;
    unplaced_.push_back(number);
    ++counts_.partial;
    for (std::uint32_t part = 0; part < lacks.size(); ++part)
      if ((frame.safe & bit_of(part)) == 0 && lacks[part].frames++ == 0) lacks[part].first = number;
  }
  return lacks;
}

LedgerCounts Ledger::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

std::vector<PartCounts> Ledger::parts() const {
  std::lock_guard lock(mutex_);
  std::vector<PartCounts> all;
  all.reserve(parts_.size());
  for (const auto& part : parts_) {
    auto& counts = all.emplace_back(part.counts);
    counts.late += part.added.late;
    counts.duplicate += part.added.duplicate;
    counts.damaged += part.added.damaged;
  }
  return all;
}

void Ledger::add(const std::vector<PartCounts>& of_another) {
  std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < std::min(parts_.size(), of_another.size()); ++i) {
    auto& added = parts_[i].added;
    added.late += of_another[i].late;
    added.duplicate += of_another[i].duplicate;
    added.damaged += of_another[i].damaged;
  }
}

std::vector<std::byte> Ledger::received_elements(std::uint64_t frames, std::uint32_t elements) const {
  std::vector<std::uint32_t> masks(elements, 0);
  for (std::uint32_t part = 0; part < parts_.size(); ++part) masks[part % elements] |= bit_of(part);
  std::vector<std::byte> received(frames * elements);
  std::lock_guard lock(mutex_);
  entries_.for_each([&](std::uint64_t number, const Entry& frame) {
    for (std::uint32_t element = 0; number < frames && element < elements; ++element)
      if ((frame.received & masks[element]) == masks[element]) received[number * elements + element] = std::byte{1};
  });
  return received;
}

LedgerCounts Ledger::added() const {
  std::lock_guard lock(mutex_);
  return added_;
}

std::vector<std::pair<FrameNumber, FrameState>> Ledger::take_unplaced() {
  std::lock_guard lock(mutex_);
  std::vector<std::pair<FrameNumber, FrameState>> unplaced;
  for (const auto number : unplaced_)
    if (const auto& frame = entry(number); frame.received != all_parts_)
      unplaced.emplace_back(FrameNumber{number}, frame.state);
  unplaced_.clear();
  return unplaced;
}

std::uint64_t Ledger::never_came(std::uint64_t frames) const {
  std::lock_guard lock(mutex_);
  auto came = std::min(frames, counts_.received);
  entries_.for_each([&](std::uint64_t, const Entry& frame) {
    if (frame.received != all_parts_ && (frame.received != 0 || frame.state != FrameState::missing)) ++came;
  });
  return frames - std::min(frames, came);
}

bool Ledger::has(const Item& item) {
  std::lock_guard lock(mutex_);
  const auto n = value(item.number);
  return n < counts_.end && entries_.may_hold(n, counts_.received) && (entry(n).received & bit_of(item.part)) != 0;
}

std::uint64_t Ledger::safe_below() const {
  std::lock_guard lock(mutex_);
  return entries_.safe_below();
}

std::uint64_t Ledger::end() const {
  std::lock_guard lock(mutex_);
  return counts_.end;
}

void Ledger::raise_end(std::uint64_t end) {
  std::lock_guard lock(mutex_);
  counts_.end = std::max(counts_.end, end);
}

}  // namespace penstock::recorder
