#include "recorder/service/metrics/totals.hpp"

#include <algorithm>

#include "recorder/series/series_file.hpp"

namespace penstock::recorder {

void Totals::open(std::shared_ptr<SeriesFile> series) {
  std::lock_guard lock(mutex_);
  open_.push_back(std::move(series));
}

void Totals::close(const std::shared_ptr<SeriesFile>& series) {
  std::lock_guard lock(mutex_);
  const auto found = std::find(open_.begin(), open_.end(), series);
  if (found == open_.end()) return;
  auto last = series->meters();
  last.waiting_frames = last.waiting_segments = last.index_segments = 0;
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
