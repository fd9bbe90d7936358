#include "base/files/call_watch.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <optional>
#include <vector>

#include "../support/fault_env.hpp"
#include "base/files/watched_env.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;
constexpr auto patience = 60s;

/// Keeps what a watch tells, and lets others wait for it.
class Told {
 public:
  CallWatch::Tell tell() {
    return [this](const Stall& stall) {
      std::lock_guard lock(mutex_);
      stalls_.push_back(stall);
      more_.notify_all();
    };
  }
  /// The one at `position` among those of `call`. On a busy machine any other call may be reported as well.
  std::optional<Stall> wait_for(Call call, std::size_t position = 0) {
    std::unique_lock lock(mutex_);
    std::vector<Stall> found;
    more_.wait_for(lock, patience, [&] {
      found = of(call);
      return found.size() > position;
    });
    return found.size() > position ? std::optional(found[position]) : std::nullopt;
  }
  std::vector<Stall> all(Call call) {
    std::lock_guard lock(mutex_);
    return of(call);
  }
  bool empty() {
    std::lock_guard lock(mutex_);
    return stalls_.empty();
  }

 private:
  /// With mutex_ held.
  std::vector<Stall> of(Call call) const {
    std::vector<Stall> found;
    for (const auto& stall : stalls_)
      if (stall.call == call) found.push_back(stall);
    return found;
  }

  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<Stall> stalls_;
};

class CallWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("penstock-watch-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::shared_ptr<File> open(CallWatch& watch) {
    env_ = make_watched_env(fault_env_, watch);
    return env_->open(path(), {.mode = OpenOptions::Mode::create_new}).value();
  }
  std::string path() const { return folder_ / "a"; }

  std::filesystem::path folder_;
  penstock::testing::FaultEnv fault_env_;
  std::unique_ptr<Env> env_;
  Told told_;
};

TEST_F(CallWatchTest, ACallIsToldOfWhileItHangsAndWhenItReturns) {
  std::promise<void> go;
  auto gone = go.get_future().share();
  fault_env_.faults->on_write = [gone](auto, auto) -> Result<void> {
    gone.wait_for(patience);
    return {};
  };
  CallWatch watch(20ms, told_.tell());
  auto file = open(watch);
  std::thread writer([&] { EXPECT_TRUE(write_at(*file, std::vector<std::byte>(5000), 4096).ok()); });
  const auto hanging = told_.wait_for(Call::write);
  ASSERT_TRUE(hanging);
  EXPECT_FALSE(hanging->over);
  EXPECT_EQ(hanging->file, path());
  EXPECT_EQ(hanging->offset, 4096u);
  EXPECT_EQ(hanging->bytes, 5000u);
  EXPECT_GE(hanging->seconds, 0.02);
  EXPECT_NE(hanging->thread, ::gettid());
  EXPECT_EQ(watch.hanging()[static_cast<std::size_t>(Call::write)], 1u);
  EXPECT_EQ(watch.stalls(Call::write), 1u);
  EXPECT_EQ(watch.times(Call::write).count(), 0u);
  go.set_value();
  writer.join();
  const auto all = told_.all(Call::write);
  EXPECT_TRUE(all.back().over);
  EXPECT_GE(all.back().seconds, all.front().seconds);
  EXPECT_EQ(all.back().thread, hanging->thread);
  for (std::size_t i = 0; i + 1 < all.size(); ++i) EXPECT_FALSE(all[i].over) << i;
  EXPECT_EQ(watch.stalls(Call::write), 1u) << "a stall counts once";
  EXPECT_EQ(watch.hanging()[static_cast<std::size_t>(Call::write)], 0u);
  EXPECT_EQ(watch.times(Call::write).count(), 1u);
  EXPECT_GE(watch.times(Call::write).sum_ns, 20'000'000);
}

TEST_F(CallWatchTest, WhatHangsForLongIsToldAgainAtTwiceTheTime) {
  std::promise<void> go;
  auto gone = go.get_future().share();
  fault_env_.faults->on_sync = [gone]() -> Result<void> {
    gone.wait_for(patience);
    return {};
  };
  CallWatch watch(5ms, told_.tell());
  auto file = open(watch);
  std::thread syncer([&] { EXPECT_TRUE(file->sync().ok()); });
  const auto first = told_.wait_for(Call::sync, 0);
  const auto second = told_.wait_for(Call::sync, 1);
  const auto third = told_.wait_for(Call::sync, 2);
  go.set_value();
  syncer.join();
  ASSERT_TRUE(first && second && third);
  EXPECT_GE(second->seconds, 2 * first->seconds * 0.999);
  EXPECT_GE(third->seconds, 2 * second->seconds * 0.999);
}

TEST_F(CallWatchTest, CallsWithinCallsAreBothNamed) {
  std::promise<void> go;
  auto gone = go.get_future().share();
  fault_env_.faults->on_write = [gone](auto, auto) -> Result<void> {
    gone.wait_for(patience);
    return {};
  };
  CallWatch watch(10ms, told_.tell());
  auto file = open(watch);
  std::thread flusher([&] {
    const WatchedCall outer(file->watching(), Call::hdf5_flush);
    EXPECT_TRUE(write_at(*file, std::vector<std::byte>(10), 0).ok());
  });
  const auto inner = told_.wait_for(Call::write), outer = told_.wait_for(Call::hdf5_flush);
  go.set_value();
  flusher.join();
  ASSERT_TRUE(inner && outer);
  EXPECT_EQ(outer->file, path());
  EXPECT_EQ(inner->thread, outer->thread);
}

TEST_F(CallWatchTest, ARenamedFileIsNamedAsItIsCalledNow) {
  CallWatch watch(1ns, told_.tell());
  auto file = open(watch);
  const auto renamed = path() + "-renamed";
  ASSERT_TRUE(file->rename(renamed, IfTaken::replace).ok());
  EXPECT_TRUE(file->still_named());
  EXPECT_TRUE(write_at(*file, std::vector<std::byte>(10), 0).ok());
  EXPECT_EQ(told_.all(Call::write).back().file, renamed);
}

TEST_F(CallWatchTest, WithoutALimitCallsAreTimedAndNothingIsTold) {
  CallWatch watch(0ms, told_.tell());
  {
    auto file = open(watch);
    ASSERT_TRUE(write_at(*file, std::vector<std::byte>(10), 0).ok());
    ASSERT_TRUE(file->sync().ok());
    EXPECT_EQ(watch.times(Call::close).count(), 0u);
  }
  for (const auto call : {Call::open, Call::write, Call::sync, Call::close}) EXPECT_EQ(watch.times(call).count(), 1u);
  EXPECT_TRUE(told_.empty());
}

/// A limit below what any call takes: many threads, slots that are used again, files that come and go.
TEST_F(CallWatchTest, ManyThreadsCountEveryStallOnce) {
  constexpr unsigned threads = 8, rounds = 200;
  std::atomic<std::uint64_t> told{0};
  CallWatch watch(1ns, [&](const Stall& stall) {
    EXPECT_FALSE(stall.file.empty());
    ++told;
  });
  auto env = make_watched_env(posix_env(), watch);
  for (unsigned again = 0; again < 2; ++again) {
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; ++t)
      all.emplace_back([&, t] {
        const auto name = path() + std::to_string(t);
        for (unsigned i = 0; i < rounds; ++i) {
          auto file = env->open(name, {.mode = OpenOptions::Mode::create_or_truncate}).value();
          ASSERT_TRUE(write_at(*file, std::vector<std::byte>(100), i).ok());
        }
      });
    for (auto& thread : all) thread.join();
  }
  for (const auto call : {Call::open, Call::write, Call::close}) {
    EXPECT_EQ(watch.times(call).count(), 2u * threads * rounds) << name(call);
    EXPECT_EQ(watch.stalls(call), 2u * threads * rounds) << name(call);
  }
  EXPECT_GE(told.load(), 1u);
}

}  // namespace
}  // namespace penstock
