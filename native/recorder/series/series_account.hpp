/// What the parts of a SeriesFile know together about its frames. Each member synchronises itself.
#pragma once

#include <atomic>
#include <string>
#include <utility>

#include "recorder/series/accounting/counters.hpp"
#include "recorder/series/accounting/ledger.hpp"
#include "recorder/series/failures.hpp"
#include "recorder/series/in_flight.hpp"

namespace penstock::recorder {

struct SeriesAccount {
  SeriesAccount(unsigned parts, std::string path) : ledger(parts), failures(std::move(path)) {}

  Ledger ledger;  ///< the frame accounting: what became of each frame
  SeriesCounters counters;
  WrittenCounts written;
  Failures failures;
  InFlight in_flight;
  std::atomic<bool> settled{false};  ///< of the coordinator: the frame accounting is final
  std::atomic<bool> may_wait{true};  ///< for other clients' frames, and for a file to appear
};

}  // namespace penstock::recorder
