#include "base/queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
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
  EXPECT_FALSE(queue.ended());
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_TRUE(queue.ended());
  EXPECT_EQ(queue.pop(), std::nullopt);
}

/// A consumer that has waited in vain, and finds the queue closed then, may have missed what came between the two.
TEST(BoundedQueue, WhatComesLastIsNotMissedByWhoLooksNowAndThen) {
  constexpr int queues = 20000;
  std::vector<std::unique_ptr<BoundedQueue<int>>> all;
  for (int i = 0; i < queues; ++i) all.push_back(std::make_unique<BoundedQueue<int>>(1));
  std::atomic<int> looked_at{-1};
  std::vector<int> taken(queues, 0);
  std::thread consumer([&] {
    for (int i = 0; i < queues; ++i) {
      looked_at = i;
      while (true) {
        if (all[i]->pop_for(std::chrono::nanoseconds(0)))
          ++taken[i];
        else if (all[i]->ended())
          break;
      }
    }
  });
  for (int i = 0; i < queues; ++i) {
    while (looked_at < i) std::this_thread::yield();
    EXPECT_TRUE(all[i]->push(1));
    all[i]->close();
  }
  consumer.join();
  EXPECT_EQ(std::count(taken.begin(), taken.end(), 1), queues);
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
