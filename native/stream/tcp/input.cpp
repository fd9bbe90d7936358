#include "stream/tcp/input.hpp"

#include <algorithm>

#include "base/crc32c.hpp"
#include "base/time/clock.hpp"

namespace penstock::stream {
namespace {

using namespace std::chrono_literals;

/// A batch that others hold and that has less room than this is left to them.
constexpr std::size_t room_bytes_min = 64 << 10;
/// Of large pixels that are waited for. The kernel waits for no more than half of the receive buffer.
constexpr std::size_t low_water_bytes = 512 << 10;

/// Of one wait for the sender. No wait counts for more: the time that this process was stopped is not the sender's.
std::chrono::milliseconds call_time_max(const LagLimits& limits) {
  return std::min<std::chrono::milliseconds>(limits.lag_max, 1s);
}

Error too_slow(const Lag& lag) {
  return make_error(Errc::timed_out,
                    "{} bytes of the message arrived in {:.3g} s, more than {:.3g} s later than at {} bytes/s: check "
                    "the sender and the network, or change lag_max_s or rate_min_bytes_per_s",
                    lag.bytes(), lag.waited().count(), Lag::Seconds(lag.limits().lag_max).count(),
                    lag.limits().rate_min_bytes_per_s);
}

}  // namespace

Result<BufferRef> acquire(BufferPool& pool, std::size_t size, const std::atomic<bool>& stopping) {
  for (;;) {
    auto buffer = pool.acquire(size, 100ms);
    if (buffer.ok() || buffer.error().code() != Errc::timed_out) return buffer;
    if (stopping) return make_error(Errc::cancelled, "the source is stopping");
  }
}

TcpInput::TcpInput(Socket& socket, BufferPool& pool, bool waits, const LagLimits& limits,
                   const std::atomic<bool>& stopping)
    : socket_(socket), pool_(pool), waits_(waits), stopping_(stopping), lag_(limits) {
  socket_.set_receive_timeout(call_time_max(limits));
}

Bytes TcpInput::view(std::size_t offset, std::size_t size) const {
  return Bytes(batch_->bytes()).subspan(begin_ + offset, size);
}

/// Where the pool is full, a source that holds its clients back waits for it. One that drops frames must read on: it
/// takes its spare memory, unless the message is larger than that.
Result<BufferRef> TcpInput::fresh_batch(std::size_t size) {
  const auto wanted = std::max(size, batch_bytes);
  auto fresh = pool_.acquire(wanted, 0ns);
  const bool full = !fresh.ok() && fresh.error().code() == Errc::timed_out;
  if (full && (waits_ || wanted > batch_bytes)) {
    step_aside();
    fresh = acquire(pool_, wanted, stopping_);
  } else if (full) {
    fresh = spare_.acquire(wanted, 0ns);
    spare_in_use_ = true;
    return fresh;
  }
  if (fresh.ok()) spare_in_use_ = false;
  return fresh;
}

Result<BufferRef> TcpInput::acquire_for_pixels(std::size_t size) {
  auto buffer = pool_.acquire(size, 0ns);
  if (buffer.ok() || buffer.error().code() != Errc::timed_out) return buffer;
  step_aside();
  return waits_ ? acquire(pool_, size, stopping_) : pool_.acquire(size, 0ns);
}

/// Gives the batch back to the pool, where memory of its own has room for what it holds.
void TcpInput::step_aside() {
  if (batch_ == nullptr || spare_in_use_ || end_ - begin_ > batch_bytes) return;
  auto spare = spare_.acquire(batch_bytes, 0ns);
  if (!spare.ok()) return;
  move_to(std::move(*spare));
  spare_in_use_ = true;
}

Result<void> TcpInput::leave_spare() { return spare_in_use_ && waits_ ? make_room(end_ - begin_) : Result<void>(); }

/// Nothing has come for a while: waits for more, with nothing of the pool in hand.
Result<void> TcpInput::rest() {
  batch_.reset();
  begin_ = end_ = 0;
  spare_in_use_ = false;
  for (;;) {
    PEN_ASSIGN(const bool ready, socket_.readable(1s));
    if (ready) return {};
    if (stopping_) return make_error(Errc::cancelled, "the source is stopping");
  }
}

void TcpInput::move_to(BufferRef fresh) {
  const auto held = end_ - begin_;
  if (held > 0) std::memcpy(fresh->bytes().data(), batch_->bytes().data() + begin_, held);
  batch_ = std::move(fresh);
  begin_ = 0;
  end_ = held;
}

/// Room for `size` bytes from begin_ on, in memory that no frame points into.
Result<void> TcpInput::make_room(std::size_t size) {
  if (spare_in_use_) {
    PEN_ASSIGN(auto fresh, fresh_batch(std::max(size, end_ - begin_)));
    move_to(std::move(fresh));
    return {};
  }
  const auto held = end_ - begin_;
  const bool oversized = batch_ != nullptr && batch_->bytes().size() > batch_bytes && size <= batch_bytes;
  const bool shared = batch_.use_count() > 1;
  if (batch_ != nullptr && !oversized) {
    if (!shared && held == 0) begin_ = end_ = 0;
    const auto room = batch_->bytes().size() - begin_;
    if (room >= size && (!shared || room >= room_bytes_min)) return {};
    if (!shared && batch_->bytes().size() >= size) {
      std::memmove(batch_->bytes().data(), batch_->bytes().data() + begin_, held);
      begin_ = 0;
      end_ = held;
      return {};
    }
  }
  PEN_ASSIGN(auto fresh, fresh_batch(size));
  move_to(std::move(fresh));
  return {};
}

Result<std::size_t> TcpInput::receive(MutableBytes into, bool wait_all, bool idle) {
  const Lag::Seconds time_max = call_time_max(lag_.limits());
  for (;;) {
    const auto began_ns = monotonic_ns();
    auto got = socket_.receive(into, wait_all);
    if (got.ok() && *got == 0 && !idle) return make_error(Errc::disconnected, "the connection ended within a message");
    if (!got.ok() && got.error().code() != Errc::timed_out) return got;
    if (!got.ok() && stopping_) return make_error(Errc::cancelled, "the source is stopping");
    const auto bytes = got.ok() ? *got : 0;
    if (!idle) {
      const std::chrono::nanoseconds waited(monotonic_ns() - began_ns);
      lag_.add(std::min<Lag::Seconds>(waited, time_max), bytes);
      if (lag_.is_exceeded()) return too_slow(lag_);
    }
    if (got.ok() || idle) return got;
  }
}

Result<bool> TcpInput::require(std::size_t size) {
  if (end_ - begin_ >= size) return true;
  PEN_TRY(make_room(size));
  while (end_ - begin_ < size) {
    const bool idle = end_ == begin_;
    const auto goal = std::max(size, read_ahead_bytes_) - (end_ - begin_);
    const auto room = batch_->bytes().subspan(end_);
    auto got = receive(room.first(std::min(goal, room.size())), false, idle);
    if (idle && !got.ok() && got.error().code() == Errc::timed_out) {
      PEN_TRY(rest());
      PEN_TRY(make_room(size));
      continue;
    }
    if (!got.ok()) return std::move(got).error();
    if (*got == 0) return false;
    end_ += *got;
  }
  return true;
}

Result<void> TcpInput::read_into(MutableBytes into, std::uint32_t* crc) {
  const auto take = [&](std::size_t bytes) {
    if (crc != nullptr) *crc = crc32c(into.first(bytes), *crc);
    into = into.subspan(bytes);
  };
  const auto held = std::min(end_ - begin_, into.size());
  if (held > 0) std::memcpy(into.data(), batch_->bytes().data() + begin_, held);
  begin_ += held;
  take(held);
  // Woken for each packet, the thread would cost the sender as much as the packet does. The kernel
  // counts what is unread, not what a call has taken already, so the last stretch is left out: the
  // mark would wait for bytes that never come.
  if (into.size() > 2 * low_water_bytes) {
    socket_.set_low_water(low_water_bytes);
    Result<std::size_t> got = std::size_t{0};
    while (got.ok() && into.size() > low_water_bytes) {
      got = receive(into.first(into.size() - low_water_bytes), false, false);
      if (got.ok()) take(*got);
    }
    socket_.set_low_water(1);
    if (!got.ok()) return std::move(got).error();
  }
  while (!into.empty()) {
    PEN_ASSIGN(const auto got, receive(into, true, false));
    take(got);
  }
  return {};
}

Result<void> TcpInput::discard(std::uint64_t size) {
  const auto held = std::min<std::uint64_t>(end_ - begin_, size);
  begin_ += held;
  size -= held;
  std::vector<std::byte> scratch(std::min<std::uint64_t>(size, batch_bytes));
  while (size > 0) {
    PEN_ASSIGN(const auto got,
               receive(MutableBytes(scratch).first(std::min<std::uint64_t>(size, scratch.size())), true, false));
    size -= got;
  }
  return {};
}

}  // namespace penstock::stream
