#include "recorder/series/series_stats.hpp"

#include <algorithm>

namespace penstock::recorder {

SeriesStats stats_of(const SeriesSpec& spec, const SeriesAccount& account, const SharedStore& store) {
  const auto& counters = account.counters;
  SeriesStats stats;
  stats.ledger = account.ledger.counts();
  stats.frames_before = counters.frames_before;
  stats.raw_bytes = counters.raw_bytes;
  stats.encode_ns = counters.encode_ns;
  stats.unfiltered = counters.unfiltered;
  if (store.is_ready() && store) stats.store = store->stats();
  stats.store.write_ns += counters.write_ns_elsewhere;
  stats.store.sync_ns += counters.sync_ns_elsewhere;
  const auto written = account.written.values();
  // Parts of frames that are not complete yet, or never will be, are no frames.
  stats.frames_written = std::min(written.parts / spec.parts(), stats.ledger.received);
  stats.stored_bytes = written.stored_bytes;
  stats.latency = written.latency;
  return stats;
}

Meters meters_of(const SeriesSpec& spec, const SeriesAccount& account, const SharedStore& store) {
  const auto& meter = account.counters.meter;
  Meters meters;
  meters.frames_received = meter.frames_received;
  meters.raw_bytes = meter.raw_bytes;
  meters.frames_written = meter.frames_written;
  meters.stored_bytes = meter.stored_bytes;
  meters.anomalies = account.ledger.counts();
  meters.anomalies.subtract_anomalies(account.ledger.added());
  if (account.settled) meters.missing_frames = missing_frames(spec, account);
  meters.compress = meter.compress.values();
  meters.latency = meter.latency.values();
  if (store.is_ready() && store) {
    const auto stats = store->stats();
    meters.segments = stats.segments;
    meters.segment_bytes = stats.written_bytes;
    meters.writing_ns = stats.writing_ns;
    meters.waiting_segments = stats.queue_segments;
    meters.index_segments = stats.index_segments;
  }
  meters.waiting_frames = account.in_flight.unsettled();
  return meters;
}

}  // namespace penstock::recorder
