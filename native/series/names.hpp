/// The table of series by name: what is known of each, and which names are forgotten first.
///
/// The last 1024 names without a file are remembered, for messages that arrive late. The numbers of frames that precede
/// a start are remembered for 16 series.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "series/actions.hpp"
#include "series/ending.hpp"
#include "series/events.hpp"
#include "series/roster.hpp"

namespace penstock::series {

/// A series while its file is open: who takes part, and when it is over.
struct Recording {
  Roster roster{};
  Ending ending = {};
  Facts facts = {};
  Time opened_at = 0;
  std::optional<Time> abandoned_at = {};  ///< since then no connection is left
};

/// Other ranks' parts in a series; only the coordinator has them.
struct Ranks {
  std::set<unsigned> joined;           ///< they write frames of it
  std::set<unsigned> awaited;          ///< they have not handed over their parts
  std::optional<Time> handover_until;  ///< the file is closed without those parts then
  std::set<unsigned> behind;           ///< something waits there for the file
  Time behind_until = 0;               ///< the file is not held open for that longer
};

/// What the coordinator asked of this rank while its part of the file was not open yet.
struct Request {
  bool close = false;
  std::optional<Called> call;
  std::uint64_t called_for = 0;  ///< the generation whose line is presented, to be reported in CaughtUp
};

/// What arrived before the start.
struct Early {
  std::vector<Ended> ends;
  std::vector<std::uint64_t> frames;
  std::set<std::string> refused;  ///< sources of elements
};

/// The series of this name that was closed last: a start of it that arrives late does not begin another one.
struct Past {
  bool whole = false;
  std::string arm_date;
  std::set<std::uint32_t> elements;
  Time late_until = 0;  ///< until then the start of another element is late
};

/// The sender of an element was asked whether it is there, because another one claims the element.
struct Probe {
  std::string connection;
  Time until = 0;
  bool answers = false;
};

struct Entry {
  State state = State::unknown;  ///< never `ending`: see state_of()
  std::uint64_t generation = 0;
  Announced what;
  std::optional<Participant> starter;  ///< nothing if the series was joined because of frames
  std::uint64_t start_bytes = 0;
  bool has_line = false;  ///< events wait behind its start
  bool held = false;      ///< its source can be held back
  bool refusal_counted = false;
  Recording recording;
  Ranks ranks;
  Request request;
  Early early;
  std::optional<Past> past;
  std::optional<Probe> probe;
  std::optional<Time> sought_at;  ///< when it was looked for in vain
  std::uint64_t memory = 0;       ///< its location in the order of forgetting
};

inline bool is_open(const Entry& entry) { return entry.state == State::open; }
/// A start of it was accepted, and its file is not being closed yet.
inline bool is_known(const Entry& entry) {
  return entry.has_line || is_open(entry) || entry.state == State::opening || entry.state == State::waiting;
}
inline State state_of(const Entry& entry) {
  return is_open(entry) && entry.recording.ending.is_set() ? State::ending : entry.state;
}
inline Answer answer_of(Answer::Kind kind, const Entry& entry) {
  return {.kind = kind, .generation = entry.generation, .state = state_of(entry)};
}
inline Answer accept(const Entry& entry) { return answer_of(Answer::Kind::accept, entry); }
inline Answer reject(Why why) { return {.kind = Answer::Kind::reject, .why = why}; }

class Names {
 public:
  using Entries = std::map<std::string, Entry>;

  Entries& all() { return entries_; }
  const Entries& all() const { return entries_; }
  /// Null if nothing is known of the name.
  Entry* find(const std::string& name);
  const Entry* find(const std::string& name) const;
  Entry& get(const std::string& name) { return entries_[name]; }
  std::uint64_t next_generation() { return ++generations_; }

  /// The name has no file: it is the last to be forgotten among such names.
  void remember(const std::string& name, Entry& entry);
  /// Remembers the number of a frame that precedes the start. True if it is the first one of the series.
  bool add_early_frame(Entry& entry, std::uint64_t number);
  void forget_early_frames(Entry& entry);
  /// What contradicts itself; empty if nothing does.
  std::string audit() const;

 private:
  Entries entries_;
  std::deque<std::pair<std::string, std::uint64_t>> memory_;  ///< the oldest first
  std::uint64_t memories_ = 0;
  std::size_t early_series_ = 0;  ///< with frames that preceded their start
  std::uint64_t generations_ = 0;
};

}  // namespace penstock::series
