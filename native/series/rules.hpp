/// What is constant while a recorder runs: its sources, limits and timeouts, and what follows from them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "series/ending.hpp"

namespace penstock::series {

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

}  // namespace penstock::series
