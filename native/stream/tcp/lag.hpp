/// How far a message lags behind the lowest rate at which it may arrive; computes only.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace penstock::stream {

/// A client that is slower within a message loses its connection: whatever a message holds (a place, memory of the
/// pool) it holds for lag_max and the time that its bytes take at the lowest rate, and no longer.
struct LagLimits {
  std::chrono::milliseconds lag_max{30000};
  std::uint64_t rate_min_bytes_per_s = 64 << 10;
};

class Lag {
 public:
  using Seconds = std::chrono::duration<double>;

  explicit Lag(const LagLimits& limits) : limits_(limits) {}

  const LagLimits& limits() const { return limits_; }
  void begin_message() { *this = Lag(limits_); }
  /// `bytes` arrived after `time` of waiting for the sender. Bytes that come faster than they must are no credit for
  /// later: the sender of a large message may not fall silent for longer than that of a small one.
  void add(Seconds time, std::size_t bytes) {
    waited_ += time;
    bytes_ += bytes;
    const Seconds due(static_cast<double>(bytes) / static_cast<double>(limits_.rate_min_bytes_per_s));
    lag_ = std::max(Seconds(0), lag_ + time - due);
  }
  bool is_exceeded() const { return lag_ >= limits_.lag_max; }
  /// Of the message, spent waiting for its sender.
  Seconds waited() const { return waited_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  LagLimits limits_;
  Seconds lag_{0};
  Seconds waited_{0};
  std::uint64_t bytes_ = 0;
};

}  // namespace penstock::stream
