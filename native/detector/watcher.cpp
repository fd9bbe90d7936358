#include "detector/watcher.hpp"

#include <chrono>
#include <utility>

#include "base/time/clock.hpp"

namespace penstock::detector {
namespace {

constexpr std::chrono::milliseconds look_every{100};
constexpr std::int64_t progress_every_ns = 500'000'000;
constexpr std::int64_t patience_after_stop_ns = 2'000'000'000;

}  // namespace

Watcher::Watcher(stream::FrameSender& sender, const std::atomic<bool>& stop, std::function<void()> progress)
    : sender_(sender), stop_(stop), progress_(std::move(progress)), thread_([this] { run(); }) {}

Watcher::~Watcher() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Watcher::set_deadline(double seconds) { deadline_ns_ = monotonic_ns() + static_cast<std::int64_t>(seconds * 1e9); }

void Watcher::quiet() {
  std::lock_guard lock(mutex_);
  quiet_ = true;
}

void Watcher::run() {
  auto progress_due_ns = monotonic_ns() + progress_every_ns;
  std::int64_t give_up_ns = 0;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, look_every, [this] { return ending_; })) {
    const auto now_ns = monotonic_ns();
    if (const auto deadline_ns = deadline_ns_.load(); deadline_ns != 0 && now_ns > deadline_ns) {
      expired_ = true;
      sender_.cancel();
    }
    if (stop_ && give_up_ns == 0) give_up_ns = now_ns + patience_after_stop_ns;
    if (give_up_ns != 0 && now_ns > give_up_ns) sender_.cancel();
    if (!quiet_ && now_ns >= progress_due_ns) {
      progress_();
      progress_due_ns = now_ns + progress_every_ns;
    }
  }
}

}  // namespace penstock::detector
