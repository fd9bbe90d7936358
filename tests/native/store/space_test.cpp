#include "store/space/space.hpp"

#include "../support/fault_env.hpp"
#include "store_fixture.hpp"

namespace penstock::store::testing {
namespace {

class SpaceTest : public StoreTest {
 protected:
  std::shared_ptr<File> file() { return env_.open(path(), {.mode = OpenOptions::Mode::create_or_truncate}).value(); }
  penstock::testing::FaultEnv env_;
};

TEST_F(SpaceTest, SegmentsAndMetadataNeverOverlapAndKeepTheirAlignment) {
  auto opened = file();
  Space space(opened, {1 << 20, 16384});
  std::map<std::uint64_t, std::uint64_t> taken;
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    const bool segment = random() % 2 == 0;
    const auto bytes = segment ? 4096 * (1 + random() % 64) : 1 + random() % 9000;
    const auto address = segment ? space.take_segment(bytes).value() : space.take_metadata(bytes).value();
    if (i > 0) {
      EXPECT_EQ(address % (segment ? 16384 : 8), 0u);
    }
    taken[address] = bytes;
    ASSERT_LE(address + bytes, space.end());
    ASSERT_LE(space.end(), opened->size().value());
  }
  std::uint64_t end = 0;
  for (const auto& [address, bytes] : taken) {
    ASSERT_GE(address, end);
    end = address + bytes;
  }
}

TEST_F(SpaceTest, FirstMetadataIsAtZeroAndNoneEndsAtTheEnd) {
  Space space(file(), {1 << 20, 4096});
  EXPECT_EQ(space.take_metadata(48).value(), 0u);
  for (int i = 0; i < 100; ++i) {
    const auto address = space.take_metadata(4096).value();
    EXPECT_LT(address + 4096, space.end());
  }
}

TEST_F(SpaceTest, LargeMetadataGetsALeaseOfItsOwn) {
  Space space(file(), {1 << 20, 4096});
  const auto address = space.take_metadata(30 << 20);
  ASSERT_TRUE(address.ok());
  EXPECT_GE(space.end(), *address + (30 << 20));
}

TEST_F(SpaceTest, WhatWasGivenBackIsUsedAgain) {
  Space space(file(), {1 << 20, 4096});
  const auto first = space.take_segment(65536).value();
  (void)space.take_segment(65536);
  const auto end = space.end();
  space.give_back(first, 65536);
  EXPECT_EQ(space.take_segment(16384).value(), first);
  EXPECT_EQ(space.take_segment(49152).value(), first + 16384);
  EXPECT_EQ(space.end(), end);
  EXPECT_EQ(space.take_segment(4096).value(), end);
}

TEST_F(SpaceTest, ANearlyFullDiskStillGivesSmallerExtents) {
  std::uint64_t left = 300 << 10;
  env_.faults->on_reserve = [&](auto, std::uint64_t bytes) -> Result<void> {
    if (bytes > left) return make_error(Errc::no_space, "full");
    left -= bytes;
    return {};
  };
  Space space(file(), {128 << 20, 4096});
  std::uint64_t got = 0;
  while (auto address = space.take_segment(8192)) got += 8192;
  EXPECT_EQ(got, 296u << 10);  // all but what is less than a segment
  EXPECT_EQ(space.take_segment(8192).error().code(), Errc::no_space);
  left = 1 << 20;
  EXPECT_TRUE(space.take_segment(8192).ok());
}

}  // namespace
}  // namespace penstock::store::testing
