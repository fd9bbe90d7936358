#pragma once

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "../support/fault_env.hpp"

namespace penstock::load {

/// One of several files fails in mid-run; the others are slow enough for their threads to hear of it.
class OneFileFailsEnv final : public Env {
 public:
  /// The file of this name fails at its write `number`, counted from 1.
  OneFileFailsEnv(std::string name, std::uint64_t number) : name_(std::move(name)) {
    failing_.faults->on_write = [this, number](auto, auto) -> Result<void> {
      if (failing_.faults->writes == number) return make_error(Errc::io, "the device of {} is gone", name_);
      return {};
    };
    slow_.faults->on_write = [](auto, auto) -> Result<void> {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return {};
    };
  }
  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) override {
    return path.ends_with(name_) ? failing_.open(path, options) : slow_.open(path, options);
  }
  Result<std::uint64_t> free_bytes(const std::string& path) override { return posix_env().free_bytes(path); }
  Result<std::vector<std::string>> list(const std::string& folder) override { return posix_env().list(folder); }
  Result<void> remove(const std::string& path) override { return posix_env().remove(path); }

 private:
  const std::string name_;
  testing::FaultEnv failing_, slow_;
};

}  // namespace penstock::load
