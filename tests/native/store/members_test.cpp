#include <atomic>
#include <fstream>
#include <future>

#include "../support/fault_env.hpp"
#include "../support/whole_file.hpp"
#include "store/format/description.hpp"
#include "store/share/messages.hpp"
#include "store_fixture.hpp"

namespace penstock::store {
namespace {

using testing::content_of;
using testing::members_of;

class MembersTest : public testing::StoreTest {
 protected:
  Result<std::unique_ptr<Store>> create(Listener* listener = nullptr, Share share = {}, Env& env = posix_env()) {
    return Store::create(env, path("s.h5"), layout_, options_, listener, std::move(share));
  }
  Result<void> put(ChunkWriter& writer, std::uint64_t frame) const {
    return writer.put(head_of(frame), content_of(frame, 32), nullptr, 32);
  }

  FileLayout layout_ = testing::one_dataset(4, 4);
  StoreOptions options_ = small_options();
};

/// The first member's file cannot be made before it is let go.
class SlowToMake {
 public:
  explicit SlowToMake(std::optional<Errc> failure = {}) {
    env.faults->on_call = [this, failure](penstock::testing::Call call) -> Result<void> {
      if (call != penstock::testing::Call::lock || !armed.exchange(false)) return {};
      reached.set_value();
      released.get_future().wait();
      if (failure) return make_error(*failure, "the storage came back without it");
      return {};
    };
  }

  penstock::testing::FaultEnv env;
  std::atomic<bool> armed{false};
  std::promise<void> reached;
  std::promise<void> released;
};

/// Of this process, open on the file at `path`.
std::size_t descriptors_of(const std::string& path) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed_meanwhile;
    if (std::filesystem::read_symlink(entry.path(), closed_meanwhile) == path) ++count;
  }
  return count;
}

constexpr auto long_time = std::chrono::seconds(20);

TEST_F(MembersTest, AStorageThatHangsWhileAMemberIsMadeHoldsNobodyUpWhoDoesNotNeedIt) {
  layout_.members = members_of(1, 4);
  SlowToMake slow;
  testing::Recorder listener;
  auto store = create(&listener, {}, slow.env);
  ASSERT_TRUE(store.ok()) << store.error().message();
  auto first = (*store)->make_writer(), same = (*store)->make_writer(), other = (*store)->make_writer();
  slow.armed = true;
  auto hangs = std::async(std::launch::async, [&] { return put(*first, 0).ok(); });
  slow.reached.get_future().wait();
  auto waits = std::async(std::launch::async, [&] { return put(*same, 1).ok(); });
  auto numbers = std::async(std::launch::async, [&] { return (*store)->stats().segments; });
  auto goes_on = std::async(std::launch::async, [&] { return put(*other, 4).ok(); });
  EXPECT_EQ(numbers.wait_for(long_time), std::future_status::ready);
  EXPECT_EQ(goes_on.wait_for(long_time), std::future_status::ready) << "another member";
  EXPECT_EQ(waits.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  slow.released.set_value();
  EXPECT_TRUE(hangs.get());
  EXPECT_TRUE(waits.get());
  EXPECT_TRUE(goes_on.get());
  first.reset();
  same.reset();
  other.reset();
  ASSERT_TRUE((*store)->finish({.values = {}, .attributes = {}, .frames = 5}).ok());
  const testing::PlainReader reader(path("s.h5"));
  for (const std::uint64_t frame : {0, 1, 4}) EXPECT_EQ(reader.frame("/entry/data/data", frame), content_of(frame, 32));
}

TEST_F(MembersTest, AMemberThatCannotBeMadeIsTriedAgainByThoseWhoWaitedForIt) {
  layout_.members = members_of(1, 4);
  SlowToMake slow(Errc::io);
  auto store = create(nullptr, {}, slow.env);
  ASSERT_TRUE(store.ok()) << store.error().message();
  auto first = (*store)->make_writer(), second = (*store)->make_writer();
  slow.armed = true;
  auto fails = std::async(std::launch::async, [&] { return put(*first, 0); });
  slow.reached.get_future().wait();
  auto waits = std::async(std::launch::async, [&] { return put(*second, 1); });
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  slow.released.set_value();
  const auto failed = fails.get();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), Errc::io);
  EXPECT_TRUE(waits.get().ok());
  first.reset();
  second.reset();
  EXPECT_TRUE((*store)->finish({.values = {}, .attributes = {}, .frames = 4}).ok());
}

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

/// A call that waits until it is let go.
struct Stop {
  void operator()() {
    reached.set_value();
    released.get_future().wait();
  }
  std::promise<void> reached;
  std::promise<void> released;
};

TEST_F(MembersTest, LookForAMemberThatIsClosedMeanwhileReleasesItsFile) {
  layout_.members = members_of(1, 4);
  Stop close, look;
  std::atomic<int> looks_left{0};
  std::atomic<bool> closes{false}, is_closed{false};
  penstock::testing::FaultEnv env;
  env.faults->on_call = [&](penstock::testing::Call call) -> Result<void> {
    if (call == penstock::testing::Call::sync && closes.exchange(false)) close();
    return {};
  };
  env.faults->on_look = [&] {
    if (looks_left > 0 && --looks_left == 0) look();
  };
  auto store = create(nullptr, {}, env);
  ASSERT_TRUE(store.ok()) << store.error().message();
  auto writer = (*store)->make_writer();
  for (std::uint64_t frame = 0; frame < 4; ++frame) ASSERT_TRUE(put(*writer, frame).ok());
  closes = true;
  writer.reset();
  close.reached.get_future().wait();
  env.on_open = [&](const std::string& opened) { is_closed = is_closed || opened == path("m_0.h5"); };
  looks_left = 2;  // the master's file, the member's file
  auto lost = std::async(std::launch::async, [&] { return (*store)->lost_file(); });
  look.reached.get_future().wait();
  close.released.set_value();
  while (!is_closed) EXPECT_EQ((*store)->lost_file(), "");
  EXPECT_GT(descriptors_of(path("m_0.h5")), 0u);
  look.released.set_value();
  EXPECT_EQ(lost.get(), "");
  EXPECT_EQ(descriptors_of(path("m_0.h5")), 0u);
  EXPECT_TRUE((*store)->finish({.values = {}, .attributes = {}, .frames = 4}).ok());
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
}

TEST_F(MembersTest, OverwritingTakesAwayWhatIsCertainlyOfTheMasterAndNothingElse) {
  layout_.members = members_of(1, 4);
  const auto record = [&](std::uint64_t frames) -> Result<void> {
    PEN_ASSIGN(auto store, create());
    auto writer = store->make_writer();
    for (std::uint64_t frame = 0; frame < frames; ++frame) PEN_TRY(put(*writer, frame));
    writer.reset();
    return store->finish({.values = {}, .attributes = {}, .frames = frames});
  };
  ASSERT_TRUE(record(9).ok());
  layout_.members->overwrite = options_.overwrite = true;
  const auto bytes_of = [&](const char* name) { return whole_file(path(name)); };
  const auto expect_refused = [&](const std::string& name, Errc code) {
    SCOPED_TRACE(name);
    const auto master = bytes_of("s.h5"), member = bytes_of("m_0.h5"), foreign = bytes_of(name.c_str());
    const auto refused = create();
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), code) << refused.error().message();
    EXPECT_NE(refused.error().message().find(name), std::string::npos) << refused.error().message();
    EXPECT_EQ(bytes_of("s.h5"), master);
    EXPECT_EQ(bytes_of("m_0.h5"), member);
    EXPECT_EQ(bytes_of(name.c_str()), foreign);
  };
  { std::ofstream(path("m_77.h5")) << "somebody's"; }
  expect_refused("m_77.h5", Errc::already_exists);
  { std::ofstream(path("m_77.h5"), std::ios::trunc); }
  expect_refused("m_77.h5", Errc::already_exists);
  std::filesystem::rename(path("m_2.h5"), path("m_77.h5"));
  expect_refused("m_77.h5", Errc::already_exists);
  std::filesystem::rename(path("m_77.h5"), path("m_2.h5"));
  ASSERT_TRUE(Store::create(posix_env(), path("m_3.h5"), testing::one_dataset(4, 4), small_options(), nullptr).ok());
  expect_refused("m_3.h5", Errc::already_exists);
  std::filesystem::rename(path("m_3.h5"), path("m_x.h5"));
  {
    const auto reader = posix_env().open(path("m_1.h5"), {});
    ASSERT_TRUE(reader.ok() && (*reader)->lock(false).ok());
    expect_refused("m_1.h5", Errc::locked);
  }
  ASSERT_TRUE(record(3).ok());
  for (const char* gone : {"m_1.h5", "m_2.h5"}) EXPECT_FALSE(std::filesystem::exists(path(gone))) << gone;
  EXPECT_TRUE(std::filesystem::exists(path("m_x.h5")));
  EXPECT_EQ(testing::PlainReader(path("s.h5")).shape("/entry/data/data"), (std::vector<hsize_t>{3, 4, 4}));
}

/// What a storage tells that has failed in the middle.
TEST_F(MembersTest, AFolderThatCannotBeListedIsNoReasonToOverwrite) {
  layout_.members = members_of(1, 4);
  layout_.members->overwrite = options_.overwrite = true;
  { std::ofstream(path("s.h5")) << "a master"; }
  penstock::testing::FaultEnv env;
  env.faults->on_call = [](penstock::testing::Call call) -> Result<void> {
    if (call == penstock::testing::Call::list) return make_error(Errc::io, "the folder cannot be read");
    return {};
  };
  const auto refused = create(nullptr, {}, env);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::io);
  EXPECT_EQ(std::filesystem::file_size(path("s.h5")), 8u);
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

TEST(Description, NamesTheMasterOfAMember) {
  auto layout = testing::one_dataset(4, 4);
  EXPECT_FALSE(format::parse_description(format::describe(layout))->member.has_value());
  layout.member = MemberMark{"s.h5", 12};
  const auto text = format::describe(layout);
  EXPECT_EQ(format::parse_description(text)->member, layout.member);
  for (const char* wrong : {"-12", "\"12\"", "null"}) {
    auto changed = text;
    EXPECT_FALSE(format::parse_description(changed.replace(changed.find("12"), 2, wrong)).ok()) << wrong;
  }
}

}  // namespace
}  // namespace penstock::store
