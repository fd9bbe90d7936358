#include "load/network/phase.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/time/clock.hpp"

namespace penstock::load {
namespace {

using namespace std::chrono_literals;

/// How often a thread that waits for its peer looks whether it is to end.
constexpr auto look_again = 200ms;
constexpr std::uint64_t warm_up_round_trips = 16;
/// In the place of a start, where there will be none.
constexpr std::int64_t never_ns = -1;

rusage usage_of(int who) {
  rusage usage{};
  (void)::getrusage(who, &usage);
  return usage;
}

}  // namespace

/// One connection. At most one thread sends on it and one receives; others look at its counters.
struct PhaseEnd::Stream {
  explicit Stream(Socket its_socket) : socket(std::move(its_socket)) {}

  Socket socket;
  TcpNumbers before;
  std::atomic<std::uint64_t> sent_bytes{0};
  std::atomic<std::uint64_t> received_bytes{0};
  std::atomic<std::int64_t> first_ns{0};  ///< when the first byte came, monotonic; 0: none has
  std::atomic<std::int64_t> last_ns{0};
  std::vector<std::uint64_t> series;  ///< of the thread that receives, while it runs
  Mutex mutex;
  double busy_s PEN_GUARDED_BY(mutex) = 0;

  void book(std::size_t bytes, std::int64_t now_ns, std::int64_t start_ns, double interval_s) {
    received_bytes += bytes;
    last_ns = now_ns;
    const auto intervals = std::max(0.0, seconds_of(now_ns - start_ns)) / interval_s;
    const auto index = static_cast<std::size_t>(std::min(intervals, static_cast<double>(report_intervals_max - 1)));
    if (index >= series.size()) series.resize(index + 1);
    series[index] += bytes;
  }
  void note_busy() {
    const auto usage = usage_of(RUSAGE_THREAD);
    MutexLock lock(mutex);
    busy_s = std::max(busy_s, seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime));
  }
};

PhaseEnd::PhaseEnd(const PhaseOrder& order, End end, std::vector<Socket> streams) : order_(order), end_(end) {
  for (auto& socket : streams) streams_.push_back(std::make_unique<Stream>(std::move(socket)));
}

PhaseEnd::~PhaseEnd() { give_up(); }

bool PhaseEnd::sends() const {
  return order_.pattern == Pattern::both || order_.pattern == (end_ == End::client ? Pattern::up : Pattern::down);
}
bool PhaseEnd::receives() const {
  return order_.pattern == Pattern::both || order_.pattern == (end_ == End::client ? Pattern::down : Pattern::up);
}

Result<void> PhaseEnd::prepare() {
  PEN_TRY(check_memory(2 * order_.streams * order_.message_bytes));
  PEN_TRY(watch_.start());
  const auto usage = usage_of(RUSAGE_SELF);
  user_before_s_ = seconds_of(usage.ru_utime);
  system_before_s_ = seconds_of(usage.ru_stime);
  for (auto& stream : streams_) {
    stream->socket.tune(0, 0);
    stream->socket.set_receive_timeout(look_again);
    stream->socket.set_send_timeout(look_again);
    stream->before = tcp_numbers(stream->socket);
    if (order_.pattern == Pattern::echo)
      PEN_TRY(start(*stream, "pen-net-echo", end_ == End::client ? &PhaseEnd::ping : &PhaseEnd::answer));
    if (sends()) PEN_TRY(start(*stream, "pen-net-send", &PhaseEnd::send));
    if (receives()) PEN_TRY(start(*stream, "pen-net-receive", &PhaseEnd::receive));
  }
  return {};
}

Result<void> PhaseEnd::start(Stream& stream, const char* name, Work work) {
  PEN_ASSIGN(auto memory, Memory::allocate(order_.message_bytes));
  // Nothing on the way can make it smaller.
  Content(ContentKind::random, blocks_.size() + 1, order_.message_bytes, 1).lay(memory.bytes());
  blocks_.push_back(std::make_unique<Memory>(std::move(memory)));
  const auto block = blocks_.back()->bytes().first(order_.message_bytes);
  return crew_.start(name, Role::other, [this, &stream, block, work] {
    (this->*work)(stream, block);
    stream.note_busy();
  });
}

void PhaseEnd::go() {
  watch_.begin();
  go_ns_ = monotonic_ns();
  go_ns_.notify_all();
}

bool PhaseEnd::wait_for_go() {
  go_ns_.wait(0);
  return go_ns_ != never_ns;
}

bool PhaseEnd::wait_until(std::int64_t deadline_ns) {
  const bool all = crew_.wait_until(deadline_ns);
  if (all && done_ns_ == 0) {
    done_ns_ = monotonic_ns();
    gaps_ = watch_.end();
  }
  return all;
}

void PhaseEnd::give_up() {
  given_up_ = true;
  std::int64_t not_yet = 0;
  go_ns_.compare_exchange_strong(not_yet, never_ns);
  go_ns_.notify_all();
  // What a thread has received by then is counted; it looks whether it is to end before it waits again.
  while (!wait_until(monotonic_ns() + tick_ns))
    for (auto& stream : streams_) stream->socket.shut_down();
}

double PhaseEnd::seconds_since_start() const {
  const auto start_ns = go_ns_.load();
  return start_ns > 0 ? seconds_of(monotonic_ns() - start_ns) : 0;
}

bool PhaseEnd::time_is_up() const { return given_up_ || seconds_since_start() >= order_.seconds; }

/// The word to start may come after the first byte: they use different connections.
std::int64_t PhaseEnd::start_ns(const Stream& stream) const {
  const auto go_ns = go_ns_.load();
  const auto first_ns = stream.first_ns.load();
  if (go_ns <= 0) return first_ns;
  return first_ns > 0 ? std::min(go_ns, first_ns) : go_ns;
}

void PhaseEnd::fail(const Error& error) {
  if (given_up_) return;
  MutexLock lock(mutex_);
  if (problem_.empty()) problem_ = error.message();
}

std::string PhaseEnd::problem() {
  MutexLock lock(mutex_);
  return problem_;
}

void PhaseEnd::send(Stream& stream, MutableBytes block) {
  if (!wait_for_go()) return;
  const iovec piece{block.data(), block.size()};
  while (!time_is_up()) {
    const auto sent = stream.socket.send_some(std::span(&piece, 1));
    if (!sent.ok()) return fail(sent.error());
    stream.sent_bytes += *sent;
  }
  stream.socket.shut_down_writing();
}

void PhaseEnd::receive(Stream& stream, MutableBytes block) {
  while (!given_up_) {
    const auto got = stream.socket.receive(block, true);
    if (!got.ok() && got.error().code() == Errc::timed_out) continue;
    if (!got.ok()) return fail(got.error());
    if (*got == 0) return;
    const auto now_ns = monotonic_ns();
    if (stream.first_ns == 0) stream.first_ns = now_ns;
    stream.book(*got, now_ns, start_ns(stream), order_.interval_s);
  }
}

/// False where the phase is given up.
Result<bool> PhaseEnd::send_exactly(Stream& stream, Bytes bytes) {
  while (!bytes.empty() && !given_up_) {
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    PEN_ASSIGN(const auto sent, stream.socket.send_some(std::span(&piece, 1)));
    bytes = bytes.subspan(sent);
  }
  return bytes.empty();
}

/// False where the phase is given up, or the peer ends the stream between two messages.
Result<bool> PhaseEnd::receive_exactly(Stream& stream, MutableBytes bytes) {
  const auto all = bytes.size();
  while (!bytes.empty() && !given_up_) {
    const auto got = stream.socket.receive(bytes, true);
    if (!got.ok() && got.error().code() == Errc::timed_out) continue;
    if (!got.ok()) return got.error();
    if (*got == 0 && bytes.size() == all) return false;
    if (*got == 0) return make_error(Errc::disconnected, "the peer ended a stream inside a message");
    bytes = bytes.subspan(*got);
  }
  return bytes.empty();
}

void PhaseEnd::ping(Stream& stream, MutableBytes block) {
  if (!wait_for_go()) return;
  for (std::uint64_t number = 0; !time_is_up() || number <= warm_up_round_trips; ++number) {
    if (given_up_) return;
    const auto begin_ns = monotonic_ns();
    const auto sent = send_exactly(stream, block);
    if (!sent.ok()) return fail(sent.error());
    const auto back = receive_exactly(stream, block);
    if (!back.ok()) return fail(back.error());
    if (!*back) return given_up_ ? void() : fail(Error(Errc::disconnected, "the peer ended the stream"));
    const auto now_ns = monotonic_ns();
    stream.sent_bytes += block.size();
    stream.book(block.size(), now_ns, start_ns(stream), order_.interval_s);
    if (number >= warm_up_round_trips) round_trips_.add(now_ns - begin_ns);
  }
  stream.socket.shut_down_writing();
}

void PhaseEnd::answer(Stream& stream, MutableBytes block) {
  while (!given_up_) {
    const auto got = receive_exactly(stream, block);
    if (!got.ok()) return fail(got.error());
    if (!*got) return;
    const auto now_ns = monotonic_ns();
    if (stream.first_ns == 0) stream.first_ns = now_ns;
    stream.book(block.size(), now_ns, start_ns(stream), order_.interval_s);
    const auto sent = send_exactly(stream, block);
    if (!sent.ok()) return fail(sent.error());
    stream.sent_bytes += block.size();
  }
}

Side PhaseEnd::side() {
  Side side;
  const auto usage = usage_of(RUSAGE_SELF);
  side.user_s = seconds_of(usage.ru_utime) - user_before_s_;
  side.system_s = seconds_of(usage.ru_stime) - system_before_s_;
  auto start = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_ns = 0;
  for (auto& stream : streams_) {
    if (const auto its_start_ns = start_ns(*stream); its_start_ns > 0) start = std::min(start, its_start_ns);
    last_ns = std::max(last_ns, stream->last_ns.load());
    if (stream->series.size() > side.received_series.size()) side.received_series.resize(stream->series.size());
    for (std::size_t i = 0; i < stream->series.size(); ++i) side.received_series[i] += stream->series[i];
    MutexLock lock(stream->mutex);
    side.streams.push_back({.sent_bytes = stream->sent_bytes,
                            .received_bytes = stream->received_bytes,
                            .busy_s = stream->busy_s,
                            .before = stream->before,
                            .after = tcp_numbers(stream->socket)});
  }
  side.gaps = gaps_;
  side.received_s = std::max(0.0, seconds_of(last_ns - start));
  side.seconds = std::max(0.0, seconds_of(done_ns_ - start));
  return side;
}

}  // namespace penstock::load
