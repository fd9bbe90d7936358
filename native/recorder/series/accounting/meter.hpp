/// What this process did for a series: the numbers behind its metrics.
///
/// Unlike SeriesStats, which is the series' account (the coordinator's holds what other ranks did), these count the
/// work of one process, and never go down. All calls are safe from several threads.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time/time_histogram.hpp"
#include "recorder/series/accounting/ledger.hpp"

namespace penstock::recorder {

struct Meters {
  std::uint64_t frames_received = 0;  ///< taken in; each channel of a frame counts
  std::uint64_t raw_bytes = 0;        ///< of those, uncompressed
  std::uint64_t frames_written = 0;   ///< on storage and in the index
  std::uint64_t stored_bytes = 0;     ///< of those
  std::uint64_t segments = 0;
  std::uint64_t segment_bytes = 0;   ///< written to storage, headers and padding included
  std::int64_t writing_ns = 0;       ///< in which at least one segment was being written
  std::uint64_t missing_frames = 0;  ///< of series that have ended; the coordinator's
  LedgerCounts anomalies;            ///< without `received` and `end`
  TimeHistogram::Values compress;    ///< a frame
  TimeHistogram::Values latency;     ///< a frame, from received to in the index
  std::uint64_t waiting_frames = 0;  ///< taken in and neither in the index nor lost, now
  std::uint64_t waiting_segments = 0;
  std::uint64_t index_segments = 0;  ///< written, waiting for the index

  void add(const Meters& other);
};

/// Of one series; what happens for each frame.
struct Meter {
  std::atomic<std::uint64_t> frames_received{0};
  std::atomic<std::uint64_t> frames_written{0};
  std::atomic<std::uint64_t> raw_bytes{0};
  std::atomic<std::uint64_t> stored_bytes{0};
  TimeHistogram compress;
  TimeHistogram latency;
};

}  // namespace penstock::recorder
