#include "recorder/series/accounting/rows.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <map>

namespace penstock::recorder {
namespace {

/// Keeps what was put, and how often.
class Columns final : public store::RowWriter {
 public:
  Result<void> put(store::ColumnId column, store::RowRun rows, Bytes data) override {
    ++calls;
    const auto id = static_cast<std::uint16_t>(column);
    const std::size_t width = id == static_cast<std::uint16_t>(Column::state) ? 1 : 8;
    for (std::size_t i = 0; i < data.size() / width; ++i) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, data.data() + i * width, width);
      values[{id, rows.first + i * rows.stride}] = bits;
    }
    return {};
  }
  std::map<std::pair<std::uint16_t, std::uint64_t>, std::uint64_t> values;
  int calls = 0;
};

std::uint64_t at(const Columns& columns, Column column, std::uint64_t row) {
  return columns.values.at({static_cast<std::uint16_t>(column), row});
}

/// State, received, encoded, written: what is told of every frame.
constexpr int progress_columns = 4;

TEST(RowBatch, WritesNeighboursTogetherWhateverTheirOrder) {
  RowBatch batch({});
  for (std::uint64_t n : {3, 1, 0, 2, 9}) batch.add({.number = n, .received_ns = static_cast<std::int64_t>(100 + n)});
  Columns columns;
  ASSERT_TRUE(batch.write(columns).ok());
  EXPECT_EQ(columns.calls, 2 * progress_columns) << "one call a column and run";
  for (std::uint64_t n : {0, 1, 2, 3, 9}) EXPECT_EQ(at(columns, Column::received, n), 100 + n);
  EXPECT_EQ(columns.values.count({static_cast<std::uint16_t>(Column::received), 5}), 0u);
  EXPECT_EQ(batch.size(), 0u);
}

TEST(RowBatch, WritesTheRowsOfARankThatGetsEveryThirdFrameTogether) {
  RowBatch batch({});
  for (std::uint64_t n : {7, 1, 4, 10, 11, 12, 20})
    batch.add({.number = n, .received_ns = static_cast<std::int64_t>(n)});
  Columns columns;
  ASSERT_TRUE(batch.write(columns).ok());
  EXPECT_EQ(columns.calls, 3 * progress_columns) << "1 4 7 10, 11 12, 20";
  for (std::uint64_t n : {1, 4, 7, 10, 11, 12, 20}) EXPECT_EQ(at(columns, Column::received, n), n);
  EXPECT_EQ(columns.values.size(), 7u * progress_columns);
}

TEST(WriteStates, EverySecondFrameIsOneCall) {
  Columns columns;
  std::vector<FrameNumber> frames;
  for (std::uint64_t n : {8, 2, 4, 4, 6, 9}) frames.push_back(FrameNumber{n});
  ASSERT_TRUE(write_states(frames, FrameState::received, columns).ok());
  EXPECT_EQ(columns.calls, 2);
  for (std::uint64_t n : {2, 4, 6, 8, 9})
    EXPECT_EQ(at(columns, Column::state, n), static_cast<std::uint64_t>(FrameState::received));
  EXPECT_EQ(columns.values.size(), 5u);
}

TEST(RowBatch, APartThatTellsNothingLeavesWhatAnotherTold) {
  const std::vector<MetaColumn> metadata{{"t", ElementType::f64, 0}};
  for (const bool together : {true, false}) {
    RowBatch batch(metadata);
    Columns columns;
    batch.add({.number = 4, .exposure_start_ns = 7, .written_ns = 1, .whole = false, .metadata = {{"t", 1.5}}});
    if (!together) {
      ASSERT_TRUE(batch.write(columns).ok());
    }
    batch.add({.number = 4, .part = 1, .written_ns = 2});
    ASSERT_TRUE(batch.write(columns).ok());
    EXPECT_EQ(at(columns, Column::exposure_start, 4), 7u);
    EXPECT_EQ(at(columns, Column::written, 4), 2u);
    EXPECT_EQ(at(columns, Column::state, 4), static_cast<std::uint64_t>(FrameState::received));
    EXPECT_EQ(at(columns, Column{fixed_columns}, 4), std::bit_cast<std::uint64_t>(1.5));
  }
}

TEST(RowBatch, TheLastOfSeveralRowsForAFrameStands) {
  RowBatch batch({});
  batch.add({.number = 4, .part = 0, .written_ns = 1});
  batch.add({.number = 4, .part = 1, .written_ns = 2});
  Columns columns;
  ASSERT_TRUE(batch.write(columns).ok());
  EXPECT_EQ(at(columns, Column::written, 4), 2u);
}

TEST(RowBatch, MetadataGoesIntoItsColumnsInAnyOrderAndWithGaps) {
  RowBatch batch({{"omega", ElementType::f64}, {"pulse", ElementType::i64}});
  batch.add({.number = 0, .metadata = {{"omega", 1.5}, {"pulse", std::int64_t{7}}}});
  batch.add({.number = 1, .metadata = {{"pulse", std::uint64_t{8}}, {"omega", std::int64_t{2}}}});
  batch.add({.number = 2, .metadata = {{"pulse", std::string("x")}}});
  Columns columns;
  ASSERT_TRUE(batch.write(columns).ok());
  const auto omega = [&](std::uint64_t row) {
    return std::bit_cast<double>(columns.values.at({static_cast<std::uint16_t>(fixed_columns), row}));
  };
  EXPECT_EQ(omega(0), 1.5);
  EXPECT_EQ(omega(1), 2.0);
  EXPECT_FALSE(columns.values.contains({static_cast<std::uint16_t>(fixed_columns), 2})) << "it keeps the fill value";
  EXPECT_EQ(columns.values.at({static_cast<std::uint16_t>(fixed_columns + 1), 1}), 8u);
}

TEST(RowBatch, NumbersThatDoNotFitTheirColumnAreNotTold) {
  RowBatch batch({{"pulse", ElementType::i64}, {"count", ElementType::u64}});
  auto add = [&, number = std::uint64_t{0}](const MetaValue& value) mutable {
    batch.add({.number = number++, .metadata = {{"pulse", value}, {"count", value}}});
  };
  add(1e300);
  add(-1e300);
  add(std::numeric_limits<double>::quiet_NaN());
  add(0x1p63);
  add(std::numeric_limits<std::uint64_t>::max());
  add(std::int64_t{-5});
  add(41.9);
  Columns columns;
  ASSERT_TRUE(batch.write(columns).ok());
  const auto column = [&](std::uint16_t position) {
    std::vector<std::uint64_t> values;
    for (std::uint64_t row = 0; row < 7; ++row)
      values.push_back(columns.values.at({static_cast<std::uint16_t>(fixed_columns + position), row}));
    return values;
  };
  EXPECT_EQ(column(0), (std::vector<std::uint64_t>{0, 0, 0, 0, 0, static_cast<std::uint64_t>(-5), 0}));
  EXPECT_EQ(column(1), (std::vector<std::uint64_t>{0, 0, 0, std::uint64_t{1} << 63,
                                                   std::numeric_limits<std::uint64_t>::max(), 0, 0}));
  EXPECT_EQ(batch.unfitting(), (std::vector<std::uint64_t>{6, 5})) << "a count for each column";
}

TEST(RowBatch, WhatIsNotStoredIsRemarkedOnceForEachName) {
  std::vector<std::string> remarked;
  RowBatch batch({{"omega", ElementType::f64}, {"pulse", ElementType::i64}}, RowBatch::States::written,
                 [&](const std::string& name, const char*) { remarked.push_back(name); });
  batch.add({.number = 0, .metadata = {{"omega", 1.5}, {"pulse", std::int64_t{7}}}});
  Columns columns;
  ASSERT_TRUE(batch.write(columns).ok());
  EXPECT_TRUE(remarked.empty());
  for (std::uint64_t n : {1, 2}) batch.add({.number = n, .metadata = {{"a/b", 1.0}, {"pulse", 0.5}}});
  ASSERT_TRUE(batch.write(columns).ok());
  batch.add({.number = 3, .metadata = {{"pulse", 0.5}, {"a/b", 1.0}}});
  ASSERT_TRUE(batch.write(columns).ok());
  EXPECT_EQ(remarked, (std::vector<std::string>{"a/b", "pulse"}));
}

TEST(RowSlots, GivesBackWhatWasPutAndReusesPlaces) {
  RowSlots slots;
  const auto a = slots.put({.number = 1}), b = slots.put({.number = 2});
  EXPECT_EQ(slots.settle(a, WriteOutcome::placed)->row.number, 1u);
  EXPECT_EQ(slots.put({.number = 3}), a);
  EXPECT_EQ(slots.settle(b, WriteOutcome::placed)->row.number, 2u);
}

TEST(RowSlots, AFrameSettlesWithItsLastChunkAtThatOnesTimes) {
  RowSlots slots;
  const auto a = slots.put({.number = 1}, 3);
  EXPECT_FALSE(slots.settle(a, WriteOutcome::placed, 1, 10, 200));
  EXPECT_FALSE(slots.settle(a, WriteOutcome::already_there, 1, 30, 100));
  const auto settled = slots.settle(a, WriteOutcome::placed, 1, 20, 150);
  ASSERT_TRUE(settled);
  EXPECT_EQ(settled->outcome, WriteOutcome::placed);
  EXPECT_EQ(settled->row.encoded_ns, 30);
  EXPECT_EQ(settled->row.written_ns, 200);
}

TEST(RowSlots, OneLostChunkLosesTheFrameAndOnlyOldOnesMakeItADuplicate) {
  RowSlots slots;
  const auto a = slots.put({.number = 1}, 4);
  EXPECT_FALSE(slots.settle(a, WriteOutcome::lost, 2));
  EXPECT_FALSE(slots.settle(a, WriteOutcome::placed));
  EXPECT_EQ(slots.settle(a, WriteOutcome::placed)->outcome, WriteOutcome::lost);
  const auto b = slots.put({.number = 2}, 2);
  EXPECT_FALSE(slots.settle(b, WriteOutcome::already_there));
  EXPECT_EQ(slots.settle(b, WriteOutcome::already_there)->outcome, WriteOutcome::already_there);
}

TEST(PartialFrames, AFrameIsThereWithItsLastChunkWhoeverBringsIt) {
  PartialFrames partial(2);
  EXPECT_FALSE(partial.add(FrameNumber{7}, 0, 1));
  EXPECT_FALSE(partial.add(FrameNumber{7}, 0, 1)) << "the same again";
  EXPECT_FALSE(partial.add(FrameNumber{7}, 1, 0)) << "another channel";
  EXPECT_TRUE(partial.add(FrameNumber{7}, 0, 0));
  EXPECT_TRUE(PartialFrames(1).add(FrameNumber{7}, 0, 0));
}

}  // namespace
}  // namespace penstock::recorder
