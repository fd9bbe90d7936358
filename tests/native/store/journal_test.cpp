// How changes of HDF5's structures come into the file where the journal finds no room.

#include "../support/fault_env.hpp"
#include "store/hdf5/driver.hpp"
#include "store/recovery/own_superblock.hpp"
#include "store_fixture.hpp"

namespace penstock::store::testing {
namespace {

using hdf5::DriverContext;

class JournalTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    file_ = env_.open(path(), {.mode = OpenOptions::Mode::create_or_truncate}).value();
    space_ = std::make_unique<Space>(file_, SpaceOptions{64 << 10, 4096}, end_);
    (void)space_->take_metadata(48);
    context_.reset(new DriverContext{.file = file_, .space = *space_});
    context_->journal = Journal::attach(*file_, *space_, format::make_file_id()).value();
    context_->waits_for_room = true;
    // Where HDF5 has written before.
    ASSERT_TRUE(write_at(*file_, std::vector<std::byte>(1 << 20), 64 << 10).ok());
    context_->fresh.clear();
  }
  void TearDown() override {
    context_.reset();
    space_.reset();
    file_.reset();
    StoreTest::TearDown();
  }

  /// A batch that does not fit into a page.
  void change() { context_->hold(std::vector<std::byte>(20'000, std::byte{7}), 100'000, false); }

  void expect_changed() const {
    std::vector<std::byte> bytes(20'000);
    ASSERT_EQ(file_->read_at(bytes, 100'000).value(), bytes.size());
    EXPECT_EQ(bytes, std::vector<std::byte>(20'000, std::byte{7}));
  }

  /// The room between two runs of slots.
  class NoRoom final : public EndOfFile {
   public:
    Result<std::uint64_t> advance(std::uint64_t bytes) override {
      if (too_large) return make_error(Errc::too_large, "{} bytes between slots", bytes);
      return at_ += bytes;
    }
    bool too_large = false;

   private:
    std::uint64_t at_ = 2 << 20;
  };

  penstock::testing::FaultEnv env_;
  std::shared_ptr<File> file_;
  std::shared_ptr<NoRoom> end_ = std::make_shared<NoRoom>();
  std::unique_ptr<Space> space_;
  std::unique_ptr<DriverContext> context_;
};

TEST_F(JournalTest, ABatchThatIsLargerThanItsRoomCanBeGoesInPlace) {
  end_->too_large = true;
  while (space_->take_segment(4096).ok()) {
  }
  change();
  const auto done = context_->commit();
  ASSERT_TRUE(done.ok()) << done.error().message();
  EXPECT_FALSE(context_->waits);
  expect_changed();
}

TEST_F(JournalTest, OnAFullDiskABatchWaitsAndWhenTheFileIsClosedItGoesInPlace) {
  env_.faults->on_reserve = [](auto, auto) { return Result<void>(make_error(Errc::no_space, "full")); };
  while (space_->take_segment(4096).ok()) {
  }
  change();
  ASSERT_TRUE(context_->commit().ok());
  EXPECT_TRUE(context_->waits);
  const auto done = context_->settle();
  ASSERT_TRUE(done.ok()) << done.error().message();
  expect_changed();
}

/// Whatever reaches into whatever else, a file with changes laid over it reads as if they had been made one by one.
TEST_F(JournalTest, ChangesThatOverlapComeToWhatTheyWouldOneByOne) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::byte> expected(64 << 10);
    ASSERT_EQ(file_->read_at(expected, 64 << 10).value(), expected.size());
    std::vector<Change> changes;
    for (int i = 0; i < 200; ++i) {
      Change change{(64 << 10) + random() % (60 << 10),
                    std::vector<std::byte>(1 + random() % (i % 10 == 0 ? 4000 : 60))};
      std::fill(change.bytes.begin(), change.bytes.end(), static_cast<std::byte>(random()));
      std::copy(change.bytes.begin(), change.bytes.end(),
                expected.begin() + static_cast<std::ptrdiff_t>(change.address) - (64 << 10));
      changes.push_back(std::move(change));
    }
    std::vector<const Change*> batch;
    for (const auto& change : changes) batch.push_back(&change);
    ASSERT_TRUE(context_->journal->write(batch).ok());
    const auto found = unfinished_changes(*file_).value().changes;
    ASSERT_FALSE(found.empty());
    for (std::size_t i = 1; i < found.size(); ++i) ASSERT_LE(found[i - 1].end(), found[i].address);
    const auto changed = with_changes(file_, found);
    std::vector<std::byte> read(expected.size());
    ASSERT_EQ(changed->read_at(read, 64 << 10).value(), read.size());
    EXPECT_EQ(read, expected);
    // In pieces too.
    for (std::uint64_t at = 0; at < expected.size(); at += 777) {
      const auto size = std::min<std::uint64_t>(777, expected.size() - at);
      ASSERT_EQ(changed->read_at(MutableBytes(read).first(size), (64 << 10) + at).value(), size);
      ASSERT_TRUE(std::equal(read.begin(), read.begin() + static_cast<std::ptrdiff_t>(size),
                             expected.begin() + static_cast<std::ptrdiff_t>(at)));
    }
    ASSERT_TRUE(make_changes(*file_, found).ok());
    ASSERT_EQ(file_->read_at(read, 64 << 10).value(), read.size());
    EXPECT_EQ(read, expected);
    EXPECT_TRUE(unfinished_changes(*file_).value().changes.empty());
  }
}

/// The first bytes of a file while HDF5 has it open, and once it has closed it.
std::pair<std::vector<std::byte>, std::vector<std::byte>> starts_of_file(Env& env, const std::string& path) {
  const auto start = [&] {
    std::vector<std::byte> bytes(2 * own_superblock_bytes);
    EXPECT_EQ(env.open(path, {}).value()->read_at(bytes, 0).value(), bytes.size());
    return bytes;
  };
  const auto access = H5Pcreate(H5P_FILE_ACCESS);
  EXPECT_GE(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), 0);
  const auto file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  EXPECT_GE(H5Fflush(file, H5F_SCOPE_LOCAL), 0);
  auto open = start();
  EXPECT_GE(H5Fclose(file), 0);
  H5Pclose(access);
  return {std::move(open), start()};
}

/// A recovery is done when its changes are synced. A loss of power before that must leave the mark of an open file.
TEST_F(JournalTest, ChangesThatAreMadeLeaveTheSuperblockThatSaysTheFileIsOpen) {
  const auto [open, closed] = starts_of_file(env_, path("other.h5"));
  ASSERT_TRUE(decode_own_superblock(open)->open_for_writing);
  ASSERT_FALSE(decode_own_superblock(closed)->open_for_writing);
  ASSERT_TRUE(write_at(*file_, open, 0).ok());
  std::vector<Change> changes{{0, closed}, {3 * own_superblock_bytes, {std::byte{5}}}};
  changes[0].bytes.back() = std::byte{9};
  ASSERT_TRUE(make_changes(*file_, changes).ok());
  std::vector<std::byte> read(3 * own_superblock_bytes + 1);
  ASSERT_EQ(file_->read_at(read, 0).value(), read.size());
  EXPECT_TRUE(std::equal(open.begin(), open.begin() + own_superblock_bytes, read.begin()));
  EXPECT_EQ(read[closed.size() - 1], std::byte{9}) << "what is behind the superblock was not changed";
  EXPECT_EQ(read.back(), std::byte{5});
}

TEST_F(JournalTest, ChangesReplaceASuperblockThatIsTorn) {
  const auto closed = starts_of_file(env_, path("other.h5")).second;
  auto torn = closed;
  torn[own_superblock_bytes - 1] ^= std::byte{1};
  ASSERT_TRUE(write_at(*file_, torn, 0).ok());
  ASSERT_TRUE(make_changes(*file_, std::vector<Change>{{0, closed}}).ok());
  EXPECT_TRUE(read_own_superblock(*file_).value());
}

}  // namespace
}  // namespace penstock::store::testing
