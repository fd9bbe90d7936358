#include "store/format/segment.hpp"

#include <gtest/gtest.h>

#include <random>

#include "base/crc32c.hpp"
#include "store/format/rows.hpp"

namespace penstock::store::format {
namespace {

FileId counting_id() {
  FileId id;
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = static_cast<std::byte>(i);
  return id;
}

SegmentHeader example_header() {
  SegmentHeader header;
  header.file_id = counting_id();
  header.sequence = 7;
  header.segment_bytes = 12288;
  header.writer = 3;
  header.created_ns = 1'700'000'000'123'456'789;
  header.address = 1 << 20;
  return header;
}

std::vector<ChunkRecord> example_records() {
  return {{41, 1'700'000'000'000'000'001, 4096, 5, 0xE3069283, 0, 0, 0},
          {42, 1'700'000'000'000'000'002, 4104, 4000, 0x01020304, 1, 2, 0}};
}

std::vector<std::byte> example_region() {
  const auto records = example_records();
  std::vector<std::byte> region(header_region_bytes(records.size() * record_size_bytes), std::byte{0xEE});
  encode_chunks(example_header(), records, {}, region);
  return region;
}

std::string hex(Bytes bytes) {
  std::string text;
  for (const auto byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

/// Makes the header's own checksum right again after a change.
void seal_again(std::vector<std::byte>& region) { store_le(region.data() + 124, crc32c(Bytes(region).first(124))); }

// The worked example of docs/reference/format.md.
TEST(Segment, GoldenBytes) {
  const auto region = example_region();
  ASSERT_EQ(region.size(), 4096u);
  EXPECT_EQ(hex(Bytes(region).first(72)),
            "8950454e5345470a"
            "0100"
            "0200"
            "00100000"
            "000102030405060708090a0b0c0d0e0f"
            "0700000000000000"
            "0030000000000000"
            "02000000"
            "03000000"
            "15cd853dfe9c9717"
            "50000000"
            "f4e918e9");
  EXPECT_EQ(hex(Bytes(region).subspan(72, 8)), "0000100000000000");
  EXPECT_EQ(hex(Bytes(region).subspan(124, 4)), "655f7d8e");
  EXPECT_EQ(hex(Bytes(region).subspan(128, 40)),
            "2900000000000000"
            "01002a36fe9c9717"
            "00100000"
            "05000000"
            "839206e3"
            "00000000"
            "0000"
            "0000"
            "00000000");
  for (std::size_t i = 80; i < 124; ++i) EXPECT_EQ(region[i], std::byte{0}) << i;
  for (std::size_t i = 128 + 80; i < region.size(); ++i) ASSERT_EQ(region[i], std::byte{0}) << i;
}

TEST(Segment, RoundTrip) {
  const auto region = example_region();
  ASSERT_TRUE(starts_segment(region));
  const auto header = decode_header(region, 1 << 20);
  ASSERT_TRUE(header.ok()) << header.error().message();
  auto expected = example_header();
  expected.header_bytes = 4096;
  expected.record_count = 2;
  expected.body_bytes = 80;
  expected.body_crc = header->body_crc;
  EXPECT_EQ(*header, expected);
  const auto records = decode_records(*header, region);
  ASSERT_TRUE(records.ok()) << records.error().message();
  EXPECT_EQ(*records, example_records());
}

TEST(Segment, DescriptionRoundTrip) {
  const std::string text = "{\"format\":\"penstock\"}" + std::string(5000, ' ');
  std::vector<std::byte> region(header_region_bytes(text.size()));
  ASSERT_EQ(region.size(), 8192u);
  encode_description(example_header(), text, region);
  const auto header = decode_header(region, 1 << 20);
  ASSERT_TRUE(header.ok()) << header.error().message();
  EXPECT_EQ(header->kind, SegmentKind::description);
  EXPECT_EQ(header->segment_bytes, 8192u);
  const auto back = decode_description(*header, region);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, text);
  EXPECT_EQ(decode_records(*header, region).error().code(), Errc::malformed);
}

TEST(Segment, EveryFlippedBitOfHeaderAndRecordsIsNoticed) {
  const auto good = example_region();
  for (std::size_t bit = 0; bit < (128 + 80) * 8; ++bit) {
    auto region = good;
    region[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const auto header = decode_header(region, 1 << 20);
    if (!header.ok()) continue;
    ASSERT_GE(bit, 128u * 8) << "a changed header was accepted";
    ASSERT_FALSE(decode_records(*header, region).ok()) << "bit " << bit;
  }
}

/// Frame 41 has 258 in column 3 and text in column 7, frame 42 has nothing, frame 43 has 0 in column 3.
std::vector<std::byte> example_rows() {
  std::vector<std::byte> rows;
  const std::uint64_t number = 258, zero = 0;
  const std::string text("abc\0\0", 5);
  {
    RowAppender row(rows, 41);
    row.add(3, std::as_bytes(std::span(&number, 1)));
    row.add(7, std::as_bytes(std::span(text)));
  }
  { const RowAppender row(rows, 42); }
  RowAppender row(rows, 43);
  row.add(3, std::as_bytes(std::span(&zero, 1)));
  return rows;
}

std::vector<std::byte> region_with_rows() {
  const auto records = example_records();
  const auto rows = example_rows();
  std::vector<std::byte> region(header_region_bytes(records.size() * record_size_bytes + rows.size()), std::byte{0xEE});
  encode_chunks(example_header(), records, rows, region);
  return region;
}

// The worked example of docs/reference/format.md.
TEST(SegmentRows, GoldenBytes) {
  const auto region = region_with_rows();
  EXPECT_EQ(hex(Bytes(region).subspan(80, 4)), "29000000");
  EXPECT_EQ(hex(Bytes(region).subspan(208, 41)),
            "2900000000000000"
            "0d000000"
            "0300"
            "0200"
            "0201"
            "0700"
            "0300"
            "616263"
            "2b00000000000000"
            "04000000"
            "0300"
            "0000");
  for (std::size_t i = 208 + 41; i < region.size(); ++i) ASSERT_EQ(region[i], std::byte{0}) << i;
}

TEST(SegmentRows, AreReadAsTheyWereAdded) {
  const auto region = region_with_rows();
  const auto header = decode_header(region, 1 << 20);
  ASSERT_TRUE(header.ok()) << header.error().message();
  EXPECT_EQ(*decode_records(*header, region), example_records());
  const auto rows = decode_rows(*header, region);
  ASSERT_TRUE(rows.ok()) << rows.error().message();
  RowReader reader(*rows);
  std::string read;
  while (const auto value = reader.next().value())
    read += fmt::format("{}/{}: {} ", value->frame, value->column, hex(value->bytes));
  EXPECT_EQ(read, "41/3: 0201 41/7: 616263 43/3:  ");
}

TEST(SegmentRows, EveryFlippedBitIsNoticedAndLeavesTheRecords) {
  const auto good = region_with_rows();
  const auto header = decode_header(good, 1 << 20);
  ASSERT_TRUE(header.ok());
  for (std::size_t bit = 208 * 8; bit < (208 + std::size_t{header->row_bytes}) * 8; ++bit) {
    auto region = good;
    region[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    ASSERT_EQ(decode_rows(*header, region).error().code(), Errc::corrupt) << "bit " << bit;
    ASSERT_TRUE(decode_records(*header, region).ok());
  }
}

TEST(SegmentRows, ThatReachBeyondTheHeaderRegionAreRejected) {
  auto region = region_with_rows();
  store_le(region.data() + 80, std::uint32_t{4096 - 208 + 1});
  seal_again(region);
  const auto header = decode_header(region, 1 << 20);
  ASSERT_FALSE(header.ok());
  EXPECT_NE(header.error().message().find("row_bytes is 3889"), std::string::npos) << header.error().message();
}

TEST(SegmentRows, CutAnywhereAreRejectedOrEndWithAFrame) {
  const auto rows = example_rows();
  for (std::size_t bytes = 0; bytes < rows.size(); ++bytes) {
    RowReader reader(Bytes(rows).first(bytes));
    auto value = reader.next();
    while (value.ok() && *value) value = reader.next();
    EXPECT_EQ(value.ok(), bytes == 0 || bytes == row_head_bytes + 13) << bytes;
  }
}

TEST(Segment, LyingFieldsAreNamed) {
  struct Lie {
    std::size_t offset;
    std::uint64_t value;
    std::size_t bytes;
    const char* field;
  };
  const Lie lies[] = {
      {10, 9, 2, "kind"},
      {12, 100, 4, "header_bytes"},
      {12, 0, 4, "header_bytes"},
      {12, 0xFFFFF000, 4, "header_bytes"},
      {40, 0, 8, "segment_bytes"},
      {40, 12289, 8, "segment_bytes"},
      {40, 0xFFFFFFFFFFFFF000, 8, "segment_bytes"},
      {48, 3, 4, "body_bytes"},
      {48, 0xFFFFFFFF, 4, "body_bytes"},
      {64, 81, 4, "body_bytes"},
      {64, 0xFFFFFFFF, 4, "body_bytes"},
      {72, 4096, 8, "address"},
  };
  for (const auto& lie : lies) {
    auto region = example_region();
    std::memcpy(region.data() + lie.offset, &lie.value, lie.bytes);
    seal_again(region);
    const auto header = decode_header(region, 1 << 20);
    ASSERT_FALSE(header.ok()) << lie.field << " " << lie.value;
    EXPECT_EQ(header.error().code(), Errc::malformed) << header.error().message();
    EXPECT_NE(header.error().message().find(lie.field), std::string::npos) << header.error().message();
  }
}

TEST(Segment, RecordsThatPointOutsideAreRefused) {
  const auto refused = [](std::size_t field, std::uint32_t value) {
    auto region = example_region();
    store_le(region.data() + 128 + field, value);
    store_le(region.data() + 68, crc32c(Bytes(region).subspan(128, 80)));
    seal_again(region);
    const auto header = decode_header(region, 1 << 20);
    return header.ok() && !decode_records(*header, region).ok();
  };
  EXPECT_TRUE(refused(16, 4088));        // inside the header region
  EXPECT_TRUE(refused(16, 4097));        // not aligned
  EXPECT_TRUE(refused(16, 0xFFFFFFF8));  // behind the segment
  EXPECT_TRUE(refused(20, 8193));
  EXPECT_TRUE(refused(20, 0xFFFFFFFF));
}

TEST(Segment, ShortAndForeignBytes) {
  const auto region = example_region();
  EXPECT_EQ(decode_header(Bytes(region).first(127), 0).error().code(), Errc::truncated);
  EXPECT_EQ(decode_header({}, 0).error().code(), Errc::truncated);
  const std::vector<std::byte> zeros(4096);
  EXPECT_FALSE(starts_segment(zeros));
  EXPECT_FALSE(starts_segment(Bytes(region).first(7)));
  EXPECT_EQ(decode_header(zeros, 0).error().code(), Errc::not_found);
  const auto header = decode_header(region, 1 << 20).value();
  EXPECT_EQ(decode_records(header, Bytes(region).first(4095)).error().code(), Errc::truncated);
  auto newer = region;
  newer[8] = std::byte{2};
  EXPECT_EQ(decode_header(newer, 1 << 20).error().code(), Errc::unsupported);
}

TEST(Segment, RandomBytesBehindAValidMagicNeverCrash) {
  const unsigned seed = 20261121;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20000; ++round) {
    auto region = example_region();
    const auto changes = 1 + random() % 8;
    for (std::uint64_t i = 0; i < changes; ++i) region[8 + random() % 200] = static_cast<std::byte>(random());
    store_le(region.data() + 68,
             crc32c(Bytes(region).subspan(
                 128, std::min<std::size_t>(load_le<std::uint32_t>(region.data() + 64), region.size() - 128))));
    seal_again(region);
    const auto header = decode_header(region, load_le<std::uint64_t>(region.data() + 72));
    if (!header.ok()) continue;
    const auto records = decode_records(*header, region);
    if (!records.ok()) continue;
    for (const auto& record : *records)
      ASSERT_LE(std::uint64_t{record.offset} + record.size, header->segment_bytes) << "seed " << seed;
  }
}

TEST(FileIdText, RoundTripAndErrors) {
  EXPECT_EQ(to_hex(counting_id()), "000102030405060708090a0b0c0d0e0f");
  EXPECT_EQ(file_id_of("000102030405060708090a0b0c0d0e0f").value(), counting_id());
  EXPECT_FALSE(file_id_of("00").ok());
  EXPECT_FALSE(file_id_of("000102030405060708090a0b0c0d0e0g").ok());
  EXPECT_NE(make_file_id(), make_file_id());
}

}  // namespace
}  // namespace penstock::store::format
