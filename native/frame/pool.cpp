#include "frame/pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/invariant.hpp"
#include "base/mutex.hpp"
#include "base/time/thread_times.hpp"

namespace penstock {

struct BufferPool::Shared {
  struct Slab {
    std::byte* data;
    std::size_t capacity;
  };

  Shared(std::size_t budget, HugePages huge) : budget_bytes(budget), huge_pages(huge) {}
  ~Shared() {
    for (auto& [capacity, slabs] : idle)
      for (const auto& slab : slabs) ::munmap(slab.data, slab.capacity);
  }

  const std::size_t budget_bytes;
  const HugePages huge_pages;
  Mutex mutex;
  CondVar room;
  std::map<std::size_t, std::vector<Slab>> idle PEN_GUARDED_BY(mutex);
  std::size_t idle_bytes PEN_GUARDED_BY(mutex) = 0;
  std::size_t used_bytes PEN_GUARDED_BY(mutex) = 0;
  std::size_t used_bytes_max PEN_GUARDED_BY(mutex) = 0;

  void give_back(Slab slab) {
    {
      MutexLock lock(mutex);
      idle[slab.capacity].push_back(slab);
      idle_bytes += slab.capacity;
      PEN_INVARIANT(slab.capacity <= used_bytes);
      used_bytes -= slab.capacity;
    }
    room.notify_all();
  }

  /// Unmaps idle slabs of other sizes until `wanted` more bytes fit.
  void make_room(std::size_t wanted) PEN_REQUIRES(mutex) {
    while (used_bytes + idle_bytes + wanted > budget_bytes && idle_bytes > 0) {
      auto largest = std::prev(idle.end());
      const auto slab = largest->second.back();
      largest->second.pop_back();
      if (largest->second.empty()) idle.erase(largest);
      idle_bytes -= slab.capacity;
      ::munmap(slab.data, slab.capacity);
    }
  }
};

namespace {

/// Size classes four to an octave: at most a quarter is wasted, and a stream whose frames differ a
/// little in size keeps hitting the same class.
std::size_t class_of(std::size_t size, HugePages huge_pages) {
  const auto rounded = align_up(std::max<std::size_t>(size, 1), page_bytes);
  const bool huge = huge_pages == HugePages::reserved && rounded >= huge_page_bytes;
  const auto step = std::max<std::size_t>(std::bit_floor(rounded) / 4, huge ? huge_page_bytes : page_bytes);
  return align_up(rounded, step);
}

/// MAP_FAILED, with errno, where there is no memory.
void* map(std::size_t bytes, HugePages huge_pages) {
  constexpr int kind = MAP_PRIVATE | MAP_ANONYMOUS;
  if (huge_pages == HugePages::reserved && bytes >= huge_page_bytes && bytes % huge_page_bytes == 0)
    if (void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind | MAP_HUGETLB, -1, 0); memory != MAP_FAILED)
      return memory;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind, -1, 0);
  if (memory != MAP_FAILED && bytes >= huge_page_bytes)
    ::madvise(memory, bytes, huge_pages == HugePages::off ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
  return memory;
}

}  // namespace

BufferPool::BufferPool(std::size_t budget_bytes, HugePages huge_pages)
    : shared_(std::make_shared<Shared>(budget_bytes, huge_pages)) {}

Result<BufferRef> BufferPool::acquire(std::size_t size, std::chrono::nanoseconds wait) {
  if (size > shared_->budget_bytes)
    return make_error(Errc::too_large, "a buffer of {} bytes does not fit the pool of {} bytes; enlarge the pool", size,
                      shared_->budget_bytes);
  // Near the budget's end a class may not fit where the plain size does; of more than half there is only one.
  const auto plain = align_up(size, page_bytes);
  const auto capacity =
      plain > shared_->budget_bytes / 2 && shared_->huge_pages != HugePages::reserved
          ? plain
          : std::min(class_of(size, shared_->huge_pages), std::max(plain, shared_->budget_bytes & ~(page_bytes - 1)));
  Shared::Slab slab{nullptr, capacity};
  {
    MutexLock lock(shared_->mutex);
    const auto fits = [&]() PEN_REQUIRES(shared_->mutex) {
      return shared_->used_bytes + capacity <= shared_->budget_bytes;
    };
    if (!fits()) {
      const Waiting waiting(Wait::memory);
      if (!shared_->room.wait_for(lock, wait, fits))
        return make_error(Errc::timed_out, "no room for {} bytes: {} of the pool's {} bytes are in use", size,
                          shared_->used_bytes, shared_->budget_bytes);
    }
    if (auto found = shared_->idle.find(capacity); found != shared_->idle.end()) {
      slab = found->second.back();
      found->second.pop_back();
      if (found->second.empty()) shared_->idle.erase(found);
      shared_->idle_bytes -= capacity;
    } else {
      shared_->make_room(capacity);
    }
    shared_->used_bytes += capacity;
    shared_->used_bytes_max = std::max(shared_->used_bytes_max, shared_->used_bytes);
  }
  if (slab.data == nullptr) {
    void* memory = map(capacity, shared_->huge_pages);
    if (memory == MAP_FAILED) {
      {
        MutexLock lock(shared_->mutex);
        shared_->used_bytes -= capacity;
      }
      shared_->room.notify_all();
      return errno_error(errno, fmt::format("map {} bytes for the pool", capacity));
    }
    slab.data = static_cast<std::byte*>(memory);
  }
  auto buffer = BufferRef(new Buffer, [shared = shared_](Buffer* gone) {
    shared->give_back({gone->data_, gone->capacity_});
    delete gone;
  });
  buffer->data_ = slab.data;
  buffer->size_ = size;
  buffer->capacity_ = capacity;
  return buffer;
}

Result<std::shared_ptr<const void>> BufferPool::reserve(std::size_t size, std::chrono::nanoseconds wait) {
  if (size > shared_->budget_bytes)
    return make_error(Errc::too_large, "{} bytes do not fit the pool of {} bytes; enlarge the pool", size,
                      shared_->budget_bytes);
  {
    MutexLock lock(shared_->mutex);
    const auto fits = [&]()
                          PEN_REQUIRES(shared_->mutex) { return shared_->used_bytes + size <= shared_->budget_bytes; };
    if (!fits()) {
      const Waiting waiting(Wait::memory);
      if (!shared_->room.wait_for(lock, wait, fits))
        return make_error(Errc::timed_out, "no room for {} bytes: {} of the pool's {} bytes are in use", size,
                          shared_->used_bytes, shared_->budget_bytes);
    }
    shared_->make_room(size);
    shared_->used_bytes += size;
    shared_->used_bytes_max = std::max(shared_->used_bytes_max, shared_->used_bytes);
  }
  return std::shared_ptr<const void>(this, [shared = shared_, size](const void*) {
    {
      MutexLock lock(shared->mutex);
      PEN_INVARIANT(size <= shared->used_bytes);
      shared->used_bytes -= size;
    }
    shared->room.notify_all();
  });
}

std::size_t BufferPool::budget_bytes() const { return shared_->budget_bytes; }

std::size_t BufferPool::used_bytes() const {
  MutexLock lock(shared_->mutex);
  return shared_->used_bytes;
}

std::size_t BufferPool::used_bytes_max() const {
  MutexLock lock(shared_->mutex);
  return shared_->used_bytes_max;
}

}  // namespace penstock
