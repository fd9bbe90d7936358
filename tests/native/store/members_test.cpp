#include <fstream>
#include <map>

#include "store/format/description.hpp"
#include "store/members/member_map.hpp"
#include "store/share/messages.hpp"
#include "store_fixture.hpp"

namespace penstock::store {
namespace {

using testing::content_of;

Members members_of(unsigned ranks, std::uint64_t frames = 0) {
  return {.stem = "m_", .suffix = ".h5", .frames = frames, .ranks = ranks};
}

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
  for (const auto& [frame, rank] : owners) EXPECT_TRUE(map.note(0, frame, rank));
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
      EXPECT_TRUE(map.note(0, frame, static_cast<unsigned>(frame % 3)));
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
  for (std::uint64_t frame = 65'000; frame < 66'000; ++frame) map.note(0, frame, static_cast<unsigned>(frame % 2));
  EXPECT_EQ(map.runs(0).size(), 2u) << "across pages";
  EXPECT_EQ(map.end(), 66'000u);
}

TEST(MemberMap, TheFirstMemberKeepsAFrame) {
  MemberMap map(2, members_of(2));
  EXPECT_TRUE(map.note(0, 5, 0));
  EXPECT_FALSE(map.note(0, 5, 1));
  EXPECT_TRUE(map.note(1, 5, 1)) << "another dataset";
  EXPECT_EQ(map.members(), (std::vector<std::uint64_t>{0, 1}));
  EXPECT_EQ(map.runs(0), (std::vector<MemberRun>{{5, 1, 1, 0, 5}}));
}

class MembersTest : public testing::StoreTest {
 protected:
  Result<std::unique_ptr<Store>> create(Listener* listener = nullptr, Share share = {}) {
    return Store::create(posix_env(), path("s.h5"), layout_, small_options(), listener, std::move(share));
  }
  Result<void> put(ChunkWriter& writer, std::uint64_t frame) const {
    return writer.put(head_of(frame), content_of(frame, 32), nullptr, 32);
  }

  FileLayout layout_ = testing::one_dataset(4, 4);
};

TEST_F(MembersTest, AFileIsCompleteWhileTheSeriesGoesOn) {
  layout_.members = members_of(1, 4);
  testing::Recorder listener;
  auto store = create(&listener);
  ASSERT_TRUE(store.ok()) << store.error().message();
  auto writer = (*store)->make_writer();
  // Each lacks a frame; many are waited for, but not as many as these.
  for (std::uint64_t frame = 0; frame < 161; ++frame)
    if (frame % 4 != 2) {
      ASSERT_TRUE(put(*writer, frame).ok()) << frame;
    }
  ASSERT_TRUE(writer->flush().ok());
  const auto late = put(*writer, 2);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code(), Errc::out_of_order) << late.error().message();
  {
    // So many are open at most, and two on their way to be closed: the first was closed.
    const testing::PlainReader reader(path("m_0.h5"));
    ASSERT_TRUE(reader.open()) << "it is still marked as open for writing";
    EXPECT_EQ(reader.shape("/entry/data/data"), (std::vector<hsize_t>{4, 4, 4}));
    EXPECT_EQ(reader.frame("/entry/data/data", 3), content_of(3, 32));
  }
  writer.reset();
  ASSERT_TRUE((*store)->finish({.values = {}, .attributes = {}, .frames = 165}).ok());
  EXPECT_TRUE(listener.lost_chunks.empty());
  EXPECT_EQ(listener.placed_chunks.size(), 121u);
  const testing::PlainReader reader(path("s.h5"));
  EXPECT_EQ(reader.shape("/entry/same"), (std::vector<hsize_t>{165, 4, 4}));
  for (const std::uint64_t frame : {0, 3, 4, 19, 160})
    EXPECT_EQ(reader.frame("/entry/same", frame), content_of(frame, 32));
  EXPECT_EQ(reader.frame("/entry/data/data", 2), std::vector<std::byte>(32)) << "the fill value";
  EXPECT_EQ(reader.frame("/entry/data/data", 164), std::vector<std::byte>(32));
}

TEST_F(MembersTest, FilesThatAreThereStay) {
  layout_.members = members_of(1, 4);
  { std::ofstream(path("m_77.h5")) << "somebody's"; }
  const auto refused = create();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::already_exists);
  EXPECT_NE(refused.error().message().find("m_77.h5"), std::string::npos) << refused.error().message();
  EXPECT_FALSE(std::filesystem::exists(path("s.h5"))) << "nothing was begun";
  EXPECT_EQ(std::filesystem::file_size(path("m_77.h5")), 10u);
  layout_.members->overwrite = true;
  auto replaced = create();
  ASSERT_TRUE(replaced.ok()) << replaced.error().message();
  EXPECT_FALSE(std::filesystem::exists(path("m_77.h5"))) << "it would show in the series";
}

/// Rank 1 is played by a store of its own and the messages that its rank would send.
TEST_F(MembersTest, ManyIrregularRunsReadAsOneDataset) {
  constexpr std::uint64_t frames = 14000;
  layout_.members = members_of(2);
  Share share;
  share.ranks = 2;
  share.send = [](unsigned, std::vector<std::byte>) {};
  auto lead = create(nullptr, std::move(share));
  ASSERT_TRUE(lead.ok()) << lead.error().message();
  auto other = Store::create(posix_env(), path("m_1.h5"), testing::one_dataset(4, 4), small_options(), nullptr);
  ASSERT_TRUE(other.ok());
  {
    auto writer = (*lead)->make_writer(), other_writer = (*other)->make_writer();
    std::vector<PlacedChunk> placed;
    std::mt19937 random(7);
    for (std::uint64_t frame = 0; frame < frames; ++frame) {
      const bool here = random() % 2 == 0;
      ASSERT_TRUE(put(here ? *writer : *other_writer, frame).ok());
      if (!here) placed.push_back({.head = head_of(frame)});
    }
    ASSERT_TRUE((*lead)->receive(1, share::encode(1, placed)).ok());
  }
  ASSERT_TRUE((*other)->finish({}).ok());
  ASSERT_TRUE((*lead)->finish({.values = {}, .attributes = {}, .frames = frames}).ok());
  const testing::PlainReader reader(path("s.h5"));
  EXPECT_FALSE(reader.shape("/entry/penstock/parts/data_1").empty()) << "more runs than one part has";
  for (std::uint64_t frame = 0; frame < frames; frame += 1999)
    EXPECT_EQ(reader.frame("/entry/data/data", frame), content_of(frame, 32)) << frame;
}

TEST(Description, NamesTheMembersOfAMaster) {
  auto layout = testing::one_dataset(4, 4);
  layout.members = members_of(3, 100);
  const auto parsed = format::parse_description(format::describe(layout));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  ASSERT_TRUE(parsed->members.has_value());
  EXPECT_EQ(parsed->members->file_name(7), "m_7.h5");
  EXPECT_EQ(parsed->members->frames, 100u);
  EXPECT_EQ(parsed->members->ranks, 3u);
  layout.members->stem = "../m_";
  EXPECT_FALSE(format::parse_description(format::describe(layout)).ok()) << "members are in the master's folder";
}

}  // namespace
}  // namespace penstock::store
