#include "recorder/series/meter.hpp"

#include <algorithm>

#include "recorder/series/series_file.hpp"

namespace penstock::recorder {

void Meters::add(const Meters& other) {
  frames_received += other.frames_received;
  raw_bytes += other.raw_bytes;
  frames_written += other.frames_written;
  stored_bytes += other.stored_bytes;
  segments += other.segments;
  segment_bytes += other.segment_bytes;
  amiss.add_amiss(other.amiss);
  missing_frames += other.missing_frames;
  compress.add(other.compress);
  latency.add(other.latency);
  waiting_frames += other.waiting_frames;
  waiting_segments += other.waiting_segments;
}

void Totals::open(std::shared_ptr<SeriesFile> series) {
  std::lock_guard lock(mutex_);
  open_.push_back(std::move(series));
}

void Totals::close(const std::shared_ptr<SeriesFile>& series) {
  std::lock_guard lock(mutex_);
  const auto found = std::find(open_.begin(), open_.end(), series);
  if (found == open_.end()) return;
  auto last = series->meters();
  last.waiting_frames = last.waiting_segments = 0;
  closed_.add(last);
  open_.erase(found);
}

Meters Totals::now() const {
  std::lock_guard lock(mutex_);
  auto all = closed_;
  for (const auto& series : open_) all.add(series->meters());
  return all;
}

std::size_t Totals::open_series() const {
  std::lock_guard lock(mutex_);
  return open_.size();
}

}  // namespace penstock::recorder
