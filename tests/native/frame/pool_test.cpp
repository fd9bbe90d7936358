#include "frame/pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace penstock {
namespace {

using namespace std::chrono_literals;

TEST(BufferPool, GivesPageAlignedBuffersOfAtLeastTheSize) {
  BufferPool pool(10 << 20);
  for (std::size_t size : {1, 4096, 4097, 1 << 20, 3'000'001}) {
    auto buffer = pool.acquire(size, 0ns).value();
    EXPECT_EQ(buffer->bytes().size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->bytes().data()) % page_bytes, 0u);
    EXPECT_EQ(buffer->capacity() % page_bytes, 0u);
    EXPECT_GE(buffer->capacity(), size);
  }
  EXPECT_EQ(pool.used_bytes(), 0u);
}

TEST(BufferPool, HoldsItsBudget) {
  BufferPool pool(4 << 20);
  auto first = pool.acquire(3 << 20, 0ns).value();
  auto second = pool.acquire(2 << 20, 1ms);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), Errc::timed_out);
  EXPECT_EQ(pool.acquire(5 << 20, 1ms).error().code(), Errc::too_large);
  first.reset();
  EXPECT_TRUE(pool.acquire(4 << 20, 0ns).ok());
  EXPECT_LE(pool.used_bytes_max(), pool.budget_bytes());
}

TEST(BufferPool, ReservedBytesCountUntilTheLastCopyGoes) {
  BufferPool pool(1 << 20);
  auto reserved = pool.reserve(1'000'000, 0ns).value();
  auto copy = reserved;
  reserved.reset();
  EXPECT_EQ(pool.used_bytes(), 1'000'000u);
  EXPECT_EQ(pool.acquire(100'000, 1ms).error().code(), Errc::timed_out);
  EXPECT_EQ(pool.reserve(100'000, 1ms).error().code(), Errc::timed_out);
  EXPECT_EQ(pool.reserve(2 << 20, 1ms).error().code(), Errc::too_large);
  copy.reset();
  EXPECT_EQ(pool.used_bytes(), 0u);
  EXPECT_TRUE(pool.acquire(100'000, 0ns).ok());
}

TEST(BufferPool, WaiterWakesWhenABufferComesBack) {
  BufferPool pool(1 << 20);
  auto held = pool.acquire(1 << 20, 0ns).value();
  std::thread releaser([&] {
    std::this_thread::sleep_for(20ms);
    held.reset();
  });
  EXPECT_TRUE(pool.acquire(1 << 20, 5s).ok());
  releaser.join();
}

TEST(BufferPool, BuffersOutliveThePool) {
  BufferRef buffer;
  {
    BufferPool pool(1 << 20);
    buffer = pool.acquire(100, 0ns).value();
  }
  buffer->bytes()[99] = std::byte{1};
}

/// Whether or not the machine has huge pages set aside.
TEST(BufferPool, HugePagesOfEveryKindGiveMemoryWithinTheBudget) {
  for (const auto kind : {HugePages::off, HugePages::transparent, HugePages::reserved}) {
    BufferPool pool(16 << 20, kind);
    auto large = pool.acquire((5 << 20) + 1, 0ns).value();
    EXPECT_EQ(large->bytes().size(), (5u << 20) + 1);
    const bool huge = kind == HugePages::reserved;
    EXPECT_TRUE(!huge || large->capacity() % huge_page_bytes == 0);
    std::fill(large->bytes().begin(), large->bytes().end(), std::byte{7});
    auto small = pool.acquire(10'000, 0ns).value();
    EXPECT_LT(small->capacity(), 20'000u);
    large.reset();
    // What was kept makes way for another size, near the budget's end as well.
    auto all = pool.acquire((13 << 20) + 5000, 0ns);
    ASSERT_TRUE(all.ok());
    (*all)->bytes().back() = std::byte{1};
    EXPECT_LE(pool.used_bytes(), pool.budget_bytes());
  }
}

}  // namespace
}  // namespace penstock
