/// Numbers of one series: its account for people and events, and what this process did, for metrics.
#pragma once

#include <cstdint>

#include "recorder/series/accounting/histogram.hpp"
#include "recorder/series/accounting/ledger.hpp"
#include "recorder/series/accounting/meter.hpp"
#include "recorder/series/completeness.hpp"
#include "recorder/series/opening/shared_store.hpp"
#include "recorder/series/series_account.hpp"
#include "recorder/series/series_spec.hpp"
#include "store/store.hpp"

namespace penstock::recorder {

struct SeriesStats {
  LedgerCounts ledger;
  std::uint64_t frames_before = 0;   ///< that a resumed file held with all their channels; 0 in a new one
  std::uint64_t raw_bytes = 0;       ///< of admitted frames, uncompressed
  std::uint64_t frames_written = 0;  ///< on storage and in the index; one of several parts counts in parts
  std::uint64_t stored_bytes = 0;    ///< of chunks
  std::uint64_t unfiltered = 0;      ///< chunks for which the filter plug-in failed
  std::int64_t encode_ns = 0;        ///< summed over workers
  store::StoreStats store;
  Histogram latency;  ///< from received to written, a frame
};

/// Taken at any time, from any thread.
SeriesStats stats_of(const SeriesSpec& spec, const SeriesAccount& account, const SharedStore& store);
Meters meters_of(const SeriesSpec& spec, const SeriesAccount& account, const SharedStore& store);

}  // namespace penstock::recorder
