/// The state of every series, and each decision about it. Pure: no thread, lock, clock, file, socket or JSON. Sources
/// and files deliver facts (events); the registry answers and commands (actions). One registry serves one rank.
///
/// The states of a name:
///
///   unknown ──FrameSeen, Ended──▸ early ──Started──┐
///   unknown ──Started──────────────────────────────┼─▸ opening ──Opened──▸ open ──Ended …──▸ ending ──▸ closing ──▸
///   closed
///                    └─ no file is free ─▸ waiting ┘      └─OpenFailed─▸ refused
///
/// A name of which nothing was heard is unknown. `closed` and `refused` names may start again. The rules and their
/// reasons are in docs/explanation/decisions/0047-the-series-as-a-state-machine.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "series/ending.hpp"
#include "series/places.hpp"
#include "series/roster.hpp"

namespace penstock::series {

enum class State : std::uint8_t { unknown, early, waiting, opening, open, ending, closing, closed, refused };

/// Constant while the recorder runs.
struct Rules {
  unsigned ranks = 1;
  unsigned rank = 0;        ///< this one. 0, the coordinator, opens and closes series for all; the others join them
  bool holds_back = true;   ///< a source waits rather than lose a frame
  bool resumes = false;     ///< files that were left are completed first, which takes long
  std::size_t sources = 1;  ///< of this rank
  std::size_t tcp = 1;      ///< sources that listen to TCP
  std::size_t pulled = 0;   ///< distinct endpoints that are pulled from
  std::size_t bound = 0;    ///< sources that others push into
  std::size_t files_max = 64;
  std::size_t starts_max = 64;
  std::uint64_t starts_bytes_max = 64 << 20;  ///< for starts that wait
  std::uint64_t frames_bytes_max = 64 << 20;  ///< for what waits behind them
  Timeouts timeouts = {};

  bool alone() const { return ranks == 1; }
  bool coordinates() const { return rank == 0; }
  bool all_pulled() const { return sources == pulled; }
  bool tcp_alone() const { return alone() && tcp == sources; }
  bool one_ordered_source() const { return alone() && sources == 1 && (tcp == 1 || pulled == 1); }
  bool start_may_come_elsewhere() const { return !alone() || sources > 1; }
  Time opening_patience() const { return (resumes ? 600 : 10) * second; }
  /// For a name that another series of the same source still has.
  Time name_patience() const { return timeouts.idle + timeouts.end; }
  /// For a start message that is on its way through another socket or rank.
  Time start_patience() const { return (holds_back && !alone() ? 10 : 2) * second; }
};

/// What a start message says that each other start of the series has to repeat.
struct Announced {
  std::uint64_t id = 0;
  std::uint64_t frames = 0;    ///< 0: open-ended
  std::uint32_t elements = 1;  ///< of the detector
  std::uint64_t form = 0;      ///< digest of shape, type, channels and grid
  std::string arm_date = {};
  bool operator==(const Announced& other) const {
    return id == other.id && frames == other.frames && elements == other.elements && form == other.form;
  }
};

// Events. `since` is when the caller first presented the event; 0: now. A caller whose answer is `wait_until` presents
// it again, with the same `since`, when anything has changed and at the time that it was given.

struct Started {
  std::string name;
  Participant who;
  Announced what = {};
  bool resume = false;           ///< its sender has begun it before
  std::uint64_t before = 0;      ///< its source began that generation of the name before; 0: none
  bool before_ended = false;     ///< and ended it
  std::uint64_t bytes = 0;       ///< while it waits for a file …
  std::uint64_t bare_bytes = 0;  ///< … without its tables; 0: it has none
  bool from_line = false;        ///< it has waited, and its turn has come
  Time since = 0;
};
struct FrameSeen {
  std::string name;
  std::uint64_t generation = 0;  ///< 0: not distinguished
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
  bool from_line = false;
  bool is_free = false;  ///< nothing of its sender waits
  Time since = 0;
};
struct Ended {
  std::string name;
  Participant who;
  std::uint64_t generation = 0;
  bool by_all = true;     ///< all TCP clients of its rank have ended it
  bool by_start = false;  ///< not said: its source has begun another series
  bool anew = false;      ///< of the same name
  bool sole = false;      ///< its sender says that no other sender has frames of it
  bool last = false;      ///< each connected TCP client has ended it, and none was lost before its end
  bool from_line = false;
  Time since = 0;
};
/// Of TCP connections: one is there, one is gone, and how many have not said yet what they want.
struct Arrived {
  std::string connection;
};
struct SenderLost {
  std::string connection;
};
struct Departed {
  std::string connection;
};  ///< its client has said that it sends no more
struct Guests {
  std::size_t number = 0;
};
/// A connection that was probed is there.
struct Answered {
  std::string connection;
};
/// `what` matters only where no start came here.
struct Opened {
  std::string name;
  Announced what = {};
};
struct OpenFailed {
  std::string name;
};
/// Of another rank: the coordinator has no file for the series yet, and calls this rank when it has.
struct Waits {
  std::string name;
};
/// The coordinator calls: the file of its generation is there, or, `in_vain`, will not be.
struct Called {
  std::string name;
  std::uint64_t generation = 0;
  bool in_vain = false;
};
/// A rank that was called for that generation has presented all that waited there.
struct CaughtUp {
  std::string name;
  unsigned rank = 0;
  std::uint64_t generation = 0;
};
/// A start that could not even be understood.
struct StartRefused {
  std::string name;
};
/// The same of one of a series' elements, though others may be recorded.
struct ElementRefused {
  std::string name;
  std::string source;
};
/// All that waited behind a start has been presented.
struct LineEmpty {
  std::string name;
};
/// What waited behind a start is presented: its bytes count no longer.
struct Taken {
  bool start = false;
  std::uint64_t bytes = 0;
};
struct Measured {
  std::string name;
  Facts facts;
};
struct Closed {
  std::string name;
};
/// A rank, this one or another, looks for a series of which something came to it. `again`: it has looked in vain
/// before.
struct Sought {
  std::string name;
  unsigned rank = 0;
  bool again = false;
  Time since = 0;
};
/// A rank has handed over what it has of a series that is being closed.
struct HandedOver {
  std::string name;
  unsigned rank = 0;
};
/// The coordinator wants the part of this rank.
struct CloseAsked {
  std::string name;
};
struct EndAll {};       ///< by a user
struct StopWaiting {};  ///< sources are about to be stopped: none is held back any more
struct Stop {};
struct Tick {};

using Event = std::variant<Started, FrameSeen, Ended, Arrived, SenderLost, Departed, Guests, Answered, Opened,
                           OpenFailed, Waits, Called, CaughtUp, StartRefused, ElementRefused, LineEmpty, Taken,
                           Measured, Closed, Sought, HandedOver, CloseAsked, EndAll, StopWaiting, Stop, Tick>;

enum class Why : std::uint8_t {
  none,
  stopping,             ///< the recorder stops
  elements_over_ranks,  ///< elements over ZeroMQ need one rank
  mismatch,             ///< its start contradicts the one that began the series
  element_taken,        ///< another sender brings that element
  connection_taken,     ///< the connection brings another element
  has_started,          ///< this participant had begun it
  being_closed,         ///< and is to be tried again later
  closed_whole,         ///< with all of its frames
  element_late,         ///< the series was closed without that element
  name_taken,           ///< frames of the series before still come from elsewhere
  line_full,            ///< no file is free, and no more starts may wait
  no_room,              ///< no more bytes may wait behind starts
  not_started,
  other_generation,  ///< it is of a series of the same name that is closed
};

struct Answer {
  enum class Kind : std::uint8_t {
    none,    ///< the event has no caller that waits for an answer
    accept,  ///< a start takes part, a frame goes into the file, an end counts
    reject,
    wait,        ///< the event is kept behind the series' start
    wait_there,  ///< the rank that asks keeps it, and is called
    wait_until,  ///< the caller asks again
  };
  Kind kind = Kind::none;
  Why why = Why::none;
  Time until = 0;
  std::uint64_t generation = 0;  ///< of the series that a start was taken for
  bool is_bare = false;          ///< of a start that waits: no memory for its tables
  State state = State::unknown;  ///< of the series, afterwards
};

/// Make the file, or, as another rank, ask the coordinator to and join it. `sought`: no start came here, or it is to be
/// presented behind that; `again`: it was looked for in vain before. `from_line`: nobody waits for it but its line.
struct Open {
  std::string name;
  std::uint64_t generation = 0;
  bool join = false;
  bool sought = false;
  bool again = false;
  bool from_line = false;
};
struct Close {
  std::string name;
  std::uint64_t generation = 0;
  EndedBy ended_by = EndedBy::message;
  std::set<unsigned> missing = {};  ///< ranks that have not handed over
};
struct Notify {
  enum class What : std::uint8_t {
    began,        ///< the coordinator, of another participant of a series that is open here
    ended,        ///< the coordinator, of an end
    refused,      ///< the coordinator, this rank or another, of a series without a file; once for each name
    opened,       ///< a rank that waits: the file is there
    in_vain,      ///< a rank that waits, this one or another: there will be no file
    caught_up,    ///< the coordinator: all that waited here has been presented
    hand_over,    ///< a rank: hand over what you have, and close
    handed_over,  ///< the coordinator: there was nothing
    closed,       ///< a rank: the file is closed
    probe,        ///< a connection: are you there?
    cut,          ///< a connection: end it, another one has its element
    early,        ///< the log: the first frame of a series came before its start
    dropped,      ///< the file: frames came before the start
  };
  What what = What::ended;
  unsigned rank = 0;
  std::string name;
  std::uint64_t generation = 0;  ///< the coordinator's, of opened, in_vain, caught_up and closed
  std::string connection = {};
  Participant who = {};   ///< that began or ended
  bool by_all = true;     ///< of an end: as in Ended, as this rank knows it
  bool by_start = false;  ///< likewise
  std::vector<std::uint64_t> numbers = {};
};
using Command = std::variant<Open, Close, Notify>;

/// What `answer` says to keep is to be kept before a command is obeyed: its turn may have come already.
struct Actions {
  Answer answer;
  std::vector<Command> commands;
};

class Registry {
 public:
  explicit Registry(const Rules& rules);

  /// `now` never runs backwards.
  Actions step(Time now, const Event& event);
  /// When Tick is due at the latest; nothing if only events can change anything.
  std::optional<Time> wake_at() const;
  /// How long the series waits at most if nothing comes; nothing if neither its end nor all of its frames have come.
  std::optional<Time> ends_in(const std::string& name) const;

  State state(const std::string& name) const;
  std::uint64_t generation(const std::string& name) const;
  bool idle() const;  ///< no series waits, opens, is open or closes
  std::uint64_t refused() const { return refused_; }
  std::uint64_t refused_elements() const { return refused_elements_; }
  const Roster* roster(const std::string& name) const;
  const WaitingBytes& starts_bytes() const { return starts_bytes_; }
  const WaitingBytes& frames_bytes() const { return frames_bytes_; }
  /// What contradicts itself; empty if nothing does. For tests.
  std::string audit() const;

 private:
  struct Entry {
    State state = State::unknown;
    std::uint64_t generation = 0;
    Announced what;
    Roster roster;
    Ending ending;
    Facts facts;
    Participant starter;
    bool has_starter = false;  ///< false: joined because frames came
    std::uint64_t start_bytes = 0;
    Time opened_at = 0;
    bool refusal_counted = false;
    bool has_line = false;         ///< events wait behind its start
    bool held = false;             ///< its source can be held back
    bool close_asked = false;      ///< by the coordinator, while it opens here
    Time abandoned_at = 0;         ///< 0: it is not
    std::optional<Called> call;    ///< likewise
    std::uint64_t called_for = 0;  ///< the coordinator's generation
    Time claim_until = 0;          ///< a probed rival has to answer
    std::string probed;            ///< connection
    bool rival_answers = false;
    std::set<unsigned> joined;   ///< other ranks
    std::set<unsigned> awaited;  ///< that have not handed over
    std::set<unsigned> behind;   ///< at which something waits for the series
    Time behind_until = 0;       ///< until then it is not closed for that
    Time handover_until = 0;
    bool close_commanded = false;
    // What is remembered of a name behind its close, and before its start.
    bool was_closed = false;
    bool was_whole = false;
    std::string whole_arm_date;
    std::set<std::uint32_t> closed_elements;
    Time late_until = 0;
    Time sought_at = -1;  ///< looked for in vain
    std::vector<Ended> early_ends;
    std::vector<std::uint64_t> early_frames;
    std::set<std::string> early_refused;  ///< sources of elements
    std::uint64_t memory = 0;             ///< its place in memory_
  };
  using Entries = std::map<std::string, Entry>;

  Answer on(const Started& event);
  Answer on(const FrameSeen& event);
  Answer on(const Ended& event);
  Answer on(const Sought& event);
  void on(const Arrived& event) { connections_.insert(event.connection); }
  void on(const SenderLost& event);
  void on(const Departed& event);
  void on(const Guests& event) { guests_ = event.number; }
  void on(const Answered& event);
  void on(const Opened& event);
  Answer on(const OpenFailed& event);
  Answer on(const Waits& event);
  void on(const Called& event);
  void on(const CaughtUp& event);
  void on(const StartRefused& event);
  Answer on(const ElementRefused& event);
  void on(const LineEmpty& event);
  void on(const Taken& event);
  void on(const Measured& event);
  void on(const Closed& event);
  void on(const HandedOver& event);
  void on(const CloseAsked& event);
  void on(const EndAll& event);
  void on(const StopWaiting& event);
  void on(const Stop& event);
  void on(const Tick& event);

  Answer begin_again(const Started& event, Entry& entry);
  Answer join(const Started& event, Entry& entry);
  Answer claim(const Started& event, Entry& entry);
  Answer open(const Started& event, Entry& entry);
  Answer wait_for_file(const Started& event, Entry& entry);
  Answer queue(Entry& entry, bool is_start, std::uint64_t bytes);
  Answer search(const std::string& name, Entry& entry, Time first);
  Answer wait_there(Entry& entry, unsigned rank);
  void notify(Notify what);
  void catch_up(const std::string& name, std::uint64_t generation);
  void call(Notify::What what, const std::string& name, const Entry& entry);
  void wait_in_vain(const std::string& series, Entry& entry);
  void close_at_stop(const std::string& name, Entry& entry);
  Answer early_frame(const FrameSeen& event, Entry& entry);
  void begin_opening(const std::string& name, Entry& entry, bool from_line, bool sought);
  void end_others_of(const Participant& who, const std::string& name);
  Answer pass_end_on(const Ended& event, Entry* entry);
  void apply_end(Entry& entry, const Ended& event);
  void conclude(Entry& entry, const Ended& event);
  Time patience(const Entry& entry, const Ended& event, bool all) const;
  bool can_follow(const Entry& entry, const Ended& event) const;
  bool takes_part_over_tcp(const Entry& entry) const;
  bool is_last(const Entry& entry) const;
  void evaluate(const std::string& name, Entry& entry);
  void begin_closing(const std::string& name, Entry& entry);
  void command_close(const std::string& name, Entry& entry);
  void refuse(const std::string& name, Entry& entry);
  void make_room();
  void let_in();
  void remember(const std::string& name, Entry& entry);
  void forget_early(Entry& entry);
  void set_ending(Entry& entry, Time patience, bool all, EndedBy why);
  Answer until(Time since, Time patience, Why why) const;
  Answer reject(Why why) const { return {.kind = Answer::Kind::reject, .why = why}; }
  Answer accept(const Entry& entry) const {
    return {.kind = Answer::Kind::accept, .generation = entry.generation, .state = entry.state};
  }
  bool is_open(const Entry& entry) const { return entry.state == State::open || entry.state == State::ending; }
  bool is_waited_for(const Entry& entry) const {
    return entry.has_line || (!entry.behind.empty() && now_ < entry.behind_until);
  }
  /// Before its first frame; what other ranks' senders do is not known here.
  bool is_abandoned(const Entry& entry) const {
    return entry.facts.abandoned && entry.joined.empty() && !entry.ending.is_set();
  }
  bool is_known(const Entry& entry) const {
    return entry.has_line || is_open(entry) || entry.state == State::opening || entry.state == State::waiting;
  }
  Time since(Time since) const { return since == 0 ? now_ : since; }

  const Rules rules_;
  Time now_ = 0;
  Entries entries_;
  Places places_;
  WaitingBytes starts_bytes_;
  WaitingBytes frames_bytes_;
  std::set<std::string> connections_;
  std::size_t guests_ = 0;
  std::deque<std::pair<std::string, std::uint64_t>> memory_;  ///< names of series that are over, the oldest first
  std::uint64_t memories_ = 0;
  std::size_t early_series_ = 0;
  std::uint64_t generations_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t refused_elements_ = 0;
  bool stopping_ = false;
  bool waits_ = true;
  std::vector<Command> commands_;  ///< of the current step
};

}  // namespace penstock::series
