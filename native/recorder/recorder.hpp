/// The recorder: sources put frames in, workers compress them, each series goes into its own file.
///
/// Threads: the sources' own, `threads` workers, one that keeps time (progress, timers, closing),
/// and the store's. Memory: the pool and the segment buffers, both within Config::pool_bytes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/queue.hpp"
#include "frame/sink.hpp"
#include "recorder/events.hpp"
#include "recorder/series_file.hpp"

namespace penstock::recorder {

class Recorder final : public FrameSink {
 public:
  /// `env` and `events` outlive the recorder.
  Recorder(Env& env, Config config, Events& events);
  /// Stops as stop() does.
  ~Recorder() override;

  /// Checks the folder and starts the threads.
  Result<void> start();
  /// Closes every open series with what has come (its file is complete) and ends the threads. The
  /// sources must have been stopped before.
  void stop();
  /// Waits up to `wait` for Config::series_limit series to be closed; true if they are.
  bool wait_for_limit(std::chrono::milliseconds wait);
  /// Series whose file could not be completed.
  std::uint64_t failed_series() const { return failed_series_; }

  Result<void> begin(Series series, std::shared_ptr<AckListener> acks) override;
  Result<void> put(Frame frame) override;
  Result<void> end(const SeriesEnd& end) override;
  bool holds_back() const override { return config_.when_full == WhenFull::hold; }
  bool keeps_payloads() const override { return config_.codec.encoding == Encoding::none; }
  void drop(const std::string& series_unique_id, FrameNumber number) override;
  void damage(const std::string& series_unique_id, FrameNumber number) override;
  void reject(std::string_view source, const Error& why) override;
  BufferPool& pool() override { return pool_; }

 private:
  struct Work {
    std::shared_ptr<SeriesFile> series;
    Task task;
  };
  struct Closing {
    std::shared_ptr<SeriesFile> series;
    std::atomic<bool> done{false};
    std::thread thread;
  };
  struct Open {
    std::shared_ptr<SeriesFile> file;
    std::int64_t started_ns = 0;         ///< monotonic
    std::uint64_t raw_bytes_before = 0;  ///< at the last progress event
    std::uint64_t stored_bytes_before = 0;
    std::int64_t progress_ns = 0;
  };

  std::shared_ptr<SeriesFile> find(const std::string& series_unique_id) const;
  bool end_idle_series();
  Result<void> claim(const std::string& unique_id);
  void decode_maps(Series& series);
  void work(unsigned worker);
  void keep_time();
  void report_progress(std::int64_t now_ns);
  void close_ready(std::int64_t now_ns, bool all);
  void close_one(const Open& open);
  void report_end(const Open& open, const std::string& problem);
  void reap(bool all);

  Env& env_;
  const Config config_;
  Events& events_;
  BufferPool pool_;
  BoundedQueue<Work> queue_;
  std::vector<std::thread> workers_;
  std::thread timekeeper_;
  std::atomic<std::uint64_t> rejected_{0};
  std::atomic<std::uint64_t> failed_series_{0};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // guarded by mutex_
  std::map<std::string, Open> open_;
  std::set<std::string> opening_;  ///< whose file is being made
  bool stopping_ = false;
  std::uint64_t closed_series_ = 0;
  std::int64_t reject_window_ns_ = 0;
  unsigned rejects_in_window_ = 0;

  // The timekeeper's thread, and stop() after it has ended.
  std::vector<std::unique_ptr<Closing>> closing_;
};

}  // namespace penstock::recorder
