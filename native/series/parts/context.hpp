/// What the parts of a registry share: the rules, the table of names, the files, and the step that is being taken.
#pragma once

#include <utility>
#include <vector>

#include "series/actions.hpp"
#include "series/events.hpp"
#include "series/names.hpp"
#include "series/places.hpp"
#include "series/rules.hpp"

namespace penstock::series {

struct Context {
  explicit Context(const Rules& given);

  const Rules rules;
  Names names;
  Places places;
  Time now = 0;
  bool stopping = false;
  bool may_wait = true;           ///< sources may be held back; false while stopping
  std::vector<Command> commands;  ///< of this step

  void on(const StopWaiting&) { may_wait = false; }
  void on(const Stop&) {
    stopping = true;
    may_wait = false;
  }
  void notify(Notify what) { commands.emplace_back(std::move(what)); }
  /// `first` presented; 0: now.
  Time since(Time first) const { return first == 0 ? now : first; }
  /// Wait, or, when `patience` is over, a rejection for the reason `why`.
  Answer until(Time first, Time patience, Why why) const;
  /// As Ending::set().
  void set_ending(Entry& entry, Time patience, bool all, EndedBy why) const;
};

}  // namespace penstock::series
