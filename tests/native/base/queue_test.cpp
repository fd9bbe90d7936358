#include "base/queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace penstock {
namespace {

TEST(BoundedQueue, KeepsOrderAndRefusesBeyondItsCapacity) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.try_push(1));
  EXPECT_TRUE(queue.try_push(2));
  EXPECT_FALSE(queue.try_push(3));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
}

TEST(BoundedQueue, ClosedQueueDrainsAndThenGivesNothing) {
  BoundedQueue<int> queue(4);
  EXPECT_TRUE(queue.push(1));
  queue.close();
  EXPECT_FALSE(queue.push(2));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, LosesAndRepeatsNothingBetweenThreads) {
  BoundedQueue<int> queue(3);
  constexpr int items = 20000;
  std::atomic<long> sum{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      while (auto item = queue.pop()) sum += *item;
    });
  std::vector<std::thread> pushers;
  for (int t = 0; t < 2; ++t)
    pushers.emplace_back([&, t] {
      for (int i = t; i < items; i += 2) queue.push(std::move(i));
    });
  for (auto& thread : pushers) thread.join();
  queue.close();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sum, long{items} * (items - 1) / 2);
}

}  // namespace
}  // namespace penstock
