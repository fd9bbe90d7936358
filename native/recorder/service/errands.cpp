#include "recorder/service/errands.hpp"

#include <utility>

#include "base/threads.hpp"

namespace penstock::recorder {

void Errands::start(const char* thread_name, std::function<void()> errand) {
  auto one = std::make_unique<One>();
  one->thread = std::thread([errand = std::move(errand), thread_name, done = &one->done] {
    begin_thread(thread_name, Role::other);
    errand();
    *done = true;
  });
  std::lock_guard lock(mutex_);
  running_.push_back(std::move(one));
}

void Errands::join(bool all) {
  for (;;) {
    std::vector<std::unique_ptr<One>> ended;
    {
      std::lock_guard lock(mutex_);
      for (auto& one : running_)
        if (all || one->done) ended.push_back(std::move(one));
      std::erase(running_, nullptr);
    }
    for (const auto& one : ended) one->thread.join();
    if (!all || ended.empty()) return;
  }
}

}  // namespace penstock::recorder
