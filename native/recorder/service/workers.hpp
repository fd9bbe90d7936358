/// Threads that compress frames, and the queue in front of them.
#pragma once

#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "base/queue.hpp"
#include "recorder/series/series_file.hpp"

namespace penstock::recorder {

class Workers {
 public:
  static constexpr std::size_t queue_frames = 4096;

  ~Workers() { stop(); }
  void start(unsigned threads);
  /// Encodes what waits, and joins the threads.
  void stop();

  /// Waits while the queue is full.
  void push(const std::shared_ptr<SeriesFile>& series, Task task) { queue_.push({series, std::move(task)}); }
  std::size_t waiting() const { return queue_.size(); }
  bool is_full() const { return waiting() >= queue_frames; }

 private:
  struct Work {
    std::shared_ptr<SeriesFile> series;
    Task task;
  };
  void work(unsigned worker);

  BoundedQueue<Work> queue_{queue_frames};
  std::vector<std::thread> threads_;
};

}  // namespace penstock::recorder
