#include "load/team.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/time/clock.hpp"
#include "load/machine.hpp"

namespace penstock::load {
namespace {

constexpr auto tick = std::chrono::milliseconds(200);
constexpr std::int64_t life_ns = 150'000'000;  // less than a tick, so that each tick shows it
/// From the last rank's arrival to the start: what messages to all of them take. A rank that hears of it later is late,
/// and its document says by how much.
constexpr std::int64_t start_margin_ns = 50'000'000;
/// What ranks that are well take to end their work, mostly. A launcher that ends a job kills it a second after it
/// asked.
constexpr std::int64_t parts_wait_ns = 300'000'000;
/// In front of what a back end tells; the team's own messages are objects in CBOR, and none of these begins so.
constexpr std::byte of_a_backend{0};

class NoTeam final : public Team {
 public:
  unsigned rank() const override { return 0; }
  unsigned ranks() const override { return 1; }
  Result<Meeting> meet(Json note) override { return Meeting{monotonic_ns(), {std::move(note)}}; }
};

std::uint64_t whole(const Json& message, const char* name) { return message.value(name, std::uint64_t{0}); }

}  // namespace

Team& no_team() {
  static NoTeam team;
  return team;
}

JobTeam::JobTeam(job::Job& job, std::atomic<bool>& stop, std::function<void()> look, double silence_s_max)
    : job_(job),
      stop_(stop),
      look_(std::move(look)),
      silence_ns_max_(static_cast<std::int64_t>(silence_s_max * 1e9)),
      heard_ns_(job.ranks()),
      arrived_(job.ranks()),
      notes_(job.ranks()),
      progress_(job.ranks(), Json::object()),
      parts_(job.ranks()),
      given_up_(job.ranks()) {}

Result<void> JobTeam::start() {
  PEN_ASSIGN(clock_, job_.compare_clocks());
  std::fill(heard_ns_.begin(), heard_ns_.end(), monotonic_ns());
  job_.start([this](unsigned from, const std::vector<std::byte>& message) { hear(from, message); });
  return {};
}

void JobTeam::send(unsigned to, const Json& message) {
  const auto packed = Json::to_cbor(message);
  const auto* bytes = reinterpret_cast<const std::byte*>(packed.data());
  job_.send(to, {bytes, bytes + packed.size()});
}

void JobTeam::send_to_others(const Json& message) {
  for (unsigned to = 0; to < ranks(); ++to)
    if (to != rank()) send(to, message);
}

void JobTeam::tell(unsigned to, Bytes bytes) {
  std::vector<std::byte> message = {of_a_backend};
  message.insert(message.end(), bytes.begin(), bytes.end());
  job_.send(to, std::move(message));
}

void JobTeam::listen(const Told& told) {
  std::lock_guard lock(told_mutex_);
  told_bytes_ = told;
}

void JobTeam::hear_bytes(unsigned from, Bytes bytes) {
  {
    std::lock_guard lock(mutex_);
    heard_ns_[from] = monotonic_ns();
  }
  std::lock_guard lock(told_mutex_);
  if (told_bytes_) told_bytes_(from, bytes);
}

void JobTeam::hear(unsigned from, const std::vector<std::byte>& message) {
  if (!message.empty() && message.front() == of_a_backend) return hear_bytes(from, Bytes(message).subspan(1));
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(message.data());
  auto told = Json::from_cbor(bytes, bytes + message.size(), true, false);
  const auto what = told.is_object() ? told.value("tell", "") : "";
  std::lock_guard lock(mutex_);
  heard_ns_[from] = monotonic_ns();
  if (what == "here") arrive(from, whole(told, "meeting"), std::move(told["note"]));
  if (what == "start") starts_.emplace(whole(told, "meeting"), told);
  if (what == "alive") progress_[from] = std::move(told["progress"]);
  if (what == "part") parts_[from] = std::move(told["part"]);
  if (what == "taken") {
    taken_ = true;
    complete_ = told.value("complete", false);
  }
  if (what == "end") {
    told_ = true;
    interrupted_ = interrupted_ || told.value("interrupted", false);
    stop_ = true;
  }
  changed_.notify_all();
}

/// With the lock, at the lead: the last one that comes sets the start.
void JobTeam::arrive(unsigned from, std::uint64_t meeting, Json note) {
  arrived_[from] = meeting;
  notes_[from] = std::move(note);
  if (std::any_of(arrived_.begin(), arrived_.end(), [meeting](auto at) { return at != meeting; })) return;
  const Json start = {
      {"tell", "start"}, {"meeting", meeting}, {"at_ns", monotonic_ns() + start_margin_ns}, {"notes", notes_}};
  send_to_others(start);
  starts_[meeting] = start;
}

/// With the lock. Not more often than its time comes: whoever waits is woken by each message of the others.
void JobTeam::show_life() {
  const auto now_ns = monotonic_ns();
  if (now_ns < next_life_ns_) return;
  next_life_ns_ = now_ns + life_ns;
  if (leads())
    send_to_others({{"tell", "alive"}, {"progress", nullptr}});
  else
    send(job::lead, {{"tell", "alive"}, {"progress", progress_[rank()]}});
}

/// With the lock.
void JobTeam::hand_on_the_end() {
  look_();
  if (!stop_ || told_) return;
  told_ = interrupted_ = true;
  send_to_others({{"tell", "end"}, {"interrupted", true}});
}

Result<void> JobTeam::wait(Lock& lock, const std::function<bool()>& there, const std::function<unsigned()>& missing,
                           bool ends_with_the_run) {
  while (true) {
    hand_on_the_end();
    if (there()) return {};
    if (ends_with_the_run && stop_) return make_error(Errc::cancelled, "the run was stopped");
    const auto silent = missing();
    const auto silence_ns = monotonic_ns() - heard_ns_[silent];
    if (silence_ns > silence_ns_max_) {
      given_up_[silent] = true;
      return make_error(Errc::timed_out, "rank {} has not reported progress for {:.0f} s", silent,
                        static_cast<double>(silence_ns) * 1e-9);
    }
    show_life();
    changed_.wait_for(lock, std::min<std::chrono::nanoseconds>(tick, std::chrono::nanoseconds(silence_ns_max_)));
  }
}

Result<Meeting> JobTeam::meet(Json note) {
  const auto meeting = ++meeting_;
  Lock lock(mutex_);
  if (leads())
    arrive(rank(), meeting, std::move(note));
  else
    send(job::lead, {{"tell", "here"}, {"meeting", meeting}, {"note", std::move(note)}});
  const auto missing = [&]() -> unsigned {
    if (!leads()) return job::lead;
    const auto late = std::find_if(arrived_.begin(), arrived_.end(), [&](auto at) { return at != meeting; });
    return static_cast<unsigned>(late - arrived_.begin());
  };
  PEN_TRY(wait(
      lock, [&] { return starts_.contains(meeting); }, missing, true));
  auto start = std::move(starts_[meeting]);
  starts_.erase(meeting);
  const auto start_ns = start.value("at_ns", std::int64_t{0}) - clock_.lead_ahead_ns;
  late_ns_ = std::max(late_ns_, monotonic_ns() - start_ns);
  return Meeting{start_ns, start["notes"].get<std::vector<Json>>()};
}

Json JobTeam::beat(Json progress) {
  std::lock_guard lock(mutex_);
  hand_on_the_end();
  progress_[rank()] = progress;
  show_life();
  if (!leads()) return progress;
  for (const char* name : {"done", "total", "held"}) {
    if (!progress.contains(name)) continue;
    std::uint64_t all = 0;
    for (const auto& one : progress_)
      if (one.is_object() && one.value("phase", "") == progress.value("phase", "")) all += whole(one, name);
    progress[name] = all;
  }
  return progress;
}

void JobTeam::end_for_all() {
  std::lock_guard lock(mutex_);
  if (std::exchange(told_, true)) return;
  send_to_others({{"tell", "end"}, {"interrupted", false}});
}

bool JobTeam::interrupted() {
  std::lock_guard lock(mutex_);
  hand_on_the_end();
  return interrupted_;
}

std::vector<Json> JobTeam::gather(Json part, const std::function<void(const std::vector<Json>&)>& some) {
  Lock lock(mutex_);
  if (!leads()) {
    send(job::lead, {{"tell", "part"}, {"part", std::move(part)}});
    (void)wait(
        lock, [&] { return taken_; }, [] { return job::lead; }, false);
    return {};
  }
  parts_[rank()] = std::move(part);
  bool told_some = false;
  std::int64_t ending_since_ns = 0;
  const auto is_time_for_some = [&] {
    if (!stop_ || told_some) return false;
    if (ending_since_ns == 0) ending_since_ns = monotonic_ns();
    return monotonic_ns() - ending_since_ns > parts_wait_ns;
  };
  const auto missing = [&]() -> unsigned {
    for (unsigned other = 0; other < ranks(); ++other)
      if (parts_[other].is_null() && !given_up_[other]) return other;
    return ranks();
  };
  const auto there = [&] { return missing() == ranks(); };
  while (!there()) {
    if (is_time_for_some()) {
      told_some = true;
      const auto parts = parts_;
      lock.unlock();
      some(parts);
      lock.lock();
    }
    // It comes back where one is given up, too.
    (void)wait(
        lock, [&] { return there() || is_time_for_some(); }, missing, false);
  }
  complete_ = std::none_of(parts_.begin(), parts_.end(), [](const Json& one) { return one.is_null(); });
  send_to_others({{"tell", "taken"}, {"complete", complete_}});
  return std::move(parts_);
}

bool JobTeam::complete() {
  std::lock_guard lock(mutex_);
  return complete_;
}

Json JobTeam::describe() const {
  return {{"host", host_name()},
          {"lead_ahead_ns", clock_.lead_ahead_ns},
          {"clock_error_ns", clock_.error_ns},
          {"late_ns", late_ns_}};
}

}  // namespace penstock::load
