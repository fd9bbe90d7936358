#include "series/places.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace penstock::series {
namespace {

TEST(Places, StartsThatFindNoPlaceGetOneInTheirOrder) {
  Places places(2, 8);
  EXPECT_TRUE(places.take("a"));
  EXPECT_TRUE(places.take("b"));
  EXPECT_TRUE(places.take("a")) << "it has one";
  EXPECT_FALSE(places.take("c"));
  EXPECT_TRUE(places.wait("c"));
  EXPECT_TRUE(places.wait("d"));
  EXPECT_EQ(places.next(), std::nullopt);
  places.leave("a");
  EXPECT_FALSE(places.take("e")) << "c and d came before";
  EXPECT_EQ(places.next(), "c");
  EXPECT_EQ(places.next(), std::nullopt);
  places.leave("b");
  EXPECT_EQ(places.next(), "d");
  EXPECT_FALSE(places.anyone_waits());
}

TEST(Places, StartsDoNotWaitWithoutBound) {
  Places places(1, 2);
  EXPECT_TRUE(places.take("a"));
  EXPECT_TRUE(places.wait("b"));
  EXPECT_TRUE(places.wait("c"));
  EXPECT_FALSE(places.wait("d"));
}

TEST(WaitingBytes, AreBounded) {
  WaitingBytes waiting(100);
  EXPECT_TRUE(waiting.hold(60));
  EXPECT_FALSE(waiting.hold(41));
  EXPECT_FALSE(waiting.hold(UINT64_MAX)) << "the sum must not wrap";
  EXPECT_TRUE(waiting.hold(40));
  waiting.release(60);
  EXPECT_EQ(waiting.held(), 40u);
  EXPECT_TRUE(waiting.hold(60));
  waiting.release(100);
  EXPECT_TRUE(waiting.hold(1000)) << "a large one fits alone";
  EXPECT_FALSE(waiting.hold(1));
}

/// Whatever comes in whichever order: no more places than there are, nobody overtakes, and everybody gets one.
TEST(Places, EveryStartGetsAPlaceWhateverTheOrder) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    Places places(1 + random() % 4, 64);
    std::set<std::string> open;
    std::deque<std::string> expected;
    int opened = 0;
    const auto close_one = [&] {
      if (open.empty()) return;
      const auto chosen = std::next(open.begin(), static_cast<std::ptrdiff_t>(random() % open.size()));
      places.leave(*chosen);
      open.erase(chosen);
    };
    const auto let_in = [&] {
      while (const auto next = places.next()) {
        ASSERT_EQ(*next, expected.front());
        expected.pop_front();
        open.insert(*next);
        ++opened;
      }
    };
    for (int i = 0; i < 50; ++i) {
      const auto name = std::to_string(i);
      if (places.take(name)) {
        ASSERT_TRUE(expected.empty());
        open.insert(name);
        ++opened;
      } else {
        ASSERT_TRUE(places.wait(name));
        expected.push_back(name);
      }
      ASSERT_LE(open.size(), places.places());
      if (random() % 3 == 0) close_one();
      if (random() % 2 == 0) let_in();
      ASSERT_LE(open.size(), places.places());
    }
    let_in();
    while (!open.empty()) {
      close_one();
      let_in();
    }
    ASSERT_EQ(opened, 50) << seed;
    ASSERT_FALSE(places.anyone_waits());
  }
}

}  // namespace
}  // namespace penstock::series
