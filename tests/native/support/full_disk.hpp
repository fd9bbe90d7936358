/// A storage that is full, or takes nothing for another reason, until somebody makes room. Safe from several threads.
#pragma once

#include <atomic>

#include "fault_env.hpp"

namespace penstock::testing {

class FullDisk {
 public:
  explicit FullDisk(bool full = true, Errc reason = Errc::no_space) : full_(full) {
    env_.faults->on_write = [this, reason](auto, auto) {
      return full_ ? Result<void>(make_error(reason, "{}", name(reason))) : Result<void>{};
    };
  }

  /// Outlived by this.
  Env& env() { return env_; }
  void fill() { full_ = true; }
  void make_room() { full_ = false; }

 private:
  std::atomic<bool> full_;
  FaultEnv env_;
};

}  // namespace penstock::testing
