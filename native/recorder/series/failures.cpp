#include "recorder/series/failures.hpp"

#include <spdlog/spdlog.h>

namespace penstock::recorder {

void Failures::note(const Error& why, bool for_good) {
  std::lock_guard lock(mutex_);
  last_ = why;
  if (spoiled_ || (!for_good && !first_.empty())) return;
  spoiled_ = for_good;
  first_ = why.message();
  spdlog::error("{}: {}", path_, why.message());
}

bool Failures::is_spoiled() const {
  std::lock_guard lock(mutex_);
  return spoiled_;
}

std::string Failures::first() const {
  std::lock_guard lock(mutex_);
  return first_;
}

Error Failures::last() const {
  std::lock_guard lock(mutex_);
  return last_;
}

}  // namespace penstock::recorder
