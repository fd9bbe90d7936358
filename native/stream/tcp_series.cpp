#include "stream/tcp_series.hpp"

#include <algorithm>

namespace penstock::stream {

bool TcpSeries::is_closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

TcpControl TcpSeries::state() const {
  TcpControl control;
  control.series_unique_id = unique_id_;
  control.safe_below = safe_below_;
  control.text = problem_;
  return control;
}

std::vector<std::shared_ptr<TcpReplies>> TcpSeries::connected() {
  std::vector<std::shared_ptr<TcpReplies>> alive;
  std::erase_if(connections_, [&](const auto& connection) {
    auto replies = connection.lock();
    if (replies == nullptr) return true;
    alive.push_back(std::move(replies));
    return false;
  });
  return alive;
}

void TcpSeries::join(const std::shared_ptr<TcpReplies>& replies) {
  std::lock_guard lock(mutex_);
  if (closed_) return replies->send(TcpKind::closed, state());
  const auto same = [&](const auto& connection) { return connection.lock() == replies; };
  if (std::none_of(connections_.begin(), connections_.end(), same)) connections_.push_back(replies);
  replies->ack(unique_id_, safe_below_);
}

void TcpSeries::safe_below(const std::string&, FrameNumber below) {
  // The replies only queue, so telling them with the mutex held is short; and it keeps the order.
  std::lock_guard lock(mutex_);
  safe_below_ = std::max(safe_below_, value(below));
  for (const auto& replies : connected()) replies->ack(unique_id_, safe_below_);
}

void TcpSeries::closed(const std::string&, const std::string& problem) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  closed_ = true;
  problem_ = problem;
  for (const auto& replies : connected()) replies->send(TcpKind::closed, state());
  connections_.clear();
}

Result<std::shared_ptr<TcpSeries>> TcpSeriesTable::start(Series series, bool resume,
                                                         const std::shared_ptr<TcpReplies>& replies, FrameSink& sink) {
  std::lock_guard starting(starting_);
  auto known = find(series.unique_id);
  if (known != nullptr && resume) {
    if (!known->is_of(series))
      return make_error(Errc::mismatch, "series \"{}\" began with another shape, type, number of frames or channels",
                        series.unique_id);
    known->join(replies);
    return known;
  }
  series.resumed = resume;
  auto entry = std::make_shared<TcpSeries>(series);
  const auto unique_id = series.unique_id;
  PEN_TRY(sink.begin(std::move(series), entry));
  {
    std::lock_guard lock(mutex_);
    if (!series_.contains(unique_id)) order_.push_back(unique_id);
    series_[unique_id] = entry;
    forget_old();
  }
  entry->join(replies);
  return entry;
}

std::shared_ptr<TcpSeries> TcpSeriesTable::find(const std::string& unique_id) {
  std::lock_guard lock(mutex_);
  const auto found = series_.find(unique_id);
  return found == series_.end() ? nullptr : found->second;
}

void TcpSeriesTable::forget_old() {
  while (order_.size() > closed_max) {
    const auto oldest = std::find_if(order_.begin(), order_.end(),
                                     [&](const auto& unique_id) { return series_.at(unique_id)->is_closed(); });
    if (oldest == order_.end()) return;
    series_.erase(*oldest);
    order_.erase(oldest);
  }
}

}  // namespace penstock::stream
