/// What this process did for a series, and for all of them: the numbers behind its metrics.
///
/// Unlike SeriesStats, which is the series' account (a lead's holds what other ranks did), these count the work of one
/// process, and never go down. All calls are safe from several threads.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/time_histogram.hpp"
#include "recorder/series/accounting/ledger.hpp"

namespace penstock::recorder {

struct Meters {
  std::uint64_t frames_received = 0;  ///< taken in; each channel of a frame counts
  std::uint64_t raw_bytes = 0;        ///< of those, uncompressed
  std::uint64_t frames_written = 0;   ///< on storage and in the index
  std::uint64_t stored_bytes = 0;     ///< of those
  std::uint64_t segments = 0;
  std::uint64_t segment_bytes = 0;   ///< written to storage, headers and padding included
  std::uint64_t missing_frames = 0;  ///< of series that have ended; the lead's
  LedgerCounts amiss;                ///< without `received` and `end`
  TimeHistogram::Values compress;    ///< a frame
  TimeHistogram::Values latency;     ///< a frame, from received to in the index
  std::uint64_t waiting_frames = 0;  ///< taken in and neither in the index nor lost, now
  std::uint64_t waiting_segments = 0;

  void add(const Meters& other);
};

/// How this process stands now, for metrics.
struct Snapshot {
  Meters meters;
  std::uint64_t open_series = 0;
  std::uint64_t complete_series = 0;  ///< since the start; of the lead
  std::uint64_t failed_series = 0;
  std::uint64_t refused_series = 0;
  std::uint64_t rejected = 0;
  std::uint64_t queued_frames = 0;  ///< waiting for a thread that compresses
  std::uint64_t pool_bytes = 0;
  std::uint64_t pool_used_bytes = 0;
  std::uint64_t pool_used_bytes_max = 0;
  std::uint64_t values_used_bytes_max = 0;  ///< of values_budget_bytes
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

class SeriesFile;

/// All series since the start: none is counted twice or left out while it closes.
class Totals {
 public:
  void open(std::shared_ptr<SeriesFile> series);
  /// It has been closed: nothing changes any more. Ignored where it was never opened.
  void close(const std::shared_ptr<SeriesFile>& series);
  Meters now() const;
  std::size_t open_series() const;

 private:
  mutable std::mutex mutex_;
  // guarded by mutex_
  std::vector<std::shared_ptr<SeriesFile>> open_;
  Meters closed_;
};

}  // namespace penstock::recorder
