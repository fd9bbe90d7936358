/// What happens to series, as sources, files and other ranks report it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "series/ending.hpp"
#include "series/roster.hpp"

namespace penstock::series {

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

}  // namespace penstock::series
