#include "detector/images/image_file.hpp"

#include <gtest/gtest.h>

#include <initializer_list>

namespace penstock::detector {
namespace {

template <typename T>
std::vector<std::byte> pixels_of(std::initializer_list<T> values) {
  std::vector<std::byte> bytes;
  for (const auto each : values) {
    bytes.resize(bytes.size() + sizeof(T));
    store_le(bytes.data() + bytes.size() - sizeof(T), each);
  }
  return bytes;
}

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const auto each : values) bytes.push_back(static_cast<std::byte>(each));
  return bytes;
}

template <typename T>
std::vector<std::byte> offsets_of(ElementType type, std::initializer_list<T> values) {
  std::vector<std::byte> packed;
  append_byte_offsets(type, pixels_of<T>(values), packed);
  return packed;
}

TEST(ByteOffsets, TakeTheLeastWidthThatHoldsTheDifference) {
  EXPECT_EQ(offsets_of<std::int32_t>(ElementType::i32, {0, 127, 0, -127}), bytes_of({0, 0x7F, 0x81, 0x81}));
  // One more on either side escapes to two bytes: -128 is the escape itself.
  EXPECT_EQ(offsets_of<std::int32_t>(ElementType::i32, {128}), bytes_of({0x80, 0x80, 0x00}));
  EXPECT_EQ(offsets_of<std::int32_t>(ElementType::i32, {-128}), bytes_of({0x80, 0x80, 0xFF}));
  EXPECT_EQ(offsets_of<std::int32_t>(ElementType::i32, {32767}), bytes_of({0x80, 0xFF, 0x7F}));
  EXPECT_EQ(offsets_of<std::int32_t>(ElementType::i32, {32768}), bytes_of({0x80, 0x00, 0x80, 0x00, 0x80, 0x00, 0x00}));
  EXPECT_EQ(offsets_of<std::int32_t>(ElementType::i32, {-32768}), bytes_of({0x80, 0x00, 0x80, 0x00, 0x80, 0xFF, 0xFF}));
}

TEST(ByteOffsets, HoldDifferencesBeyond32Bits) {
  // Signed 32-bit differences wrap: from the least number but one to the largest it is two down.
  EXPECT_EQ(offsets_of<std::int32_t>(ElementType::i32, {-0x7FFFFFFF, 0x7FFFFFFF}),
            bytes_of({0x80, 0x00, 0x80, 0x01, 0x00, 0x00, 0x80, 0xFE}));
  EXPECT_EQ(offsets_of<std::uint32_t>(ElementType::u32, {0xFFFFFFFF}),
            bytes_of({0x80, 0x00, 0x80, 0x00, 0x00, 0x00, 0x80, 0xFF, 0xFF, 0xFF, 0xFF, 0x00, 0x00, 0x00, 0x00}));
}

TEST(ByteOffsets, KnowUnsignedTypes) {
  EXPECT_EQ(offsets_of<std::uint16_t>(ElementType::u16, {65535, 0}),
            bytes_of({0x80, 0x00, 0x80, 0xFF, 0xFF, 0x00, 0x00, 0x80, 0x00, 0x80, 0x01, 0x00, 0xFF, 0xFF}));
  EXPECT_EQ(offsets_of<std::uint8_t>(ElementType::u8, {255, 254}), bytes_of({0x80, 0xFF, 0x00, 0xFF}));
}

struct Example {
  Series series;
  Frame frame;
  std::vector<std::byte> pixels = pixels_of<std::int32_t>({1, 2, -1, 4, 5, 300});
  Example() {
    series.arm_date = "2026-01-02T03:04:05.000000+00:00";
    series.detector_description = "PILATUS test\r\nsecond line";
    series.detector_serial_number = "7";
    series.pixel_size_x_m = series.pixel_size_y_m = 172e-6;
    series.sensor_material = "Si";
    series.sensor_thickness_m = 320e-6;
    series.saturation_value = 1048575;
    series.beam_center_x = 1.5;
    series.beam_center_y = 1;
    frame.number = FrameNumber{3};
    frame.spec = {ElementType::i32, {2, 3}};
    frame.payload = pixels;
  }
};

TEST(Cbf, IsByteExact) {
  const Example example;
  std::vector<std::byte> file;
  ASSERT_TRUE(encode_cbf(example.series, example.frame, "run_000003", file).ok());
  std::string expected =
      "###CBF: VERSION 1.5, written by Penstock\r\n"
      "data_run_000003\r\n\r\n"
      "_array_data.header_convention \"PILATUS_1.2\"\r\n"
      "_array_data.header_contents\r\n;\r\n"
      "# Detector: PILATUS test  second line, S/N 7\r\n"
      "# 2026-01-02T03:04:05.000000+00:00\r\n"
      "# Pixel_size 0.000172 m x 0.000172 m\r\n"
      "# Silicon sensor, thickness 0.000320 m\r\n"
      "# Count_cutoff 1048575 counts\r\n"
      "# Beam_xy (1.50, 1.00) pixels\r\n"
      ";\r\n\r\n_array_data.data\r\n;\r\n"
      "--CIF-BINARY-FORMAT-SECTION--\r\n"
      "Content-Type: application/octet-stream;\r\n"
      "     conversions=\"x-CBF_BYTE_OFFSET\"\r\n"
      "Content-Transfer-Encoding: BINARY\r\n"
      "X-Binary-Size: 8\r\n"
      "X-Binary-ID: 1\r\n"
      "X-Binary-Element-Type: \"signed 32-bit integer\"\r\n"
      "X-Binary-Element-Byte-Order: LITTLE_ENDIAN\r\n"
      "X-Binary-Number-of-Elements: 6\r\n"
      "X-Binary-Size-Fastest-Dimension: 3\r\n"
      "X-Binary-Size-Second-Dimension: 2\r\n"
      "X-Binary-Size-Padding: 4095\r\n\r\n"
      "\x0C\x1A\x04\xD5\x01\x01\xFD\x05\x01\x80\x27\x01";
  expected += std::string(4095, '\0') + "\r\n--CIF-BINARY-FORMAT-SECTION----\r\n;\r\n\r\n";
  EXPECT_EQ(as_text(file), expected);
}

TEST(Cbf, RefusesFloats) {
  Example example;
  example.frame.spec.type = ElementType::f32;
  std::vector<std::byte> file;
  EXPECT_EQ(encode_cbf(example.series, example.frame, "x", file).error().code(), Errc::unsupported);
}

TEST(Tiff, HoldsThePixelsAsTheyAre) {
  const Example example;
  std::vector<std::byte> file(10, std::byte{7});  // rubbish from before goes
  ASSERT_TRUE(encode_tiff(example.series, example.frame, file).ok());
  EXPECT_EQ(as_text(Bytes(file).first(4)), std::string_view("II*\0", 4));
  EXPECT_NE(as_text(file).find(as_text(example.pixels)), std::string_view::npos);
  std::vector<std::byte> again;
  ASSERT_TRUE(encode_tiff(example.series, example.frame, again).ok());
  EXPECT_EQ(file, again);
}

}  // namespace
}  // namespace penstock::detector
