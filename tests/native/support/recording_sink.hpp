/// A FrameSink that keeps what sources deliver, for tests that look at it and wait for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "frame/sink.hpp"

namespace penstock::test {

class RecordingSink : public FrameSink {
 public:
  explicit RecordingSink(std::size_t pool_bytes = std::size_t{64} << 20) : pool_(pool_bytes) {}

  /// Called for each frame before it is kept, without the lock; may refuse it.
  std::function<Result<void>(const Frame&)> on_put = [](const Frame&) { return Result<void>(); };
  /// Keeps frames; otherwise they are counted and let go.
  bool keeps_frames = true;
  /// Tells the source after each frame that everything below it is safe.
  bool acknowledges = true;

  Result<void> begin(Series series, std::shared_ptr<AckListener> acks) override {
    std::lock_guard lock(mutex_);
    if (listeners_.contains(series.unique_id))
      return make_error(Errc::already_exists, "series {} is known", series.unique_id);
    listeners_[series.unique_id] = std::move(acks);
    ++generations_[series.unique_id];
    series_.push_back(std::move(series));
    changed_.notify_all();
    return {};
  }

  /// Whether another series of a name that has begun is taken.
  bool takes_anew = true;
  Result<void> begin_anew(Series series, const SeriesEnd& before) override {
    {
      std::lock_guard lock(mutex_);
      ends_.push_back(before);
      if (takes_anew) listeners_.erase(series.unique_id);
    }
    return begin(std::move(series), nullptr);
  }

  std::uint64_t generation(const std::string& series_unique_id) const override {
    std::lock_guard lock(mutex_);
    const auto known = generations_.find(series_unique_id);
    return known == generations_.end() ? 0 : known->second;
  }

  Result<void> put(Frame frame) override {
    PEN_TRY(on_put(frame));
    const auto session = frame.session;
    const auto unique_id = frame.series_unique_id;
    const auto next = FrameNumber{value(frame.number) + 1};
    {
      std::lock_guard lock(mutex_);
      const auto known = listeners_.find(unique_id);
      if (known == listeners_.end())
        return make_error(Errc::out_of_order, "frame {} of series {}, which has not begun", value(frame.number),
                          unique_id);
      sessions_[unique_id] = session;
      ++frame_count_;
      if (keeps_frames) frames_.push_back(std::move(frame));
      changed_.notify_all();
    }
    if (acknowledges && session != nullptr) session->safe_below(unique_id, next);
    return {};
  }

  Result<void> end(const SeriesEnd& end) override {
    std::shared_ptr<AckListener> listener;
    {
      std::lock_guard lock(mutex_);
      const auto known = listeners_.find(end.unique_id);
      if (known == listeners_.end()) return make_error(Errc::out_of_order, "series {} has not begun", end.unique_id);
      listener = known->second;
      ends_.push_back(end);
      changed_.notify_all();
    }
    if (listener != nullptr) listener->closed(end.unique_id, copy(problem_));
    return {};
  }

  void reject(std::string_view source, const Error& why) override {
    std::lock_guard lock(mutex_);
    rejected_.emplace_back(source, why);
    changed_.notify_all();
  }

  void note(std::string_view source, const Error& what) override {
    std::lock_guard lock(mutex_);
    notes_.emplace_back(source, what);
    changed_.notify_all();
  }

  void refuse_start(const std::string& series_unique_id, const Error& /*why*/) override {
    std::lock_guard lock(mutex_);
    refused_starts_.push_back(series_unique_id);
    changed_.notify_all();
  }

  BufferPool& pool() override { return pool_; }

  /// Whether sources wait for the pool.
  bool holds = true;
  bool holds_back() const override { return holds; }
  void drop(const std::string& /*series_unique_id*/, FrameNumber number) override { count(dropped_, number); }
  void damage(const std::string& /*series_unique_id*/, FrameNumber number,
              std::optional<std::uint32_t> /*element*/) override {
    count(damaged_, number);
  }

  /// Waits until `reached()`, which is called with the lock held; false after a minute.
  template <typename Reached>
  bool wait_until(Reached reached) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), reached);
  }
  bool wait_for_frames(std::size_t count) {
    return wait_until([&] { return frame_count_ >= count; });
  }
  bool wait_for_rejected(std::size_t count) {
    return wait_until([&] { return rejected_.size() >= count; });
  }
  bool wait_for_notes(std::size_t count) {
    return wait_until([&] { return notes_.size() >= count; });
  }
  bool wait_for_ends(std::size_t count) {
    return wait_until([&] { return ends_.size() >= count; });
  }

  std::vector<Series> series() const { return copy(series_); }
  std::vector<Frame> frames() const { return copy(frames_); }
  std::vector<SeriesEnd> ends() const { return copy(ends_); }
  std::vector<std::pair<std::string, Error>> rejected() const { return copy(rejected_); }
  std::vector<std::pair<std::string, Error>> notes() const { return copy(notes_); }
  std::vector<std::string> refused_starts() const { return copy(refused_starts_); }
  std::vector<std::uint64_t> dropped() const { return copy(dropped_); }
  std::vector<std::uint64_t> damaged() const { return copy(damaged_); }
  bool wait_for_dropped(std::size_t count) {
    return wait_until([&] { return dropped_.size() >= count; });
  }
  /// Frames that were taken or dropped.
  bool wait_for_outcomes(std::size_t count) {
    return wait_until([&] { return frame_count_ + dropped_.size() >= count; });
  }
  std::size_t frame_count() const {
    std::lock_guard lock(mutex_);
    return frame_count_;
  }
  /// That put the last frame of the series.
  std::shared_ptr<AckListener> session(const std::string& unique_id) const {
    std::lock_guard lock(mutex_);
    const auto known = sessions_.find(unique_id);
    return known == sessions_.end() ? nullptr : known->second;
  }
  void let_frames_go() {
    std::lock_guard lock(mutex_);
    frames_.clear();
  }

  /// Every series is closed with this from now on.
  void set_problem(std::string problem) {
    std::lock_guard lock(mutex_);
    problem_ = std::move(problem);
  }

 private:
  void count(std::vector<std::uint64_t>& into, FrameNumber number) {
    std::lock_guard lock(mutex_);
    into.push_back(value(number));
    changed_.notify_all();
  }
  template <typename T>
  T copy(const T& guarded) const {
    std::lock_guard lock(mutex_);
    return guarded;
  }

  BufferPool pool_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // guarded by mutex_
  std::string problem_;
  std::vector<Series> series_;
  std::vector<Frame> frames_;
  std::size_t frame_count_ = 0;
  std::vector<std::uint64_t> dropped_;
  std::vector<std::uint64_t> damaged_;
  std::vector<SeriesEnd> ends_;
  std::vector<std::pair<std::string, Error>> rejected_;
  std::vector<std::pair<std::string, Error>> notes_;
  std::vector<std::string> refused_starts_;
  std::map<std::string, std::shared_ptr<AckListener>> listeners_;
  std::map<std::string, std::shared_ptr<AckListener>> sessions_;
  std::map<std::string, std::uint64_t> generations_;
};

}  // namespace penstock::test
