#include "store/members/member_map.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "store_fixture.hpp"

namespace penstock::store {
namespace {

using testing::members_of;

/// Every frame's member and row, as the runs say it. Fails where two runs speak of one frame.
std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> unrolled(const std::vector<MemberRun>& runs) {
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> places;
  for (const auto& run : runs)
    for (std::uint64_t i = 0; i < run.count; ++i) {
      const auto frame = run.first + i * run.stride;
      EXPECT_TRUE(places.emplace(frame, std::pair(run.member, run.row + i * run.stride)).second) << "frame " << frame;
    }
  return places;
}

void expect_all_found(const std::map<std::uint64_t, unsigned>& owners, const Members& members) {
  MemberMap map(1, members);
  for (const auto& [frame, rank] : owners) EXPECT_TRUE(map.note(0, frame, rank).value());
  const auto places = unrolled(map.runs(0));
  std::map<std::uint64_t, std::uint64_t> last_rows;
  for (const auto& [frame, rank] : owners) {
    const auto member = members.member_of(frame, rank);
    ASSERT_TRUE(places.contains(frame)) << frame;
    EXPECT_EQ(places.at(frame), std::pair(member, members.row_of(frame))) << frame;
    last_rows[member] = std::max(last_rows[member], members.row_of(frame));
  }
  for (const auto& [frame, place] : places) {
    EXPECT_EQ(members.first_frame(place.first) + place.second, frame);
    EXPECT_LE(place.second, last_rows[place.first]) << "beyond the rows that the member has";
  }
}

TEST(MemberMap, FramesDealtInTurnAreARunARankWhateverIsMissing) {
  MemberMap map(1, members_of(3));
  for (std::uint64_t frame = 0; frame < 9000; ++frame)
    if (frame % 97 != 5) {
      EXPECT_TRUE(map.note(0, frame, static_cast<unsigned>(frame % 3)).value());
    }
  const auto runs = map.runs(0);
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0], (MemberRun{0, 3, 3000, 0, 0}));
  EXPECT_EQ(runs[1], (MemberRun{1, 3, 3000, 1, 1}));
  EXPECT_EQ(map.end(), 9000u);
}

TEST(MemberMap, FindsEveryFrameAgainHoweverTheyWereDealt) {
  std::mt19937 random(20);
  for (const auto& members : {members_of(1, 7), members_of(2), members_of(4), members_of(3, 50), members_of(200)}) {
    std::map<std::uint64_t, unsigned> owners;
    for (std::uint64_t frame = 0, rank = 0; frame < 2000; ++frame) {
      // Stretches of one rank, of all in turn, and of chance.
      if (frame / 400 % 3 == 0) rank = frame / 100 % members.ranks;
      if (frame / 400 % 3 == 1) rank = frame % members.ranks;
      if (frame / 400 % 3 == 2) rank = random() % members.ranks;
      if (random() % 10 > 0) owners[frame] = static_cast<unsigned>(rank);
    }
    expect_all_found(owners, members);
  }
}

TEST(MemberMap, FramesFarApartCostNoMemoryBetweenThem) {
  for (const auto& members : {members_of(1), members_of(2), members_of(2, 7)}) {
    std::map<std::uint64_t, unsigned> owners;
    for (std::uint64_t frame = 65'000; frame < 66'000; ++frame)
      owners[frame] = static_cast<unsigned>(frame % members.ranks);
    for (std::uint64_t frame = 200'000; frame < 200'010; ++frame) owners[frame] = 0;
    owners[std::uint64_t{1} << 39] = 0;
    expect_all_found(owners, members);
  }
  MemberMap map(1, members_of(2));
  for (std::uint64_t frame = 65'000; frame < 66'000; ++frame) {
    EXPECT_TRUE(map.note(0, frame, static_cast<unsigned>(frame % 2)).value());
  }
  EXPECT_EQ(map.runs(0).size(), 2u) << "across pages";
  EXPECT_EQ(map.end(), 66'000u);
}

TEST(MemberMap, TheFirstMemberKeepsAFrame) {
  MemberMap map(2, members_of(2));
  EXPECT_TRUE(map.note(0, 5, 0).value());
  EXPECT_FALSE(map.note(0, 5, 1).value());
  EXPECT_TRUE(map.note(1, 5, 1).value()) << "another dataset";
  EXPECT_EQ(map.members(), (std::vector<std::uint64_t>{0, 1}));
  EXPECT_EQ(map.runs(0), (std::vector<MemberRun>{{5, 1, 1, 0, 5}}));
}

TEST(MemberMap, FramesThatAreFarApartTakeABoundedMemory) {
  const auto far = [](std::uint64_t page) { return page << 20; };
  MemberMap map(2, members_of(1), 100);
  for (std::uint64_t page = 0; page < 100; ++page) ASSERT_TRUE(map.note(page % 2, far(page), 0).ok()) << page;
  const auto refused = map.note(0, far(100), 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::too_large);
  EXPECT_NE(refused.error().message().find(std::to_string(far(100))), std::string::npos) << refused.error().message();
  EXPECT_TRUE(map.note(0, 1, 0).value()) << "where there are frames already";
  EXPECT_EQ(map.end(), far(99) + 1);
}

TEST(MemberMap, ASeriesThatIsDenseMayBeAsLongAsItWants) {
  MemberMap map(1, members_of(1), 4);
  for (std::uint64_t frame = 0; frame < 400'000; frame += 50) ASSERT_TRUE(map.note(0, frame, 0).ok()) << frame;
}

}  // namespace
}  // namespace penstock::store
