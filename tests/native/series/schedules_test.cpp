/// Random schedules: whatever senders, files and ranks do, the registry keeps its promises. A seed that fails is
/// printed; PENSTOCK_SERIES_SEED=N runs that one alone, step by step. PENSTOCK_SERIES_SCHEDULES=N runs so many.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "../support/rounds.hpp"
#include "world.hpp"

namespace penstock::series::testing {
namespace {

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const auto* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(Schedules, KeepTheirPromisesWhateverHappens) {
  if (std::getenv("PENSTOCK_SERIES_SEED") != nullptr) {
    const auto outcome = World(number_of("PENSTOCK_SERIES_SEED", 0), true).run();
    ASSERT_EQ(outcome.violation, "");
    return;
  }
  const auto first = number_of("PENSTOCK_SERIES_FIRST", 1);
  const auto count = number_of("PENSTOCK_SERIES_SCHEDULES", penstock::testing::rounds(50'000, 20));
  Outcome all;
  const auto began = std::clock();
  for (auto seed = first; seed < first + count; ++seed) {
    const auto outcome = World(seed).run();
    ASSERT_EQ(outcome.violation, "") << "PENSTOCK_SERIES_SEED=" << seed;
    all.steps += outcome.steps;
    all.opened += outcome.opened;
    all.waited += outcome.waited;
    all.refused += outcome.refused;
    all.joined += outcome.joined;
  }
  const auto took = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;  // of the processor
  std::printf(
      "seeds %llu to %llu: %.2f s, %.0f schedules a minute, %.1f steps, %.2f files, %.2f waits, %.2f refusals, "
      "%.2f joins a schedule\n",
      static_cast<unsigned long long>(first), static_cast<unsigned long long>(first + count - 1), took,
      static_cast<double>(count) / took * 60, static_cast<double>(all.steps) / static_cast<double>(count),
      static_cast<double>(all.opened) / static_cast<double>(count),
      static_cast<double>(all.waited) / static_cast<double>(count),
      static_cast<double>(all.refused) / static_cast<double>(count),
      static_cast<double>(all.joined) / static_cast<double>(count));
  // The schedules reach what they are for.
  EXPECT_GT(all.opened, count);
  EXPECT_GT(all.waited, count / 20);
  EXPECT_GT(all.refused, count / 10);
  EXPECT_GT(all.joined, count / 20);
}

}  // namespace
}  // namespace penstock::series::testing
