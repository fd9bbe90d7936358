/// The series that came over TCP, whichever connection brought them: so that a client that comes
/// back finds its series again, and several clients may send parts of one.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "frame/sink.hpp"
#include "stream/tcp_replies.hpp"

namespace penstock::stream {

/// One series; tells every connection that takes part in it what became of its frames.
class TcpSeries : public AckListener {
 public:
  explicit TcpSeries(const Series& series)
      : unique_id_(series.unique_id), channels_(series.channels), frame_(series.frame), frames_(series.frames) {}

  const std::string& unique_id() const { return unique_id_; }
  const std::vector<std::string>& channels() const { return channels_; }
  bool is_closed() const;
  /// Whether `series` announces the same frames.
  bool is_of(const Series& series) const {
    return series.channels == channels_ && series.frame == frame_ && series.frames == frames_;
  }

  /// Adds a connection and tells it how things stand.
  void join(const std::shared_ptr<TcpReplies>& replies);

  void safe_below(const std::string& series_unique_id, FrameNumber below) override;
  void closed(const std::string& series_unique_id, const std::string& problem) override;

 private:
  TcpControl state() const;
  std::vector<std::shared_ptr<TcpReplies>> connected();

  const std::string unique_id_;
  const std::vector<std::string> channels_;
  const ArraySpec frame_;
  const std::uint64_t frames_;
  mutable std::mutex mutex_;
  // guarded by mutex_
  std::vector<std::weak_ptr<TcpReplies>> connections_;
  std::uint64_t safe_below_ = 0;
  bool closed_ = false;
  std::string problem_;
};

class TcpSeriesTable {
 public:
  /// Closed series are remembered up to this number, for clients that ask again.
  static constexpr std::size_t closed_max = 1024;

  /// Opens a series in the sink or, with `resume`, joins one that is known.
  Result<std::shared_ptr<TcpSeries>> start(Series series, bool resume, const std::shared_ptr<TcpReplies>& replies,
                                           FrameSink& sink);
  /// Null if not known.
  std::shared_ptr<TcpSeries> find(const std::string& unique_id);

 private:
  void forget_old();

  std::mutex starting_;  // held while the sink opens a series, so that two starts of one are told apart
  std::mutex mutex_;
  // guarded by mutex_
  std::map<std::string, std::shared_ptr<TcpSeries>> series_;
  std::deque<std::string> order_;
};

}  // namespace penstock::stream
