/// What a series' file counts.
#include "recorder/series/series_file.hpp"

namespace penstock::recorder {

SeriesStats SeriesFile::stats() const {
  SeriesStats stats;
  stats.ledger = ledger_.counts();
  stats.raw_bytes = raw_bytes_;
  stats.encode_ns = encode_ns_;
  stats.unfiltered = unfiltered_;
  if (fitted_ && store_) stats.store = store_->stats();
  stats.store.write_ns += elsewhere_write_ns_;
  stats.store.sync_ns += elsewhere_sync_ns_;
  std::lock_guard lock(mutex_);
  // Parts of frames that are not whole yet, or never will be, are no frames.
  stats.frames_written = std::min(images_written_ / parts(), stats.ledger.received);
  stats.stored_bytes = stored_bytes_;
  stats.latency = latency_;
  return stats;
}

Meters SeriesFile::meters() const {
  Meters meters;
  meters.frames_received = meter_.frames_received;
  meters.raw_bytes = meter_.raw_bytes;
  meters.frames_written = meter_.frames_written;
  meters.stored_bytes = meter_.stored_bytes;
  meters.amiss = ledger_.counts();
  meters.amiss.subtract_amiss(ledger_.added());
  if (settled_) meters.missing_frames = missing();
  meters.compress = meter_.compress.values();
  meters.latency = meter_.latency.values();
  if (fitted_ && store_) {
    const auto store = store_->stats();
    meters.segments = store.segments;
    meters.segment_bytes = store.written_bytes;
    meters.waiting_segments = store.queue_segments;
  }
  std::lock_guard lock(mutex_);
  meters.waiting_frames = unsettled_;
  return meters;
}

std::optional<std::size_t> SeriesFile::value_columns() const {
  if (!fitted_.load(std::memory_order_acquire)) return std::nullopt;
  return columns_.size();
}

/// What such numbers take in memory is bounded.
Error SeriesFile::far_from_others(FrameNumber number) const {
  return make_error(Errc::too_large,
                    "image_id is {}, which is more than {} away from all others, as too many were before: count frames "
                    "up from 0, or leave fewer out",
                    value(number), FrameEntries::block_frames);
}

}  // namespace penstock::recorder
