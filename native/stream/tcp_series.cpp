#include "stream/tcp_series.hpp"

#include <algorithm>

namespace penstock::stream {

void TcpSession::safe_below(const std::string& series_unique_id, FrameNumber below) {
  told_ = value(below);
  replies_->ack(series_unique_id, value(below));
}

void TcpSession::ask_again(const std::string&) { socket_->shut_down(); }

bool TcpSeries::is_closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

/// With mutex_ held.
TcpSeries::Part& TcpSeries::part(const std::shared_ptr<TcpReplies>& replies, const std::shared_ptr<Socket>& socket) {
  const auto found =
      std::find_if(parts_.begin(), parts_.end(), [&](const auto& each) { return each.session->is_of(*replies); });
  if (found != parts_.end()) return *found;
  parts_.push_back({std::make_shared<TcpSession>(replies, socket)});
  return parts_.back();
}

/// With mutex_ held.
bool TcpSeries::all_ended() const {
  return end_ && std::all_of(parts_.begin(), parts_.end(), [](const auto& each) { return each.ended; });
}

void TcpSeries::join(const std::shared_ptr<TcpReplies>& replies, const std::shared_ptr<Socket>& socket) {
  std::lock_guard lock(mutex_);
  if (closed_) {
    TcpControl control;
    control.series_unique_id = unique_id_;
    control.safe_below = safe_below_;
    control.text = problem_;
    return replies->send(TcpKind::closed, control);
  }
  replies->ack(unique_id_, part(replies, socket).session->told());
}

std::shared_ptr<TcpSession> TcpSeries::session(const std::shared_ptr<TcpReplies>& replies,
                                               const std::shared_ptr<Socket>& socket) {
  std::lock_guard lock(mutex_);
  return part(replies, socket).session;
}

bool TcpSeries::end(const TcpReplies& replies, const SeriesEnd& end) {
  std::lock_guard lock(mutex_);
  end_ = end;
  for (auto& each : parts_) each.ended = each.ended || each.session->is_of(replies);
  return all_ended();
}

std::optional<SeriesEnd> TcpSeries::leave(const TcpReplies& replies) {
  std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(parts_.begin(), parts_.end(), [&](const auto& each) { return each.session->is_of(replies); });
  if (found == parts_.end()) return std::nullopt;
  const bool was_last = !found->ended;
  parts_.erase(found);
  return was_last && all_ended() ? end_ : std::nullopt;
}

void TcpSeries::closed(const std::string&, const std::string& problem) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  closed_ = true;
  problem_ = problem;
  for (const auto& [session, ended] : parts_) {
    TcpControl control;
    control.series_unique_id = unique_id_;
    control.safe_below = session->told();
    control.text = problem_;
    safe_below_ = std::max(safe_below_, control.safe_below);
    session->replies().send(TcpKind::closed, control);
  }
  parts_.clear();
}

Result<void> TcpSeriesTable::start(Series series, bool resume, const std::shared_ptr<TcpReplies>& replies,
                                   const std::shared_ptr<Socket>& socket, FrameSink& sink) {
  std::lock_guard starting(starting_);
  auto known = find(series.unique_id);
  if (known != nullptr && !resume && !known->is_closed())
    return make_error(Errc::out_of_order,
                      "series \"{}\" has started already; a client that comes back says so with the flag resume",
                      series.unique_id);
  if (known != nullptr && resume) {
    if (!known->is_of(series))
      return make_error(Errc::mismatch, "series \"{}\" began with another shape, type, number of frames or channels",
                        series.unique_id);
    known->join(replies, socket);
    return {};
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
  entry->join(replies, socket);
  return {};
}

std::shared_ptr<TcpSeries> TcpSeriesTable::find(const std::string& unique_id) {
  std::lock_guard lock(mutex_);
  const auto found = series_.find(unique_id);
  return found == series_.end() ? nullptr : found->second;
}

std::vector<SeriesEnd> TcpSeriesTable::leave(const TcpReplies& replies) {
  std::lock_guard lock(mutex_);
  std::vector<SeriesEnd> ended;
  for (const auto& [unique_id, series] : series_)
    if (auto end = series->leave(replies)) ended.push_back(std::move(*end));
  return ended;
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
