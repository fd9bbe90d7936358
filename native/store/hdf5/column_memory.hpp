/// What HDF5 may use of memory for columns that stay open, in all files of the process. Calls are safe from several
/// threads.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock::store::hdf5 {

/// One file's share.
class ColumnMemory {
 public:
  /// Enough for one file with the most columns that it may have.
  static constexpr std::uint64_t bytes_max = 40 << 20;
  static std::uint64_t used_bytes() { return all_bytes; }

  ColumnMemory() = default;
  ColumnMemory(const ColumnMemory&) = delete;
  ColumnMemory& operator=(const ColumnMemory&) = delete;
  ~ColumnMemory() { give_back(); }

  /// Adds to the share. False, without effect, if less is left.
  bool take(std::uint64_t bytes) {
    auto used = all_bytes.load();
    do {
      if (bytes > bytes_max - used) return false;
    } while (!all_bytes.compare_exchange_weak(used, used + bytes));
    bytes_ += bytes;
    return true;
  }
  void give_back() {
    all_bytes -= bytes_;
    bytes_ = 0;
  }

 private:
  inline static std::atomic<std::uint64_t> all_bytes{0};
  std::uint64_t bytes_ = 0;
};

}  // namespace penstock::store::hdf5
