/// Tells people and programs of calls that hang: in the log, and as an event.
#pragma once

#include "base/files/call_watch.hpp"
#include "recorder/service/events.hpp"

namespace penstock::recorder {

/// For CallWatch. `events` outlives what is returned.
CallWatch::Tell tell_stalls(Events& events, unsigned rank);

/// "write of 8388608 bytes at 4096 of /data/a.h5 has stalled for 2.0 s (thread 1234)"
std::string sentence(const Stall& stall);

}  // namespace penstock::recorder
