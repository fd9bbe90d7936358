/// What the registry answers and commands.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "series/ended_by.hpp"
#include "series/ending.hpp"
#include "series/roster.hpp"

namespace penstock::series {

enum class State : std::uint8_t { unknown, early, waiting, opening, open, ending, closing, closed, refused };

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
  Participant who = {};   ///< that ended
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

}  // namespace penstock::series
