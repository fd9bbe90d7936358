#include "load/workloads/ring.hpp"

#include <utility>

namespace penstock::load {

Ring::Ring(const LoadPlan& plan, std::uint64_t kept, std::unique_ptr<Names> names, std::shared_ptr<Made> made)
    : plan_(plan), kept_(kept), names_(std::move(names)), made_(std::move(made)) {}

Result<void> Ring::start() {
  return crew_.start("pen-load-ring", Role::other, [self = shared_from_this()] { self->remove_on(); });
}

Result<void> Ring::add(std::uint64_t number) {
  {
    MutexLock lock(mutex_);
    if (failed_) return *failed_;
    files_.push_back(number);
  }
  told_.notify_one();
  PEN_TRY(remove_one(kept_ + kept_ / 4));
  return {};
}

void Ring::close() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  told_.notify_all();
}

void Ring::remove_on() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      told_.wait(lock, [this]() PEN_REQUIRES(mutex_) { return closed_ || files_.size() > kept_; });
      if (closed_) return;
    }
    const auto removed = remove_one(kept_);
    if (removed.ok()) continue;
    MutexLock lock(mutex_);
    failed_ = removed.error();
    return;
  }
}

Result<bool> Ring::remove_one(std::uint64_t kept) {
  std::uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    if (files_.size() <= kept) return false;
    number = files_.front();
    files_.pop_front();
  }
  PEN_TRY(names_->remove(file_name(plan_, number).c_str()));
  made_->gone(number);
  return true;
}

}  // namespace penstock::load
