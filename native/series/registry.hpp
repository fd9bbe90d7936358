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
/// A name of which nothing was heard is unknown. `closed` and `refused` names may start again.
///
/// The registry is a table of names (names.hpp) and parts with one job each (parts/). An event goes to each part that
/// takes it; at most one answers. A part refers only to parts above it:
///
///   context      what all parts share: rules, names, files, the time, and the commands of the step
///   connections  which TCP connections are open
///   lines        how many bytes wait behind starts
///   refusals     series without a file, each counted once
///   ends         who takes part, who has ended, and how long a series is waited for after an end
///   closing      when a file is closed
///   opening      a file is made, and is there or fails
///   calls        what waits at one rank for a file of the coordinator
///   search       the series of a frame whose start has not come here
///   starts       what becomes of a start
///
/// The rules and their reasons are in docs/explanation/decisions/0047-the-series-as-a-state-machine.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "series/actions.hpp"
#include "series/events.hpp"
#include "series/parts/calls.hpp"
#include "series/parts/closing.hpp"
#include "series/parts/connections.hpp"
#include "series/parts/context.hpp"
#include "series/parts/ends.hpp"
#include "series/parts/lines.hpp"
#include "series/parts/opening.hpp"
#include "series/parts/refusals.hpp"
#include "series/parts/search.hpp"
#include "series/parts/starts.hpp"
#include "series/rules.hpp"

namespace penstock::series {

class Registry {
 public:
  explicit Registry(const Rules& rules) : context_(rules) {}
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  /// `now` never runs backwards.
  Actions step(Time now, const Event& event);
  /// When Tick is due at the latest; nothing if only events can change anything.
  std::optional<Time> wake_at() const { return closing_.wake_at(); }
  /// How long the series waits at most if nothing comes; nothing if neither its end nor all of its frames have come.
  std::optional<Time> ends_in(const std::string& name) const;
  /// Each participant has sent its end. What comes still is late, or had to be sent again.
  bool have_all_ended(const std::string& name) const;

  State state(const std::string& name) const;
  std::uint64_t generation(const std::string& name) const;
  bool idle() const;  ///< no series waits, opens, is open or closes
  std::uint64_t refused() const { return refusals_.series(); }
  std::uint64_t refused_elements() const { return refusals_.elements(); }
  const Roster* roster(const std::string& name) const;
  const WaitingBytes& starts_bytes() const { return lines_.starts(); }
  const WaitingBytes& frames_bytes() const { return lines_.frames(); }
  /// What contradicts itself; empty if nothing does. For tests.
  std::string audit() const;

 private:
  Context context_;
  Connections connections_;
  Lines lines_{context_};
  Refusals refusals_{context_};
  Ends ends_{context_, connections_};
  Closing closing_{context_};
  Opening opening_{context_, refusals_, ends_, closing_};
  Calls calls_{context_, lines_, refusals_, closing_, opening_};
  Search search_{context_, lines_, opening_};
  Starts starts_{context_, lines_, refusals_, ends_, opening_};
};

}  // namespace penstock::series
