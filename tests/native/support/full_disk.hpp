/// A storage that is full until somebody makes room. Safe from several threads.
#pragma once

#include <atomic>

#include "fault_env.hpp"

namespace penstock::testing {

class FullDisk {
 public:
  explicit FullDisk(bool full = true) : full_(full) {
    env_.faults->on_write = [this](auto, auto) {
      return full_ ? Result<void>(make_error(Errc::no_space, "full")) : Result<void>{};
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
