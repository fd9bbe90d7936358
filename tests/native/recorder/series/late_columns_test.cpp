/// Values under names that the first frame did not bring, on their way into segments.

#include "recorder/series/accounting/late_columns.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "store/format/segment.hpp"
#include "store/recovery/late_values.hpp"

namespace penstock::recorder {
namespace {

using store::format::RowReader;

class LateColumnsTest : public ::testing::Test {
 protected:
  LateColumns make(const std::vector<MetaColumn>& known, bool in_slots) {
    return {known, [](const std::string& name) { return "/entry/metadata/" + name; },
            [this](const std::string& name, const std::string& what) { remarks_[name].push_back(what); }, in_slots};
  }

  /// Of one frame, into rows of its own.
  static std::vector<std::byte> append(LateColumns& late, Metadata metadata, std::uint64_t frame = 1) {
    std::vector<std::byte> rows;
    Row row;
    row.number = frame;
    row.metadata = std::move(metadata);
    {
      store::format::RowAppender appender(rows, frame);
      late.append(row, appender);
    }
    return rows;
  }

  static std::vector<std::string> paths_in(const std::vector<std::byte>& rows) {
    std::vector<std::string> paths;
    RowReader reader(rows);
    while (const auto value = reader.next().value())
      paths.push_back(store::format::decode_late(value->bytes).value().column.path);
    return paths;
  }

  std::map<std::string, std::vector<std::string>> remarks_;
};

TEST_F(LateColumnsTest, AreThoseThatTheFileDoesNotHave) {
  const std::vector<MetaColumn> known = {{"motor", ElementType::f64}};
  auto late = make(known, false);
  EXPECT_TRUE(append(late, {{"motor", 0.5}, {"a/b", 1.0}}).empty());
  EXPECT_FALSE(late.any());
  EXPECT_EQ(paths_in(append(late, {{"motor", 0.5}, {"shutter", 1.0}})),
            std::vector<std::string>{"/entry/metadata/shutter"});
  EXPECT_TRUE(late.any());
  (void)append(late, {{"shutter", 2.0}});
  EXPECT_EQ(remarks_.at("shutter").size(), 1u) << "each name is logged once";
}

TEST_F(LateColumnsTest, HaveTheTypeOfTheirFirstValue) {
  const std::vector<MetaColumn> known;
  auto late = make(known, false);
  (void)append(late, {{"shutter", 1.0}}, 1);
  const auto rows = append(late, {{"shutter", std::string("open")}}, 2);
  RowReader reader(rows);
  const auto value = store::format::decode_late(reader.next().value()->bytes).value();
  EXPECT_EQ(value.column.type, ElementType::f64);
  EXPECT_TRUE(value.unfitting);
  EXPECT_EQ(remarks_.at("shutter").size(), 2u);
}

TEST_F(LateColumnsTest, FitIntoTheirSlotOrAreLeftOutAndNamed) {
  const std::vector<MetaColumn> known = {{"motor", ElementType::f64}};
  auto late = make(known, true);
  Metadata much;
  for (int i = 0; i < 200; ++i) much.emplace_back(fmt::format("value_{}", i), 1.0);
  const auto rows = append(late, much);
  const auto stored = paths_in(rows).size();
  EXPECT_GT(stored, 20u);
  EXPECT_LT(stored, 200u);
  // The slot's header has one page: that of a file whose frames bring little.
  EXPECT_EQ(store::format::header_region_bytes(store::format::record_size_bytes + rows.size()), page_bytes);
  EXPECT_NE(remarks_.at(fmt::format("value_{}", stored)).back().find("a slot has no room"), std::string::npos);
  auto in_log = make(known, false);
  EXPECT_EQ(paths_in(append(in_log, much)).size(), 200u);
}

TEST_F(LateColumnsTest, AreAsManyAsAFileMayHave) {
  const std::vector<MetaColumn> known = {{"motor", ElementType::f64}};
  auto late = make(known, false);
  Metadata much;
  for (std::size_t i = 0; i < store::late_columns_max; ++i) much.emplace_back(fmt::format("v{}", i), 1.0);
  EXPECT_EQ(paths_in(append(late, much)).size(), store::late_columns_max - 1);
  EXPECT_EQ(remarks_.at(much.back().first).size(), 1u);
}

}  // namespace
}  // namespace penstock::recorder
