/// One end of a phase: what it sends, receives and counts on the streams.
///
/// Bytes are counted where they arrive, from the start that was agreed on until the last one has come, on that end's
/// own clock: what the two clocks show is never compared. A sender ends a stream by closing its direction of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "load/crew.hpp"
#include "load/document.hpp"
#include "load/network/message.hpp"
#include "load/workloads/content.hpp"

namespace penstock::load {

enum class End { client, server };

/// One thread owns it; it stays until all its threads have ended, which its deadline bounds.
class PhaseEnd {
 public:
  PhaseEnd(const PhaseOrder& order, End end, std::vector<Socket> streams);
  /// Ends all streams.
  ~PhaseEnd();
  PhaseEnd(const PhaseEnd&) = delete;
  PhaseEnd& operator=(const PhaseEnd&) = delete;

  /// Takes the memory and starts the threads. What comes before go() is counted, from its first byte on.
  Result<void> prepare();
  void go();
  /// Waits until all streams are done, at most until `deadline_ns`, monotonic, or `stop`; true where they are.
  bool wait_until(std::int64_t deadline_ns);
  /// Closes what is open still: whoever waits in it wakes up.
  void give_up();

  double seconds_since_start() const;
  /// After give_up(), or once all streams are done.
  Side side();
  const Times& round_trips() const { return round_trips_; }
  /// What ended a stream before its time; empty: nothing did.
  std::string problem();

 private:
  struct Stream;
  using Work = void (PhaseEnd::*)(Stream&, MutableBytes);

  bool sends() const;
  bool receives() const;
  Result<void> start(Stream& stream, const char* name, Work work);
  void send(Stream& stream, MutableBytes block);
  void receive(Stream& stream, MutableBytes block);
  void ping(Stream& stream, MutableBytes block);
  void answer(Stream& stream, MutableBytes block);
  Result<bool> send_exactly(Stream& stream, Bytes bytes);
  Result<bool> receive_exactly(Stream& stream, MutableBytes bytes);
  bool wait_for_go();
  std::int64_t start_ns(const Stream& stream) const;
  bool time_is_up() const;
  void fail(const Error& error);

  const PhaseOrder order_;
  const End end_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Memory>> blocks_;
  std::atomic<std::int64_t> go_ns_{0};  ///< 0: not yet
  std::atomic<bool> given_up_{false};
  Times round_trips_;  ///< of the one thread that pings, while it runs
  double user_before_s_ = 0;
  double system_before_s_ = 0;
  std::int64_t done_ns_ = 0;

  Mutex mutex_;
  std::string problem_ PEN_GUARDED_BY(mutex_);
  Gaps gaps_;
  GapWatch watch_;
  Crew crew_;
};

}  // namespace penstock::load
