#include "recorder/series/accounting/ledger.hpp"

#include <gtest/gtest.h>

#include <random>

namespace penstock::recorder {
namespace {

struct QuietListener : AckListener {
  void safe_below(const std::string&, FrameNumber) override {}
  bool has_ended() const override { return ended; }
  void closed(const std::string&, const std::string&) override {}
  bool ended = false;
};

FrameNumber number(std::uint64_t n) { return FrameNumber{n}; }
void place(Ledger& ledger, std::uint64_t n, std::uint32_t channel = 0) {
  const Ledger::Item item{number(n), channel};
  ledger.placed(std::span(&item, 1));
}
void lose(Ledger& ledger, std::uint64_t n) {
  const Ledger::Item item{number(n), 0};
  ledger.lost(std::span(&item, 1));
}

TEST(Ledger, CountsReceivedDuplicateAndLate) {
  Ledger ledger(1);
  EXPECT_EQ(ledger.receive(number(0), 0, nullptr), Ledger::Admission::take);
  EXPECT_EQ(ledger.receive(number(2), 0, nullptr), Ledger::Admission::take);
  EXPECT_EQ(ledger.receive(number(1), 0, nullptr), Ledger::Admission::take);
  EXPECT_EQ(ledger.receive(number(1), 0, nullptr), Ledger::Admission::duplicate);
  EXPECT_EQ(ledger.counts(), (LedgerCounts{.received = 3, .duplicate = 1, .late = 1, .end = 3}));
}

TEST(Ledger, FindsTheFirstFrameThatIsNotSafe) {
  Ledger ledger(1);
  EXPECT_EQ(ledger.safe_below(), 0u);
  // More blocks than are kept open: complete ones, one with a gap, and complete ones again.
  constexpr std::uint64_t gap = 200 * FrameEntries::block_frames + 7, frames = 900 * FrameEntries::block_frames;
  for (std::uint64_t n = 0; n < frames; ++n) {
    if (n == gap) continue;
    ledger.receive(number(n), 0, nullptr);
    place(ledger, n);
  }
  EXPECT_EQ(ledger.safe_below(), gap);
  ledger.receive(number(gap), 0, nullptr);
  EXPECT_TRUE(ledger.has({number(gap), 0}));
  lose(ledger, gap);
  EXPECT_FALSE(ledger.has({number(gap), 0}));
  EXPECT_EQ(ledger.safe_below(), gap);
  ledger.receive(number(gap), 0, nullptr);
  place(ledger, gap);
  EXPECT_EQ(ledger.safe_below(), frames);
  ledger.receive(number(frames + 3), 0, nullptr);
  EXPECT_FALSE(ledger.has({number(frames + 2), 0}));
  EXPECT_EQ(ledger.safe_below(), frames);
}

TEST(Ledger, OfAFrameThatLacksAPartTheOthersAreKnown) {
  Ledger ledger(2);
  for (const auto n : {0u, 3u, 4u}) {
    ledger.receive(number(n), 0, nullptr);
    place(ledger, n, 0);
  }
  ledger.receive(number(0), 1, nullptr);
  place(ledger, 0, 1);
  ledger.damaged(number(4), 1);  // it is known why that one is not whole
  ledger.receive(number(6), 1, nullptr);
  place(ledger, 6, 1);
  (void)ledger.take_unplaced();
  const auto lacks = ledger.settle_partial();
  ASSERT_EQ(lacks.size(), 2u);
  EXPECT_EQ(lacks[0].frames, 1u);
  EXPECT_EQ(lacks[0].first, 6u);
  EXPECT_EQ(lacks[1].frames, 1u);
  EXPECT_EQ(lacks[1].first, 3u);
  EXPECT_EQ(ledger.counts().partial, 2u);
  EXPECT_EQ(ledger.take_unplaced(), (std::vector<std::pair<FrameNumber, FrameState>>{
                                        {number(3), FrameState::partial}, {number(6), FrameState::partial}}));
}

TEST(Ledger, WhatCameInSomeFormIsNotCountedAsMissingToo) {
  Ledger ledger(2);
  for (const std::uint32_t part : {0u, 1u}) ledger.receive(number(0), part, nullptr);
  ledger.receive(number(1), 0, nullptr);
  ledger.damaged(number(2));
  ledger.damaged(number(2));
  ledger.dropped(number(3));
  EXPECT_EQ(ledger.never_came(6), 2u);
}

TEST(Ledger, AFrameCountsOnceAllItsChannelsAreThere) {
  Ledger ledger(2);
  ledger.receive(number(5), 0, nullptr);
  EXPECT_EQ(ledger.counts().received, 0u);
  ledger.receive(number(5), 1, nullptr);
  EXPECT_EQ(ledger.counts().received, 1u);
  EXPECT_EQ(ledger.counts().late, 0u);
}

TEST(Ledger, ASessionHearsOnlyOfWhatIsSafe) {
  Ledger ledger(1);
  auto session = std::make_shared<QuietListener>();
  for (std::uint64_t n : {0, 1, 3}) ledger.receive(number(n), 0, session);
  EXPECT_TRUE(ledger.take_notices().empty());
  place(ledger, 1);
  EXPECT_TRUE(ledger.take_notices().empty()) << "frame 0 is not safe yet";
  place(ledger, 0);
  auto notices = ledger.take_notices();
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].below, number(3)) << "frame 2 was never sent, frame 3 is on its way";
  place(ledger, 3);
  EXPECT_EQ(ledger.take_notices().at(0).below, number(4));
  EXPECT_TRUE(ledger.take_notices().empty()) << "nothing is told twice";
}

TEST(Ledger, AnotherSessionsFramesDoNotSpeakForThisOne) {
  Ledger ledger(1);
  auto one = std::make_shared<QuietListener>(), two = std::make_shared<QuietListener>();
  ledger.receive(number(0), 0, one);
  ledger.receive(number(7), 0, two);
  place(ledger, 7);
  auto notices = ledger.take_notices();
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].session, two);
}

TEST(Ledger, ResendingSessionWaitsForTheFirstCopy) {
  Ledger ledger(1);
  auto before = std::make_shared<QuietListener>(), after = std::make_shared<QuietListener>();
  ledger.receive(number(0), 0, before);
  EXPECT_EQ(ledger.receive(number(0), 0, after), Ledger::Admission::duplicate);
  EXPECT_TRUE(ledger.take_notices().empty());
  place(ledger, 0);
  EXPECT_EQ(ledger.take_notices().size(), 2u);
}

/// A client keeps messages, not channels.
TEST(Ledger, AMessageIsNotAcknowledgedBeforeAllOfItsChannelsAreKnown) {
  Ledger ledger(2);
  auto session = std::make_shared<QuietListener>();
  ledger.receive(number(0), 0, session, true);
  place(ledger, 0, 0);
  EXPECT_TRUE(ledger.take_notices().empty()) << "the other channel is not known yet";
  ledger.receive(number(0), 1, session);
  EXPECT_TRUE(ledger.take_notices().empty());
  place(ledger, 0, 1);
  EXPECT_EQ(ledger.take_notices().at(0).below, number(1));

  auto again = std::make_shared<QuietListener>();
  EXPECT_EQ(ledger.receive(number(0), 0, again, true), Ledger::Admission::duplicate);
  EXPECT_TRUE(ledger.take_notices().empty());
  EXPECT_EQ(ledger.receive(number(0), 1, again), Ledger::Admission::duplicate);
  EXPECT_EQ(ledger.take_notices().at(0).below, number(1));
}

TEST(Ledger, ALostFrameHoldsTheAcknowledgementBackAndMayComeAgain) {
  Ledger ledger(1);
  auto session = std::make_shared<QuietListener>();
  ledger.receive(number(0), 0, session);
  ledger.receive(number(1), 0, session);
  lose(ledger, 0);
  place(ledger, 1);
  EXPECT_TRUE(ledger.take_notices().empty());
  EXPECT_EQ(ledger.counts().received, 1u);
  EXPECT_EQ(ledger.take_unplaced(), (std::vector<std::pair<FrameNumber, FrameState>>{{number(0), FrameState::lost}}));
  EXPECT_EQ(ledger.receive(number(0), 0, session), Ledger::Admission::take);
  place(ledger, 0);
  EXPECT_EQ(ledger.take_notices().at(0).below, number(2));
  EXPECT_EQ(ledger.counts().received, 2u);
}

TEST(Ledger, WhatIsLostIsSoUntilItComesAgain) {
  Ledger ledger(1);
  for (std::uint64_t n : {0, 1, 2}) ledger.receive(number(n), 0, nullptr);
  lose(ledger, 0);
  lose(ledger, 1);
  EXPECT_EQ(ledger.still_lost(), 2u);
  ledger.receive(number(1), 0, nullptr);
  EXPECT_EQ(ledger.still_lost(), 1u);
  lose(ledger, 1);
  lose(ledger, 1);
  EXPECT_EQ(ledger.still_lost(), 2u) << "each counts once";
  const Ledger::Item first{number(0), 0};
  ledger.placed_elsewhere(std::span(&first, 1));
  ledger.receive(number(1), 0, nullptr);
  EXPECT_EQ(ledger.still_lost(), 0u);
  EXPECT_EQ(ledger.counts().lost, 2u) << "however often they were tried";
}

TEST(Ledger, AFrameThatIsSentAgainAfterALossIsNotLate) {
  Ledger ledger(1);
  for (const std::uint64_t n : {0, 1, 3, 2}) ledger.receive(number(n), 0, nullptr);
  EXPECT_EQ(ledger.counts().late, 1u);
  for (int attempt = 0; attempt < 3; ++attempt)
    for (const std::uint64_t n : {0, 1, 2}) {
      lose(ledger, n);
      ledger.receive(number(n), 0, nullptr);
    }
  EXPECT_EQ(ledger.counts(), (LedgerCounts{.received = 4, .late = 1, .lost = 3, .end = 4}));
}

TEST(Ledger, AFrameThatCanNeverBeWrittenHoldsNoAcknowledgementBack) {
  Ledger ledger(1);
  auto session = std::make_shared<QuietListener>();
  for (std::uint64_t n : {0, 1}) ledger.receive(number(n), 0, session);
  place(ledger, 1);
  ledger.give_up({number(0), 0}, FrameState::dropped);
  EXPECT_EQ(ledger.take_notices().at(0).below, number(2));
  EXPECT_EQ(ledger.counts(), (LedgerCounts{.received = 1, .dropped = 1, .end = 2}));
  EXPECT_EQ(ledger.take_unplaced(),
            (std::vector<std::pair<FrameNumber, FrameState>>{{number(0), FrameState::dropped}}));
}

TEST(Ledger, WhatIsGivenUpAsDamagedCountsAsSuch) {
  Ledger ledger(1);
  auto session = std::make_shared<QuietListener>();
  ledger.receive(number(0), 0, session);
  ledger.give_up({number(0), 0}, FrameState::damaged);
  EXPECT_EQ(ledger.take_notices().at(0).below, number(1));
  EXPECT_EQ(ledger.counts(), (LedgerCounts{.damaged = 1, .end = 1}));
}

TEST(Ledger, AFrameThatComesAgainIsNotReportedAsUnplaced) {
  Ledger ledger(1);
  ledger.damaged(number(3));
  ledger.dropped(number(4));
  ledger.receive(number(3), 0, nullptr);
  EXPECT_EQ(ledger.take_unplaced(),
            (std::vector<std::pair<FrameNumber, FrameState>>{{number(4), FrameState::dropped}}));
  EXPECT_TRUE(ledger.take_unplaced().empty());
}

/// Against a plain model: a map of what happened to each frame.
TEST(Ledger, AFrameIsAwaitedOfWhoeverHasNotComeSoFar) {
  Ledger ledger(1);
  ledger.watch_windows();
  const auto ahead = std::make_shared<QuietListener>(), behind = std::make_shared<QuietListener>();
  ledger.expect(ahead);
  EXPECT_FALSE(ledger.is_awaited(number(0), ahead)) << "of itself";
  ledger.expect(behind);
  ledger.receive(number(9), 0, ahead);
  EXPECT_TRUE(ledger.is_awaited(number(3), ahead)) << "it has put nothing yet";
  EXPECT_FALSE(ledger.is_awaited(number(3), behind)) << "frames come by rising number";
  ledger.receive(number(1), 0, behind);
  EXPECT_TRUE(ledger.is_awaited(number(3), ahead));
  ledger.await_no_longer(number(3), ahead);
  EXPECT_FALSE(ledger.is_awaited(number(3), ahead)) << "in vain";
  ledger.receive(number(2), 0, behind);
  EXPECT_TRUE(ledger.is_awaited(number(3), ahead)) << "it goes on";
  ledger.receive(number(5), 0, behind);
  EXPECT_FALSE(ledger.is_awaited(number(3), ahead)) << "it left that one out";
  EXPECT_TRUE(ledger.is_awaited(number(6), ahead));
  behind->ended = true;
  EXPECT_FALSE(ledger.is_awaited(number(6), ahead));
}

TEST(Ledger, AClientThatIsGoneWithoutAWordMayComeBack) {
  Ledger ledger(1);
  ledger.watch_windows();
  const auto ahead = std::make_shared<QuietListener>();
  auto gone = std::make_shared<QuietListener>();
  ledger.receive(number(0), 0, gone);
  ledger.receive(number(9), 0, ahead);
  gone.reset();
  (void)ledger.take_notices();
  EXPECT_TRUE(ledger.is_awaited(number(3), ahead));
  ledger.await_no_longer(number(3), ahead);
  (void)ledger.take_notices();
  EXPECT_FALSE(ledger.is_awaited(number(3), ahead));
}

TEST(Ledger, AgreesWithAModelUnderRandomEvents) {
  const unsigned seed = 20;
  std::mt19937 random(seed);
  Ledger ledger(1);
  auto session = std::make_shared<QuietListener>();
  std::map<std::uint64_t, bool> safe;  // frame → on storage
  std::uint64_t told = 0, duplicates = 0, next = 0;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 2 == 0) {
      const auto n = random() % 4 == 0 && next > 0 ? random() % next : next++;
      const bool take = ledger.receive(number(n), 0, session) == Ledger::Admission::take;
      EXPECT_EQ(take, !safe.contains(n)) << "seed " << seed << " step " << step;
      if (take)
        safe[n] = false;
      else
        ++duplicates;
    } else if (next > 0) {
      const auto n = random() % next;
      if (safe.contains(n) && !safe[n]) {
        place(ledger, n);
        safe[n] = true;
      }
    }
    std::uint64_t below = next;
    for (const auto& [n, is_safe] : safe)
      if (!is_safe) {
        below = n;
        break;
      }
    for (const auto& notice : ledger.take_notices()) told = value(notice.below);
    EXPECT_LE(told, below) << "seed " << seed << " step " << step;
    if (safe.size() > 200) break;
  }
  EXPECT_EQ(ledger.counts().duplicate, duplicates);
  EXPECT_EQ(ledger.counts().received, safe.size());
}

TEST(Ledger, PartsOfAFrameAreLateAndCountedForThemselves) {
  Ledger ledger(2);
  for (std::uint64_t n = 0; n < 4; ++n) ledger.receive(number(n), 0, nullptr);
  for (const std::uint64_t n : {0, 2, 1}) ledger.receive(number(n), 1, nullptr);
  EXPECT_EQ(ledger.counts(), (LedgerCounts{.received = 3, .late = 1, .end = 4}));
  EXPECT_EQ(ledger.parts(), (std::vector<PartCounts>{{.received = 4}, {.received = 3, .late = 1}}));
  const Ledger::Item items[] = {{number(2), 1}};
  ledger.lost(items);
  EXPECT_EQ(ledger.parts()[1], (PartCounts{.received = 2, .late = 1}));
  EXPECT_EQ(ledger.counts().received, 2u);
  ledger.damaged(number(3), 1);
  ledger.receive(number(0), 0, nullptr);
  ledger.add(std::vector<PartCounts>{{.late = 5}, {.damaged = 7}});
  EXPECT_EQ(ledger.parts(), (std::vector<PartCounts>{{.received = 4, .late = 5, .duplicate = 1},
                                                     {.received = 2, .late = 1, .damaged = 8}}));
  // Frames 0 to 4, with both elements: 0 and 1 are whole, the second element of 2 was lost, and never came of 3.
  std::string states;
  for (const auto each : ledger.received_elements(5, 2)) states += each == std::byte{1} ? '1' : '0';
  EXPECT_EQ(states, "1111101000");
}

TEST(Ledger, AnElementIsThereWithAllOfItsChannels) {
  Ledger ledger(4);  // two channels of two elements: parts 0 and 2 are of the first
  for (const std::uint32_t part : {0, 2, 1}) ledger.receive(number(5000), part, nullptr);
  const auto received = ledger.received_elements(5001, 2);
  ASSERT_EQ(received.size(), 10002u);
  EXPECT_EQ(received[10000], std::byte{1});
  EXPECT_EQ(received[10001], std::byte{0});
}

}  // namespace
}  // namespace penstock::recorder
