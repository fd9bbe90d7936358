#include "base/time/thread_times.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <semaphore>
#include <thread>

#include "base/queue.hpp"
#include "base/threads.hpp"
#include "base/time/clock.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;

ThreadTimes named(const std::string& name) {
  const auto all = times_by_name();
  const auto found = std::ranges::find(all, name, &ThreadTimes::name);
  return found == all.end() ? ThreadTimes{} : *found;
}

std::int64_t waited(const ThreadTimes& times, Wait wait) { return times.waited_ns[static_cast<std::size_t>(wait)]; }

constexpr std::int64_t tenth_ns = 100'000'000;

/// Returns the time that the thread of this name has waited, once it is a tenth of a second; less after a minute.
std::int64_t waited_a_tenth(const std::string& name, Wait wait) {
  for (int i = 0; i < 6000 && waited(named(name), wait) < tenth_ns; ++i) std::this_thread::sleep_for(10ms);
  return waited(named(name), wait);
}

TEST(ThreadTimes, WaitsForWorkAndForRoomAreDistinguished) {
  BoundedQueue<int> queue(1);
  std::binary_semaphore may_take_more(0);
  std::thread consumer([&] {
    begin_thread("test-consumer", Role::other);
    (void)queue.pop();
    may_take_more.acquire();
    while (queue.pop()) {
    }
  });
  EXPECT_GE(waited_a_tenth("test-consumer", Wait::work), tenth_ns);
  std::thread producer([&] {
    begin_thread("test-producer", Role::other);
    for (int i = 0; i < 3; ++i) queue.push(std::move(i));
    queue.close();
  });
  EXPECT_GE(waited_a_tenth("test-producer", Wait::room), tenth_ns);
  may_take_more.release();
  producer.join();
  consumer.join();
  EXPECT_EQ(waited(named("test-consumer"), Wait::room), 0);
  EXPECT_EQ(waited(named("test-producer"), Wait::work), 0);
}

TEST(ThreadTimes, WaitThatGoesOnCountsAlready) {
  BoundedQueue<int> queue(1);
  std::thread consumer([&] {
    begin_thread("test-waiting", Role::other);
    (void)queue.pop();
  });
  EXPECT_GE(waited_a_tenth("test-waiting", Wait::work), tenth_ns);
  queue.close();
  consumer.join();
}

TEST(ThreadTimes, EndedThreadsAreCountedOnce) {
  const auto since_ns = monotonic_ns();
  for (int i = 0; i < 2; ++i)
    std::thread([] {
      begin_thread("test-ended", Role::other);
      std::this_thread::sleep_for(60ms);
    }).join();
  const auto first = named("test-ended");
  EXPECT_GE(first.alive_ns, tenth_ns);
  EXPECT_LE(first.alive_ns, monotonic_ns() - since_ns);
  EXPECT_EQ(named("test-ended").alive_ns, first.alive_ns);
}

TEST(ThreadTimes, KernelKnowsWhatRuns) {
  BoundedQueue<int> done(1);
  std::int64_t running_ns = 0;
  std::thread busy([&] {
    begin_thread("test-busy", Role::other);
    const auto until = monotonic_ns() + 2 * tenth_ns;
    while (monotonic_ns() < until) {
    }
    for (const auto& each : thread_times())
      if (each.name == "test-busy") running_ns = each.running_ns + each.delayed_ns;
  });
  busy.join();
  EXPECT_GE(running_ns, tenth_ns);
}

TEST(ThreadTimes, ThreadWithoutAccountNotesNothing) {
  std::thread([] {
    const Waiting waiting(Wait::turn);
    const Waiting within(Wait::work);
  }).join();
  std::thread([] {
    begin_thread("test-nested", Role::other);
    const Waiting waiting(Wait::turn);
    const Waiting within(Wait::work);
    std::this_thread::sleep_for(10ms);
  }).join();
  EXPECT_GT(waited(named("test-nested"), Wait::turn), 0);
  EXPECT_EQ(waited(named("test-nested"), Wait::work), 0);
}

}  // namespace
}  // namespace penstock
