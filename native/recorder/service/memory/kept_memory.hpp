/// Memory that malloc() keeps for later though nobody has it.
#pragma once

#include <cstdint>

namespace penstock::recorder {

/// Returns it to the system if the process has much. Freed values of frames lie between others that are in use, so that
/// malloc() returns little by itself. One thread.
class KeptMemory {
 public:
  explicit KeptMemory(std::uint64_t pool_bytes) : bytes_wanted_(pool_bytes + beside_pool_bytes) {}
  void tick(std::int64_t now_ns);

 private:
  /// Less than what is promised, as the memory grows on until the next tick.
  static constexpr std::uint64_t beside_pool_bytes = 64 << 20;

  const std::uint64_t bytes_wanted_;
  std::int64_t next_ns_ = 0;
};

}  // namespace penstock::recorder
