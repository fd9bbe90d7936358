/// What this process did for all series, for metrics.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "recorder/series/accounting/meter.hpp"

namespace penstock::recorder {

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
  std::uint64_t values_used_bytes_max = 0;  ///< of Config::values_bytes()
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
