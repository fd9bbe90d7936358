// A write that never reached its end, and bytes that changed after it did.
#include "store/recovery/cut_short.hpp"

#include "store_fixture.hpp"

namespace penstock::store::testing {
namespace {

constexpr std::uint64_t sector = 512;
constexpr std::uint64_t address = 2 * sector + 8;

class CutShort : public StoreTest {
 protected:
  /// A segment of one chunk, which ends with it.
  bool was_cut(const std::vector<std::byte>& chunk, std::uint16_t zero_sectors) const {
    std::filesystem::remove(path());
    const auto file = posix_env().open(path(), {.mode = OpenOptions::Mode::create_new}).value();
    EXPECT_TRUE(write_at(*file, chunk, address).ok());
    return was_cut_short(*file, {address, chunk.size(), address + chunk.size(), zero_sectors});
  }

  /// Whether each part of a write of `chunk` counts as cut, and the chunk with a flipped bit does not. `ends` are
  /// sectors after which the write ended, from 0.
  void expect_judged(const std::vector<std::byte>& chunk, const std::vector<std::uint64_t>& ends) const {
    const auto zero_sectors = zero_sectors_of(address, chunk);
    for (const auto end : ends) {
      auto torn = chunk;
      const auto kept = end == 0 ? 0 : end * sector - address % sector;
      std::fill(torn.begin() + static_cast<std::ptrdiff_t>(kept), torn.end(), std::byte{0});
      EXPECT_TRUE(was_cut(torn, zero_sectors)) << "it ended after " << kept << " bytes";
    }
    for (const auto at : {std::size_t{0}, chunk.size() / 2, chunk.size() - 1}) {
      auto flipped = chunk;
      flipped[at] ^= std::byte{4};
      EXPECT_FALSE(was_cut(flipped, zero_sectors)) << "a bit of byte " << at << " is flipped";
    }
  }

  static std::vector<std::byte> with_zeros(std::size_t bytes, std::size_t zeros) {
    auto chunk = content_of(1, bytes);
    std::fill(chunk.end() - static_cast<std::ptrdiff_t>(zeros), chunk.end(), std::byte{0});
    return chunk;
  }
};

TEST_F(CutShort, WritesThatEndedEarlyDifferFromFlippedBits) {
  expect_judged(with_zeros(100'000, 0), {0, 1, 100, 195});
  expect_judged(with_zeros(100'000, 5'000), {0, 1, 100, 185});
  expect_judged(with_zeros(1'000'000, 500'000), {0, 1, 500, 850});
  expect_judged(with_zeros(300, 0), {0});
}

TEST_F(CutShort, AnEmptyChunkIsNeverCutShort) {
  for (const std::size_t bytes : {300, 100'000, 1'000'000, 40 << 20}) {
    SCOPED_TRACE(bytes);
    expect_judged(std::vector<std::byte>(bytes), {});
  }
}

/// The time that the recorder spends with an empty frame is bounded: not all of it is read.
TEST_F(CutShort, EachOfTheLastSectorsIsReadAndFewOfThoseInFront) {
  constexpr std::size_t bytes = 4 << 20;
  const auto count = [](std::uint64_t nonzero_sector_from_end) {
    std::vector<std::byte> chunk(bytes);
    chunk[bytes - 1 - nonzero_sector_from_end * sector] = std::byte{1};
    return zero_sectors_of(0, chunk);
  };
  for (const std::uint64_t near : {0, 1, 77, 128}) EXPECT_EQ(count(near), near);
  EXPECT_EQ(count(40 * 128), 40 * 128);
  EXPECT_EQ(count(40 * 128 + 1), bytes / sector - 1) << "it is not looked at";
  EXPECT_EQ(zero_sectors_of(0, std::vector<std::byte>(64 << 20)), 65535);
}

}  // namespace
}  // namespace penstock::store::testing
