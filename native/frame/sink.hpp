/// Where a source delivers what it received.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/result.hpp"
#include "frame/frame.hpp"
#include "frame/pool.hpp"
#include "frame/series.hpp"

namespace penstock {

/// Told when frames have reached the storage under the recorder's durability; called from any thread.
class AckListener {
 public:
  virtual ~AckListener() = default;
  /// A frame that was put with this listener as its session, and waited for the file of its series, is rejected for
  /// the reason `why`. `message` is Frame::message. Must not block.
  virtual void rejected(std::uint64_t /*message*/, const Error& /*why*/) {}
  /// Events of this session that wait for the file of its series; the sink counts them.
  std::atomic<std::uint64_t> waiting{0};

  /// Every frame below `below` that was put with this listener as its session is safe, if the
  /// session put its frames in ascending order. Must not block.
  virtual void safe_below(const std::string& series_unique_id, FrameNumber below) = 0;
  /// The storage did not take frames that were put with this listener as its session, for the reason `why`: they are
  /// taken if they come again. Told at most every two seconds. Must not block.
  virtual void ask_again(const std::string& /*series_unique_id*/, const Error& /*why*/) {}
  /// Frames that are not safe yet, of a channel, after which it puts no more until it is notified; 0: it does not wait.
  virtual std::uint64_t window_frames() const { return 0; }
  /// It has said that it puts no more.
  virtual bool has_ended() const { return false; }
  /// Its connection is gone, though the same client may come back with another one.
  virtual bool is_gone() const { return false; }
  /// The reason for which the series ended, as in the event series_end, and the first number of a frame that is not
  /// safe, whoever put it. Called right before closed().
  virtual void ended(const std::string& /*series_unique_id*/, std::string_view /*ended_by*/,
                     FrameNumber /*all_safe_below*/) {}
  /// The series' file is complete and closed, or failed with `problem` (empty if not).
  virtual void closed(const std::string& series_unique_id, const std::string& problem) = 0;
  /// A start that was taken, and had to wait for a place, is refused after all, for the reason `why`: the one of
  /// `element`, or, without one, the one that was given with this listener. Others of the series go on.
  virtual void refused(const std::string& series_unique_id, const std::optional<ElementPlace>& /*element*/,
                       const std::string& why) {
    closed(series_unique_id, why);
  }
  /// refused() has concerned it: frames of it are of no series.
  virtual bool is_refused() const { return false; }
};

/// What the recorder offers to each source. An error concerns that message only: the source reports
/// it to its peer where the protocol can, and goes on. Calls may come from several sources' threads.
class FrameSink {
 public:
  virtual ~FrameSink() = default;

  /// Opens a series. `acks` may be null; otherwise it is held until the series is closed.
  virtual Result<void> begin(Series series, std::shared_ptr<AckListener> acks) = 0;
  /// A source that has begun a series of this name begins another one: nothing of the one before, which `before` names,
  /// comes from it any more. Waits, within bounds, until that one is closed.
  virtual Result<void> begin_anew(Series series, const SeriesEnd& before) {
    (void)end(before);
    return begin(std::move(series), nullptr);
  }
  /// Which of the series of this name is open, to be passed with its frames and its end: what is of another one does
  /// not go into this one. 0: none is, or they are not distinguished.
  virtual std::uint64_t generation(const std::string& /*series_unique_id*/) const { return 0; }
  /// Takes the frame; waits while the recorder is full where its policy is to hold sources back.
  virtual Result<void> put(Frame frame) = 0;
  virtual Result<void> end(const SeriesEnd& end) = 0;

  /// Whether a source waits for room in the pool; if not, it discards a frame for which there is
  /// none and says so with drop().
  virtual bool holds_back() const { return true; }
  /// Whether frames go to storage as they come, so that a source had better make Frame::payload_crc.
  virtual bool keeps_payloads() const { return false; }
  /// A frame arrived when the pool was full; it goes into the ledger.
  virtual void drop(const std::string& /*series_unique_id*/, FrameNumber /*number*/) {}
  /// A frame came that could not be understood, though its number could; of which element, where that is known.
  virtual void damage(const std::string& /*series_unique_id*/, FrameNumber /*number*/,
                      std::optional<std::uint32_t> /*element*/) {}

  /// A connection takes part in the series: frames will be put with this session. False if the series takes none any
  /// more: closed() follows.
  virtual bool expect(const std::string& /*series_unique_id*/, const std::shared_ptr<AckListener>& /*session*/) {
    return true;
  }
  /// Frames of a channel that a sender of the series has to keep if it waits for acknowledgements; 0: any number.
  virtual std::uint64_t window_needed(const std::string& /*series_unique_id*/) { return 0; }

  /// The channels of a series whose start came in elsewhere; nothing where the sink does not know it either.
  virtual std::optional<std::vector<std::string>> channels(const std::string& /*series_unique_id*/) { return {}; }

  /// Counts and logs a message that could not be understood.
  virtual void reject(std::string_view source, const Error& why) = 0;
  /// The same of a connection that has sent no message yet, or may send none.
  virtual void turn_away(std::string_view source, const Error& why) { reject(source, why); }

  /// A start message that could not be understood, so that the series has no file; its name where that could be read.
  virtual void refuse_start(const std::string& /*series_unique_id*/, const Error& /*why*/) {}

  /// A start message of one of a series' elements that is refused, though the others may be recorded.
  virtual void refuse_element(const std::string& series_unique_id, std::string_view /*source*/, const Error& why) {
    refuse_start(series_unique_id, why);
  }

  /// Reports a problem that leads to no rejection.
  virtual void note(std::string_view /*source*/, const Error& /*what*/) {}

  /// Memory for payloads; sources receive into it.
  virtual BufferPool& pool() = 0;
};

/// A source runs on threads of its own from start() until stop() or its destruction.
class Source {
 public:
  virtual ~Source() = default;
  virtual Result<void> start(FrameSink& sink) = 0;
  /// Stops taking messages and joins the threads; what was taken has been put into the sink.
  virtual void stop() = 0;
  /// For logs: "tcp://127.0.0.1:9900"; with the port that was really bound.
  virtual std::string address() const = 0;
};

}  // namespace penstock
