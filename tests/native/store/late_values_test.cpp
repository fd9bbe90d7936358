/// Values of columns that the description does not have: how a segment tells of them, and how they get into a file.

#include "store/recovery/late_values.hpp"

#include <gtest/gtest.h>

#include <map>

#include "store/format/rows.hpp"
#include "store_fixture.hpp"

namespace penstock::store {
namespace {

using format::LateValue;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> encoded(const ColumnNode& column, Bytes value) {
  std::vector<std::byte> rows;
  format::RowAppender(rows, 7).add_late({column, true, value});
  return {rows.begin() + format::row_head_bytes + format::value_head_bytes, rows.end()};
}

TEST(LateValue, SaysWhichColumnItBelongsTo) {
  const auto column = format::make_late_column("/entry/metadata/größe", ElementType::f32, 0, {2, 3});
  ASSERT_TRUE(format::can_be_late(column));
  std::vector<std::byte> value(column.row_bytes());
  value[5] = std::byte{9};
  const auto bytes = encoded(column, value);
  EXPECT_LE(bytes.size() + format::value_head_bytes, format::late_bytes_max(column));
  const auto decoded = format::decode_late(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message();
  EXPECT_EQ(decoded->column.path, column.path);
  EXPECT_EQ(decoded->column.type, ElementType::f32);
  EXPECT_EQ(decoded->column.shape, column.shape);
  EXPECT_EQ(decoded->column.fill, column.fill);
  EXPECT_TRUE(decoded->unfitting);
  EXPECT_EQ(decoded->bytes.size(), 6u) << "without zeros at its end";
}

TEST(LateValue, ThatIsCutOrImpossibleIsMalformed) {
  const auto whole = encoded(format::make_late_column("/a/b", ElementType::u8, 64, {}), bytes_of("x"));
  ASSERT_TRUE(format::decode_late(whole).ok());
  const auto head_bytes = whole.size() - 1;
  for (std::size_t size = 0; size < head_bytes; ++size)
    EXPECT_FALSE(format::decode_late(Bytes(whole).first(size)).ok()) << size;
  const auto with = [&](std::size_t at, std::uint8_t byte) {
    auto changed = whole;
    changed[at] = std::byte{byte};
    return format::decode_late(changed).ok();
  };
  EXPECT_FALSE(with(0, 255)) << "a longer path";
  EXPECT_FALSE(with(2, 200)) << "a longer type";
  EXPECT_FALSE(with(3, 9)) << "more dimensions";
  EXPECT_FALSE(with(8, 'X')) << "an unknown type";
  EXPECT_FALSE(with(11, 'a')) << "a path that is not absolute";
  EXPECT_FALSE(with(12, 0)) << "a control character";
}

TEST(LateValue, HasABoundedPathAndWidth) {
  const auto can_be = [](std::string path, std::size_t text_bytes, std::vector<std::uint64_t> shape) {
    return format::can_be_late(
        format::make_late_column(std::move(path), ElementType::f64, text_bytes, std::move(shape)));
  };
  EXPECT_TRUE(can_be("/" + std::string(1023, 'x'), 0, {512}));
  EXPECT_FALSE(can_be("/" + std::string(1024, 'x'), 0, {}));
  EXPECT_FALSE(can_be("/x", 0, {1 << 20}));
  EXPECT_FALSE(can_be("/x", 0, {0}));
  EXPECT_FALSE(can_be("/x", 1 << 20, {}));
  EXPECT_FALSE(can_be("/", 0, {}));
  EXPECT_FALSE(can_be("/x//y", 0, {}));
}

/// Keeps what comes, and refuses columns whose path begins with /no.
class Columns final : public LateColumnSink {
 public:
  Result<bool> prepare(const ColumnNode& column) override {
    ++prepared;
    return !column.path.starts_with("/no");
  }
  Result<void> put(const ColumnNode& column, std::uint64_t first, Bytes rows) override {
    const auto width = column.row_bytes();
    for (std::size_t at = 0; at < rows.size(); at += width) {
      const std::string text(as_text(rows.subspan(at, width)));
      values[column.path][first + at / width] = text.substr(0, text.find('\0'));
    }
    return {};
  }
  Result<void> mark(const ColumnNode& column, const Attribute& attribute) override {
    marks[column.path] = load_le<std::uint64_t>(std::get<ArrayValue>(attribute.value).data.data());
    return {};
  }

  std::size_t prepared = 0;
  std::map<std::string, std::map<std::uint64_t, std::string>> values;
  std::map<std::string, std::uint64_t> marks;
};

class LateValues : public testing::StoreTest {
 protected:
  void put(std::uint64_t frame, const ColumnNode& column, std::string_view text) {
    format::RowAppender(rows_, frame).add_late({column, false, bytes_of(text)});
  }

  /// All of `rows_` in one segment, for the frames below `frames`.
  Columns copy(std::uint64_t frames) {
    Columns columns;
    copy(frames, columns);
    return columns;
  }

  void copy(std::uint64_t frames, LateColumnSink& columns) {
    {
      const auto file = posix_env().open(path(), {.mode = OpenOptions::Mode::create_new}).value();
      std::vector<std::byte> region(format::header_region_bytes(rows_.size()));
      format::SegmentHeader header;
      header.sequence = 1;
      header.segment_bytes = region.size();
      format::encode_chunks(header, {}, rows_, region);
      if (damaged_segments_ > 0) region[format::header_size_bytes] ^= std::byte{1};
      EXPECT_TRUE(write_at(*file, region, 0).ok());
    }
    const auto file = posix_env().open(path(), {}).value();
    std::vector<LateSource> sources;
    sources.push_back({path(), [&] { return posix_env().open(path(), {}); }, find_values(*file, {}).value()});
    const auto copied = copy_late_values(
        sources, [&](std::uint64_t frame) { return frame < frames; },
        [&](const std::string& path, const std::string& why) { problems_[path] = why; }, columns);
    EXPECT_EQ(copied.value(), damaged_segments_);
  }

  static ColumnNode text(std::string path, std::size_t width) {
    return format::make_late_column(std::move(path), ElementType::u8, width, {});
  }

  std::vector<std::byte> rows_;
  std::map<std::string, std::string> problems_;
  std::uint64_t damaged_segments_ = 0;
};

TEST_F(LateValues, OfFramesThatAreThereAreCopiedAndTheLaterOneCounts) {
  put(0, text("/a", 16), "zero");
  put(2, text("/a", 16), "two");
  put(0, text("/a", 16), "again");
  put(9, text("/a", 16), "of no frame");
  put(1, text("/no", 16), "refused");
  const auto columns = copy(9);
  EXPECT_EQ(columns.values, (decltype(columns.values){{"/a", {{0, "again"}, {2, "two"}}}}));
  EXPECT_EQ(problems_.size(), 1u);
  EXPECT_TRUE(problems_.contains("/no"));
}

TEST_F(LateValues, OfADamagedSegmentAreLeftOutAndItIsCounted) {
  put(0, text("/a", 16), "zero");
  damaged_segments_ = 1;
  EXPECT_TRUE(copy(9).values.empty());
}

TEST_F(LateValues, OfAnotherDefinitionAreCutOrLeftOutAndCounted) {
  put(0, text("/a", 16), "first");
  put(1, text("/a", 64), "as long as sixteen bytes and more");
  put(2, text("/a", 64), "fits");
  put(3, format::make_late_column("/a", ElementType::f64, 0, {}), "number");
  const auto columns = copy(9);
  EXPECT_EQ(columns.values.at("/a"),
            (std::map<std::uint64_t, std::string>{{0, "first"}, {1, "as long as sixte"}, {2, "fits"}, {3, ""}}));
  EXPECT_EQ(columns.marks.at("/a"), 2u);
}

/// Knows how many values of the column /a have come, which are in memory until those of /b for the same frames come.
class Held final : public LateColumnSink {
 public:
  Result<bool> prepare(const ColumnNode&) override { return true; }
  Result<void> put(const ColumnNode& column, std::uint64_t first, Bytes rows) override {
    auto& end = ends[column.path];
    EXPECT_EQ(first, end);
    end = first + rows.size() / column.row_bytes();
    if (column.path == "/a") held_max = std::max(held_max, end - ends["/b"]);
    return {};
  }
  Result<void> mark(const ColumnNode&, const Attribute&) override { return {}; }

  std::map<std::string, std::uint64_t> ends;  ///< one past the last frame
  std::uint64_t held_max = 0;
};

/// Decision 59: memory does not grow with the number of frames, nor with those of one segment.
TEST_F(LateValues, OfOneSegmentAreNotHeldAtOnce) {
  constexpr std::uint64_t frames = 900, text_bytes = 16'000, held_bytes_max = 16 << 20;
  const auto a = text("/a", text_bytes), b = text("/b", text_bytes);
  const std::string value(text_bytes, 'x');
  for (std::uint64_t frame = 0; frame < frames; ++frame) {
    put(frame, a, value);
    put(frame, b, value);
  }
  Held columns;
  copy(frames, columns);
  EXPECT_EQ(columns.ends, (std::map<std::string, std::uint64_t>{{"/a", frames}, {"/b", frames}}));
  EXPECT_LE(2 * text_bytes * (columns.held_max - 1), held_bytes_max);
}

TEST_F(LateValues, OfMoreColumnsThanAFileMayHaveAreLeftOut) {
  for (std::size_t i = 0; i <= late_columns_max; ++i) put(0, text(fmt::format("/{}", i), 16), "x");
  const auto columns = copy(9);
  EXPECT_EQ(columns.prepared, late_columns_max);
  EXPECT_EQ(columns.values.size(), late_columns_max);
  EXPECT_EQ(problems_.size(), 1u);
}

}  // namespace
}  // namespace penstock::store
