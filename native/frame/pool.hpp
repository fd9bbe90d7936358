/// The bounded memory that frames live in between the network and the storage.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace penstock {

/// Page-aligned memory from a pool; goes back to it when the last reference is dropped, from
/// whichever thread. Its bytes are not cleared.
class Buffer {
 public:
  MutableBytes bytes() { return {data_, size_}; }
  Bytes bytes() const { return {data_, size_}; }
  /// At least size(), a multiple of the page size; what lies beyond size() may be written and is rubbish.
  std::size_t capacity() const { return capacity_; }

 private:
  friend class BufferPool;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

using BufferRef = std::shared_ptr<Buffer>;

/// What buffers of two megabytes and more are made of. `reserved` are those that the system's administrator set aside
/// (hugetlbfs); where there are not enough it is as `transparent`, which leaves it to the kernel.
enum class HugePages { off, transparent, reserved };

/// Of the processor's, in bytes: what `reserved` takes.
constexpr std::size_t huge_page_bytes = 2 << 20;

/// Hands out buffers up to a budget in bytes, and keeps freed ones for the next of their size, so
/// that a steady stream causes no page faults. All calls are safe from several threads. Buffers
/// keep the pool's memory alive: the pool object may go before them.
class BufferPool {
 public:
  explicit BufferPool(std::size_t budget_bytes, HugePages huge_pages = HugePages::transparent);

  /// Waits up to `wait` for room; `timed_out` after that, `too_large` where `size` exceeds the whole
  /// budget.
  Result<BufferRef> acquire(std::size_t size, std::chrono::nanoseconds wait);

  /// Counts `size` bytes of memory that lives elsewhere (a library's own buffer) against the budget
  /// until the last copy of the returned pointer is dropped. Waits and fails as acquire() does.
  Result<std::shared_ptr<const void>> reserve(std::size_t size, std::chrono::nanoseconds wait);

  std::size_t budget_bytes() const;
  /// Held by callers now; kept for reuse is not counted.
  std::size_t used_bytes() const;
  /// The most that was ever held.
  std::size_t used_bytes_max() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace penstock
