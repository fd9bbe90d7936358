/// What every way of sending a series over the network offers. One thread uses a sender; only
/// cancel() may come from another, and from a signal handler.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "frame/frame.hpp"
#include "frame/series.hpp"

namespace penstock::stream {

/// Outcome of a series at the other end, as far as the protocol reports it.
struct Receipt {
  bool confirmed = false;        ///< the receiver has closed its file; false where the protocol has no acknowledgements
  std::string problem;           ///< why the file failed, empty if it did not
  std::uint64_t safe_below = 0;  ///< frames below this number are safe
  std::uint64_t unacknowledged = 0;  ///< frames that are not safe though the receiver has closed its file
  std::uint64_t refused = 0;         ///< messages that the receiver answered with an error
  std::string first_refusal;         ///< the first of those errors
};

/// A sender waits for a connection, or for a receiver that takes no frames.
struct SenderWait {
  std::string address;
  std::chrono::nanoseconds patience{};  ///< altogether
  std::chrono::nanoseconds left{};
  bool over = false;        ///< there is a connection again, or frames are acknowledged again
  std::string reason = {};  ///< the receiver's, why it takes no frames: "storage full: waiting"; empty: no connection
};

/// Between two words about one wait.
constexpr std::chrono::seconds sender_wait_interval{1};
/// A shorter wait for the first connection is not worth a word.
constexpr std::chrono::milliseconds sender_first_wait{500};

class FrameSender {
 public:
  virtual ~FrameSender() = default;

  virtual Result<void> begin(const Series& series) = 0;

  /// Takes one frame of the series; waits while the receiver holds it back. `frame.owner` is held
  /// until the payload is no longer needed (sent, or acknowledged where the protocol does that); with
  /// no owner the payload must outlive the sender, unchanged. `frame.series_unique_id` is not looked
  /// at. Small frames may wait for company until flush(), end() or the next put().
  virtual Result<void> put(const Frame& frame) = 0;

  /// The same, but the message is cut short, as on a bad way: to see what a receiver makes of it.
  virtual Result<void> put_cut(const Frame& /*frame*/) {
    return make_error(Errc::unsupported, "{}: messages cannot be cut short here", address());
  }

  /// Hands everything that put() took to the kernel. A paced sender calls it after each put().
  virtual Result<void> flush() = 0;

  virtual Result<void> end() = 0;

  /// Waits until the receiver has reported the result, or for protocols without acknowledgements until
  /// everything was handed over; `timed_out` after `wait`.
  virtual Result<Receipt> finish(std::chrono::nanoseconds wait) = 0;

  /// What is known so far; safe_below is 0 without acknowledgements.
  virtual Receipt receipt() const = 0;

  /// Makes calls that wait, now or later, return `cancelled` soon.
  virtual void cancel() = 0;

  /// For logs: "tcp://127.0.0.1:9900"; with the port that was really bound.
  virtual std::string address() const = 0;
};

}  // namespace penstock::stream
