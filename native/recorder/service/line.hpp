/// What waits behind the start of a series until its file is there.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "frame/frame.hpp"
#include "frame/series.hpp"
#include "frame/sink.hpp"
#include "recorder/series/accounting/ledger.hpp"

namespace penstock::recorder {

struct Start {
  Series series;
  std::shared_ptr<AckListener> acks = {};  ///< null where nobody hears of it
  bool answered = false;                   ///< over TCP: its sender hears of it, here or at another rank
  unsigned rank = 0;                       ///< to which it came
};

/// A frame that was lost on its way, though its number is known.
struct Lost {
  FrameNumber number;
  bool damaged = false;
  std::optional<std::uint32_t> element = {};
};

struct Kept {
  std::variant<Start, Frame, SeriesEnd, Lost, Session> event;
  std::uint64_t bytes = 0;  ///< that the registry counts for it

  /// Of whom it came; null where that is not known.
  Session session() const;
};

/// Presented in an order in which nothing has to wait for what stands behind it: starts and sessions first, then
/// frames and losses by their number, as several senders would have brought them side by side, and ends last. Of a
/// session with something in a line nothing goes past it: each puts its frames by rising number. Not safe from several
/// threads, but for what it counts in sessions.
class Line {
 public:
  bool empty() const { return starts_.empty() && frames_.empty() && ends_.empty(); }
  /// Counts it in its session, until done().
  void push(Kept kept);
  std::optional<Kept> next();
  /// What next() gave was presented.
  static void done(const Session& session);

 private:
  std::deque<Kept> starts_;                    ///< and sessions
  std::multimap<std::uint64_t, Kept> frames_;  ///< and losses
  std::deque<Kept> ends_;                      ///< each of them once
};

/// What a frame takes beside its pixels, as far as waiting is concerned.
constexpr std::uint64_t frame_overhead_bytes = 1024;
constexpr std::uint64_t event_overhead_bytes = 128;

std::uint64_t bytes_of(const Series& series);
std::uint64_t bytes_of(const Frame& frame);
/// Leaves out masks, flat fields and tables. Returns their bytes.
std::uint64_t strip_tables(Series& series);
/// The bytes of a start without those; 0: it has none.
std::uint64_t bare_bytes_of(const Series& series);

}  // namespace penstock::recorder
