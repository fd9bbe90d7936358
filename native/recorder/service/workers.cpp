#include "recorder/service/workers.hpp"

#include <utility>

#include "base/threads.hpp"

namespace penstock::recorder {

void Workers::start(unsigned threads) {
  for (unsigned i = 0; i < threads; ++i)
    threads_.emplace_back([this, i] {
      begin_thread("pen-compress", Role::compress);
      work(i);
    });
}

void Workers::stop() {
  queue_.close();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

void Workers::work(unsigned worker) {
  ChunkScratch scratch;
  while (auto work = queue_.pop()) {
    const auto series = std::move(work->series);
    series->encode(std::move(work->task), worker, scratch);
    // With nothing to do, a segment that is worth a write need not wait for more.
    if (queue_.size() == 0) series->flush_if_worthwhile(worker);
  }
}

}  // namespace penstock::recorder
