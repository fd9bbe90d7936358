#include "load/workloads/ring.hpp"

#include <utility>

namespace penstock::load {

Ring::Ring(std::uint64_t kept, std::unique_ptr<Names> names) : kept_(kept), names_(std::move(names)) {}

Result<void> Ring::start() {
  return crew_.start("pen-load-ring", Role::other, [self = shared_from_this()] { self->remove_on(); });
}

Result<void> Ring::add(std::string name) {
  {
    MutexLock lock(mutex_);
    if (failed_) return *failed_;
    files_.push_back(std::move(name));
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
  std::string name;
  {
    MutexLock lock(mutex_);
    if (files_.size() <= kept) return false;
    name = std::move(files_.front());
    files_.pop_front();
  }
  PEN_TRY(names_->remove(name.c_str()));
  return true;
}

}  // namespace penstock::load
