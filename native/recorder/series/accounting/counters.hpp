/// What the parts of one series count: atomics for what every frame changes, one lock for what the indexer changes by
/// batches. All calls are safe from several threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "recorder/series/accounting/histogram.hpp"
#include "recorder/series/accounting/meter.hpp"

namespace penstock::recorder {

/// The series' account; in the coordinator it includes the other ranks once the series is closed.
struct SeriesCounters {
  std::atomic<std::uint64_t> frames_before{0};  ///< that a resumed file held with all their parts; 0 in a new one
  std::atomic<std::uint64_t> raw_bytes{0};      ///< of admitted frames that were not given up, uncompressed
  std::atomic<std::int64_t> encode_ns{0};       ///< summed over workers
  std::atomic<std::uint64_t> unfiltered{0};
  std::atomic<std::int64_t> write_ns_elsewhere{0};  ///< of the other ranks, once they have closed
  std::atomic<std::int64_t> sync_ns_elsewhere{0};
  std::atomic<std::int64_t> last_activity_ns{0};  ///< when the series began or its last frame came, monotonic
  std::atomic<std::int64_t> last_received_ns{0};  ///< realtime, of the last frame that was taken; 0: none was
  Meter meter;                                    ///< of this process alone

  /// Raises last_received_ns.
  void note_received(std::int64_t realtime_ns) {
    auto known = last_received_ns.load();
    while (known < realtime_ns && !last_received_ns.compare_exchange_weak(known, realtime_ns)) {
    }
  }
  void note_encoding(std::int64_t ns) {
    encode_ns += ns;
    meter.compress.add(ns);
  }
};

/// Parts of frames that are on storage and in the index.
class WrittenCounts {
 public:
  struct Values {
    Histogram latency;
    std::uint64_t parts = 0;
    std::uint64_t stored_bytes = 0;
  };

  /// A batch: a latency for each part that this process placed.
  void add(std::span<const std::int64_t> latencies_ns, std::uint64_t parts, std::uint64_t stored_bytes) {
    std::lock_guard lock(mutex_);
    for (const auto latency : latencies_ns) values_.latency.add(latency);
    values_.parts += parts;
    values_.stored_bytes += stored_bytes;
  }
  /// Latencies of another rank, as LogHistogram::values() gives them.
  void merge_latency(const std::vector<std::uint64_t>& values) {
    std::lock_guard lock(mutex_);
    values_.latency.merge(values);
  }
  Values values() const {
    std::lock_guard lock(mutex_);
    return values_;
  }

 private:
  mutable std::mutex mutex_;
  Values values_;  // guarded by mutex_
};

}  // namespace penstock::recorder
