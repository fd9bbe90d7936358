#include "stream/messages/message.hpp"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <random>
#include <span>

#include "samples.hpp"
#include "vectors.hpp"

namespace penstock::stream::test {
namespace {

const MessageLimits limits;

/// A parsed vector with the bytes that it points into.
template <typename T>
struct Parsed {
  std::vector<std::byte> bytes;
  T message;
};

template <typename T>
Parsed<T> parse_vector(const std::string& name) {
  auto bytes = read_vector(name);
  auto parsed = parse_message(bytes, limits);
  EXPECT_TRUE(parsed.ok()) << name << ": " << parsed.error().message();
  auto message = std::get<T>(std::move(*parsed));
  return {std::move(bytes), std::move(message)};
}

struct TypedVector {
  std::string name;
  ElementType type;
  WireForm form = {};
};

constexpr WireForm big_endian{true, false, false};

class TypedArrays : public testing::TestWithParam<TypedVector> {};

TEST_P(TypedArrays, AreUnderstood) {
  const auto [bytes, image] = parse_vector<ImageMessage>("image_" + GetParam().name);
  EXPECT_EQ(image.series_id, 7u);
  EXPECT_EQ(image.series_unique_id, "01ABC");
  EXPECT_EQ(image.image_id, 5u);
  EXPECT_EQ(image.start_ns, -1);
  ASSERT_EQ(image.channels.size(), 1u);
  const auto& channel = image.channels[0];
  EXPECT_EQ(channel.channel, "threshold_1");
  EXPECT_EQ(channel.spec, (ArraySpec{GetParam().type, {3, 4}}));
  EXPECT_EQ(channel.encoding, Encoding::none);
  EXPECT_EQ(channel.form, GetParam().form);
  ASSERT_EQ(channel.payload.size(), channel.form.sent_bytes(12 * size_of(GetParam().type)));
  std::vector<std::byte> pixels(12 * size_of(GetParam().type));
  straighten(channel.form, channel.spec, channel.payload, pixels);
  // The last element is 11 in each format.
  const auto* last = pixels.data() + 11 * size_of(GetParam().type);
  if (GetParam().type == ElementType::f32)
    EXPECT_EQ(std::bit_cast<float>(load_le<std::uint32_t>(last)), 11.0F);
  else if (GetParam().type == ElementType::f64)
    EXPECT_EQ(std::bit_cast<double>(load_le<std::uint64_t>(last)), 11.0);
  else
    EXPECT_EQ(std::to_integer<int>(*last), 11);
}

INSTANTIATE_TEST_SUITE_P(All, TypedArrays,
                         testing::Values(TypedVector{"u8", ElementType::u8}, TypedVector{"clamped_u8", ElementType::u8},
                                         TypedVector{"u16", ElementType::u16}, TypedVector{"u32", ElementType::u32},
                                         TypedVector{"u64", ElementType::u64}, TypedVector{"i8", ElementType::i8},
                                         TypedVector{"i16", ElementType::i16}, TypedVector{"i32", ElementType::i32},
                                         TypedVector{"i64", ElementType::i64}, TypedVector{"f32", ElementType::f32},
                                         TypedVector{"f64", ElementType::f64},
                                         TypedVector{"u16_big", ElementType::u16, big_endian},
                                         TypedVector{"u32_big", ElementType::u32, big_endian},
                                         TypedVector{"u64_big", ElementType::u64, big_endian},
                                         TypedVector{"i16_big", ElementType::i16, big_endian},
                                         TypedVector{"i32_big", ElementType::i32, big_endian},
                                         TypedVector{"i64_big", ElementType::i64, big_endian},
                                         TypedVector{"f32_big", ElementType::f32, big_endian},
                                         TypedVector{"f64_big", ElementType::f64, big_endian},
                                         TypedVector{"f16", ElementType::f32, {false, false, true}},
                                         TypedVector{"f16_big", ElementType::f32, {true, false, true}}),
                         [](const auto& each) { return each.param.name; });

TEST(Message, ColumnsFirstBecomesRowsFirst) {
  const auto [bytes, image] = parse_vector<ImageMessage>("image_column_major");
  const auto& channel = image.channels[0];
  EXPECT_EQ(channel.form, (WireForm{false, true, false}));
  std::vector<std::byte> pixels(24);
  straighten(channel.form, channel.spec, channel.payload, pixels);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(load_le<std::uint16_t>(&pixels[2 * i]), i);
}

TEST(Message, ArraysOfAStartMessageKeepTheirFormUntilTheyAreExpanded) {
  const auto [bytes, series] = parse_vector<Series>("start_arrays");
  EXPECT_EQ(series.pixel_mask.at(0).form, big_endian);
  EXPECT_EQ(series.flatfield.at(0).form, (WireForm{false, true, true}));
  EXPECT_EQ(series.flatfield.at(0).spec, (ArraySpec{ElementType::f32, {3, 4}}));
  EXPECT_EQ(series.countrate_correction_table->form, big_endian);
  EXPECT_EQ(series.unknown.size(), 2u);
  // Ranks pass a start message on: everything is there again.
  const auto again = parse_message(encode_start(series), limits);
  ASSERT_TRUE(again.ok()) << again.error().message();
  const auto& passed = std::get<Series>(*again);
  EXPECT_EQ(passed.pixel_mask.at(0).form, big_endian);
  EXPECT_EQ(passed.pixel_mask.at(0).data, series.pixel_mask.at(0).data);
  EXPECT_EQ(passed.flatfield.at(0).form, series.flatfield.at(0).form);
  EXPECT_EQ(passed.unknown, series.unknown);
  EXPECT_EQ(passed.user_data_cbor, series.user_data_cbor);
}

TEST(Message, CompressedPixelsStayAsTheyAre) {
  for (const auto& [name, encoding] :
       {std::pair("bslz4", Encoding::bitshuffle_lz4), std::pair("bszstd", Encoding::bitshuffle_zstd),
        std::pair("lz4", Encoding::lz4)}) {
    const auto [bytes, image] = parse_vector<ImageMessage>(std::string("image_") + name);
    EXPECT_EQ(image.channels[0].encoding, encoding);
    EXPECT_EQ(image.channels[0].payload.size(), 24u);
    EXPECT_TRUE(as_text(image.channels[0].payload).ends_with("0123456789ab"));
    EXPECT_EQ(image.channels[0].spec, (ArraySpec{ElementType::u16, {3, 4}}));
  }
}

TEST(Message, AnImageMayHaveSeveralChannels) {
  const auto [bytes, image] = parse_vector<ImageMessage>("image_two_channels");
  ASSERT_EQ(image.channels.size(), 2u);
  EXPECT_EQ(image.channels[0].channel, "threshold_1");
  EXPECT_EQ(image.channels[1].channel, "threshold_2");
}

TEST(Message, TimesAreExactOrRoundedToTheNearest) {
  const auto [bytes, image] = parse_vector<ImageMessage>("image_times");
  EXPECT_EQ(image.real_ns, 9'900'000);
  EXPECT_EQ(image.start_ns, 333'333'333);
  EXPECT_EQ(image.stop_ns, 536'870'912'000'000'000);
  EXPECT_EQ(image.series_date, "2026-11-20T10:00:00Z");
}

TEST(Message, UserDataBecomesMetadata) {
  const auto [bytes, image] = parse_vector<ImageMessage>("image_metadata");
  using Entry = std::pair<std::string, MetaValue>;
  const std::vector<Entry> expected{{"i", std::int64_t{-3}},
                                    {"u", std::numeric_limits<std::uint64_t>::max()},
                                    {"f", 1.5},
                                    {"t", std::string("text")},
                                    {"b", std::int64_t{1}},
                                    {"l", std::string("[1,2]")},
                                    {"gain", std::int64_t{4}}};
  EXPECT_EQ(image.metadata, expected);
  const auto [text_bytes, text] = parse_vector<ImageMessage>("image_user_data_text");
  EXPECT_EQ(text.metadata, (std::vector<Entry>{{"user_data", std::string("just text")}}));
}

TEST(Message, SmallArraysOfAFrameStayArrays) {
  const auto [bytes, image] = parse_vector<ImageMessage>("image_metadata_arrays");
  ASSERT_EQ(image.metadata.size(), 9u);
  const auto array = [&metadata = image.metadata](std::size_t i) {
    return std::get_if<MetaArray>(&metadata[i].second);
  };
  ASSERT_NE(array(0), nullptr);
  EXPECT_EQ(array(0)->spec, (ArraySpec{ElementType::f64, {3}}));
  ASSERT_NE(array(1), nullptr);
  EXPECT_EQ(array(1)->spec, (ArraySpec{ElementType::u16, {3, 1}}));
  EXPECT_EQ(array(1)->form, big_endian);
  ASSERT_NE(array(2), nullptr);
  EXPECT_EQ(array(2)->encoding, Encoding::bitshuffle_lz4);
  EXPECT_EQ(array(2)->spec, (ArraySpec{ElementType::u16, {3}}));
  EXPECT_EQ(array(3), nullptr) << "larger than 4 KiB";
  EXPECT_EQ(image.metadata[4].second, MetaValue(std::string(R"([[2,2],"AAEAAgAD"])"))) << "no array, but kept";
  EXPECT_NE(array(7), nullptr);
  EXPECT_EQ(array(8), nullptr) << "16 KiB are there already";
  const auto again = parse_message(encode_image(image), limits);
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(std::get<ImageMessage>(*again).metadata, image.metadata);
}

TEST(Message, UnknownFieldsOfAnImageAreKeptAsJson) {
  const auto [bytes, image] = parse_vector<ImageMessage>("image_unknown_fields");
  ASSERT_EQ(image.metadata.size(), 2u);
  EXPECT_EQ(image.metadata[0].second, MetaValue(std::string(R"({"a":[1,2,{"b":1.5}]})")));
  EXPECT_EQ(image.metadata[1].second, MetaValue(std::string(R"("AP8")")));
}

TEST(Message, AStartMessageNeedsLittle) {
  const auto [bytes, series] = parse_vector<Series>("start_least");
  EXPECT_EQ(series.id, 7u);
  EXPECT_EQ(series.unique_id, "01ABC");
  EXPECT_EQ(series.frames, 10u);
  EXPECT_EQ(series.channels, std::vector<std::string>{"threshold_1"});
  EXPECT_EQ(series.frame, (ArraySpec{ElementType::u16, {3, 4}}));
  EXPECT_FALSE(series.beam_center_x.has_value());
}

TEST(Message, NeitherTheTagNorThePlaceOfTypeMatters) {
  const auto [bytes, tagged] = parse_vector<ImageMessage>("image_u16");
  for (const auto* name : {"image_without_tag", "image_type_last", "image_without_series_id"}) {
    const auto [other_bytes, image] = parse_vector<ImageMessage>(name);
    EXPECT_EQ(image.series_unique_id, tagged.series_unique_id) << name;
    EXPECT_EQ(image.image_id, tagged.image_id) << name;
    EXPECT_TRUE(std::ranges::equal(image.channels.at(0).payload, tagged.channels.at(0).payload)) << name;
    EXPECT_TRUE(image.metadata.empty()) << name;
    const auto named = name_of_image(other_bytes, limits);
    ASSERT_TRUE(named.has_value()) << name;
    EXPECT_EQ(named->image_id, tagged.image_id) << name;
  }
  const auto [start_bytes, start] = parse_vector<Series>("start_type_last");
  EXPECT_EQ(start.frame, (ArraySpec{ElementType::u16, {3, 4}}));
  EXPECT_TRUE(start.unknown.empty());
  EXPECT_EQ(name_of_start(start_bytes, limits), "01ABC");
  const auto [end_bytes, end] = parse_vector<SeriesEnd>("end_without_tag");
  EXPECT_EQ(end.unique_id, "01ABC");
}

TEST(Message, AStartMessageMayLackWhatImagesBring) {
  const auto parsed = parse_vector<ImageMessage>("image_u32");
  const auto& image = parsed.message;
  const auto expect_completed = [&](const char* name, std::string_view field, ElementType type) {
    auto [bytes, series] = parse_vector<Series>(name);
    EXPECT_EQ(lacks(series), field) << name;
    // Until then it can be encoded and parsed.
    const auto again = parse_message(encode_start(series), limits);
    ASSERT_TRUE(again.ok()) << name << ": " << again.error().message();
    EXPECT_EQ(lacks(std::get<Series>(*again)), field) << name;
    complete(series, image);
    EXPECT_EQ(lacks(series), "") << name;
    EXPECT_EQ(series.frame, (ArraySpec{type, {3, 4}})) << name;
    EXPECT_EQ(series.channels.front(), "threshold_1") << name;
    EXPECT_TRUE(series.remarks.empty()) << name;
  };
  expect_completed("start_name_only", "image_dtype", ElementType::u32);
  expect_completed("start_2022", "image_dtype", ElementType::u32);
  expect_completed("start_without_image_dtype", "image_dtype", ElementType::u32);
  expect_completed("start_without_image_size_x", "image_size_x, image_size_y", ElementType::u16);
  expect_completed("start_without_channels", "channels", ElementType::u16);
  expect_completed("start_without_series_id", "", ElementType::u16);
}

TEST(Message, MasksThatDoNotFitTheFirstImageAreLeftOut) {
  const auto [image_bytes, image] = parse_vector<ImageMessage>("image_u16");
  auto [bytes, series] = parse_vector<Series>("start_without_image_size_x");
  series.pixel_mask.push_back({"threshold_1", {ElementType::u32, {2, 2}}, std::vector<std::byte>(16)});
  series.pixel_mask.push_back({"threshold_1", {ElementType::u32, {3, 4}}, std::vector<std::byte>(48)});
  complete(series, image);
  EXPECT_EQ(series.pixel_mask.size(), 1u);
  ASSERT_EQ(series.remarks.size(), 1u);
  EXPECT_EQ(series.remarks[0].message(),
            "pixel_mask: \"threshold_1\": shape [2, 2], but the images have [3, 4]: it is left out");
}

void expect_full(const Series& series) {
  EXPECT_EQ(series.arm_date, "2026-11-20T10:00:00.5+01:00");
  EXPECT_EQ(series.beam_center_x, 1.5);
  EXPECT_EQ(series.beam_center_y, 2.5);
  EXPECT_EQ(series.channels, (std::vector<std::string>{"threshold_1", "threshold_2"}));
  EXPECT_EQ(series.count_time_s, 0.0099);
  EXPECT_EQ(series.frame_time_s, 0.01);
  EXPECT_EQ(series.countrate_correction_enabled, true);
  EXPECT_EQ(series.flatfield_enabled, false);
  EXPECT_EQ(series.pixel_mask_enabled, true);
  EXPECT_EQ(series.virtual_pixel_interpolation_enabled, true);
  EXPECT_EQ(series.detector_description, "A detector");
  EXPECT_EQ(series.detector_serial_number, "E-01-0001");
  EXPECT_EQ(series.detector_translation_m, (std::array<double, 3>{0.0, -0.25, 0.125}));
  EXPECT_EQ(series.incident_energy_ev, 12400.0);
  EXPECT_EQ(series.incident_wavelength_angstrom, 1.0);
  EXPECT_EQ(series.pixel_size_x_m, 75e-6);
  EXPECT_EQ(series.pixel_size_y_m, 75e-6);
  EXPECT_EQ(series.saturation_value, 65534u);
  EXPECT_EQ(series.sensor_material, "Si");
  EXPECT_EQ(series.sensor_thickness_m, 450e-6);
  EXPECT_EQ(series.threshold_energy_ev,
            (std::map<std::string, double>{{"threshold_1", 6200.0}, {"threshold_2", 18000.0}}));
  ASSERT_EQ(series.goniometer.size(), 2u);
  EXPECT_EQ(series.goniometer[0].name, "omega");
  EXPECT_EQ(series.goniometer[0].start, 10.25);
  EXPECT_EQ(series.goniometer[0].increment, 0.5);
  EXPECT_EQ(series.goniometer[1].start, -1.5);
}

void expect_full_arrays(const Series& series) {
  ASSERT_TRUE(series.countrate_correction_table.has_value());
  EXPECT_EQ(series.countrate_correction_table->spec, (ArraySpec{ElementType::u32, {3}}));
  EXPECT_EQ(load_le<std::uint32_t>(&series.countrate_correction_table->data[8]), 4u);
  ASSERT_EQ(series.flatfield.size(), 1u);
  EXPECT_EQ(series.flatfield[0].channel, "threshold_1");
  EXPECT_EQ(series.flatfield[0].spec, (ArraySpec{ElementType::f32, {3, 4}}));
  ASSERT_EQ(series.pixel_mask.size(), 1u);
  EXPECT_EQ(series.pixel_mask[0].encoding, Encoding::bitshuffle_lz4);
  EXPECT_EQ(series.pixel_mask[0].spec, (ArraySpec{ElementType::u32, {3, 4}}));
  EXPECT_EQ(series.pixel_mask[0].data.size(), 20u);
  EXPECT_EQ(series.user_data_json, R"({"list":[1,2.5,null,true],"sample":"lysozyme"})");
  ASSERT_EQ(series.unknown.size(), 1u);
  // {"deep": [1, {"er": h'0102'}]}, as it was sent
  EXPECT_EQ(as_text(series.unknown.at("a_field_of_tomorrow")),
            "\xa1\x64"
            "deep\x82\x01\xa1\x62"
            "erB\x01\x02");
}

TEST(Message, EveryFieldOfAStartMessageIsUnderstood) {
  const auto [bytes, series] = parse_vector<Series>("start_full");
  expect_full(series);
  expect_full_arrays(series);
}

TEST(Message, WhatIsEncodedParsesToTheSame) {
  const auto [bytes, series] = parse_vector<Series>("start_full");
  const auto again = parse_message(encode_start(series), limits);
  ASSERT_TRUE(again.ok()) << again.error().message();
  expect_full(std::get<Series>(*again));
  expect_full_arrays(std::get<Series>(*again));
}

TEST(Message, NullMeansNotSent) {
  const auto [bytes, series] = parse_vector<Series>("start_nulls");
  EXPECT_FALSE(series.beam_center_x.has_value());
  EXPECT_TRUE(series.flatfield.empty());
  EXPECT_TRUE(series.goniometer.empty());
}

TEST(Message, FloatsOfEveryWidthAndIntegersAreNumbers) {
  const auto [bytes, series] = parse_vector<Series>("start_float_widths");
  EXPECT_EQ(series.incident_energy_ev, 1.5);
  EXPECT_EQ(series.incident_wavelength_angstrom, 1.0);
  EXPECT_EQ(series.frame_time_s, 2.0);
}

TEST(Message, IndefiniteLengthsAreUnderstood) {
  for (const auto* name : {"end", "end_indefinite"}) {
    const auto [bytes, end] = parse_vector<SeriesEnd>(name);
    EXPECT_EQ(end.id, 7u);
    EXPECT_EQ(end.unique_id, "01ABC");
  }
}

ImageMessage two_channels(Bytes first, Bytes second) {
  auto image = sample_image(sample_series("s", 3, 4), 300, first);
  image.channels[0].spec.shape = {3, 4};
  image.channels.push_back({"threshold_2", {ElementType::i32, {2, 2}}, Encoding::bitshuffle_lz4, second});
  image.start_ns = 1;
  image.stop_ns = 2;
  image.real_ns = 0;
  image.series_date = "2026-11-20T10:00:00Z";
  image.metadata = {{"x", -1.5}, {"n", std::int64_t{-4}}, {"t", std::string("é")}};
  return image;
}

void expect_same(const ImageMessage& parsed, const ImageMessage& image) {
  EXPECT_EQ(parsed.series_unique_id, image.series_unique_id);
  EXPECT_EQ(parsed.image_id, image.image_id);
  EXPECT_EQ(parsed.start_ns, image.start_ns);
  EXPECT_EQ(parsed.stop_ns, image.stop_ns);
  EXPECT_EQ(parsed.real_ns, image.real_ns);
  EXPECT_EQ(parsed.series_date, image.series_date);
  EXPECT_EQ(parsed.metadata, image.metadata);
  ASSERT_EQ(parsed.channels.size(), image.channels.size());
  for (std::size_t i = 0; i < image.channels.size(); ++i) {
    EXPECT_EQ(parsed.channels[i].channel, image.channels[i].channel);
    EXPECT_EQ(parsed.channels[i].spec, image.channels[i].spec);
    EXPECT_EQ(parsed.channels[i].encoding, image.channels[i].encoding);
    EXPECT_EQ(as_text(parsed.channels[i].payload), as_text(image.channels[i].payload));
  }
}

TEST(Message, ImagesSurviveEncodingInEachForm) {
  const auto first = sample_pixels(1, 24);
  const auto second = sample_pixels(2, 400);
  const auto image = two_channels(first, second);
  const auto whole = encode_image(image);
  const auto parsed = parse_message(whole, limits);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  expect_same(std::get<ImageMessage>(*parsed), image);

  std::vector<std::byte> detached;
  encode_image_detached(image, detached);
  auto pixels = first;
  pixels.insert(pixels.end(), second.begin(), second.end());
  const auto parsed_detached = parse_detached(detached, pixels, limits);
  ASSERT_TRUE(parsed_detached.ok()) << parsed_detached.error().message();
  expect_same(std::get<ImageMessage>(*parsed_detached), image);
}

TEST(Message, PixelsBeyondThePixelPartAreRefused) {
  const auto pixels = sample_pixels(1, 256);
  std::vector<std::byte> detached;
  encode_image_detached(sample_image(sample_series("s"), 0, pixels), detached);
  const auto parsed = parse_detached(detached, Bytes(pixels).first(255), limits);
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.error().message().find("reach beyond the pixel part of 255 bytes"), std::string::npos);
}

struct BadVector {
  const char* name;
  const char* message;  ///< that the error contains: the field and the value
};

class BadMessages : public testing::TestWithParam<BadVector> {};

TEST_P(BadMessages, AreRefusedByFieldAndValue) {
  const auto parsed = parse_message(read_vector(GetParam().name), limits);
  ASSERT_FALSE(parsed.ok()) << GetParam().name;
  EXPECT_NE(parsed.error().message().find(GetParam().message), std::string::npos)
      << GetParam().name << ": " << parsed.error().message();
}

constexpr auto bad_vectors = std::to_array<BadVector>({
    {"bad_float128", "data: \"threshold_1\": typed array of tag 87: floats of 128 bits; send float64"},
    {"bad_float128_big", "typed array of tag 83: floats of 128 bits"},
    {"bad_typed_array_76", "tag 76 instead of a typed array"},
    {"bad_half_floats_size", "shape [3, 4] of float32 needs 24 bytes, but 48 were sent"},
    {"bad_half_floats_modifier", "\"bslz4\" with modifier 4, but the elements have 2 bytes"},
    {"bad_column_major_shape", "shape [3, 5] of uint16 needs 30 bytes, but 24 were sent"},
    {"bad_shape_larger_than_bytes", "shape [3, 5] of uint16 needs 30 bytes, but 24 were sent"},
    {"bad_shape_smaller_than_bytes", "shape [3, 3] of uint16 needs 18 bytes, but 24 were sent"},
    {"bad_shape_of_2_to_63", "shape [9223372036854775808, 2] of uint16 exceeds the limit"},
    {"bad_shape_that_wraps_to_24_bytes", "exceeds the limit"},
    {"bad_shape_with_0", "shape [0, 4] has a dimension of 0"},
    {"bad_shape_empty", "shape with no dimension"},
    {"bad_shape_negative", "expected an unsigned integer, found a negative integer"},
    {"bad_algorithm",
     "compression algorithm \"trpx\", which no HDF5 filter decompresses; set the detector's compression to bslz4"},
    {"bad_modifier", "\"bslz4\" with modifier 4, but the elements have 2 bytes"},
    {"bad_compressed_incomplete", "without bytes"},
    {"bad_array_is_text", "expected a tag, found text"},
    {"bad_array_without_elements", "without elements"},
    {"bad_array_with_three_items", "more than shape and elements"},
    {"bad_range_of_pixels", "expected a byte string, found an array"},
    {"bad_image_without_series_unique_id", "image: series_unique_id: missing"},
    {"bad_image_without_image_id", "image: image_id: missing"},
    {"bad_image_without_data", "image: data: missing"},
    {"bad_start_without_series_unique_id", "start: series_unique_id: missing"},
    {"bad_no_channel", "data: no channel"},
    {"bad_image_id_text", "image_id: at byte"},
    {"bad_image_id_negative", "found a negative integer"},
    {"bad_unique_id_empty", "series_unique_id: empty"},
    {"bad_unique_id_long", "series_unique_id: text of 300 bytes exceeds the limit of 256"},
    {"bad_type_unknown", "type \"calibration\" is not start, image or end"},
    {"bad_type_missing", "not a Stream V2 message: a map without \"type\""},
    {"bad_type_twice", "end: type: twice"},
    {"bad_empty_map", "a map without \"type\""},
    {"bad_end_without_unique_id", "end: series_unique_id: missing"},
    {"bad_dtype", "image_dtype: \"uint12\" is not an element type"},
    {"bad_image_size_0", "shape [3, 0] has a dimension of 0"},
    {"bad_image_size_2_to_63", "shape [3, 9223372036854775808] of uint16 exceeds"},
    {"bad_channels_empty", "channels: no channel"},
    {"bad_channels_twice", "channels: \"a\" twice"},
    {"bad_no_map", "it starts with neither a CBOR map nor CBOR tag 55799"},
    {"bad_other_tag", "starts with CBOR tag 1234"},
    {"bad_empty", "it starts with neither a CBOR map nor CBOR tag 55799"},
    {"bad_truncated_in_pixels", "a byte string of 24 bytes, but only 23 bytes are left"},
    {"bad_truncated_in_head", "bytes are left"},
    {"bad_trailing_bytes", "1 bytes follow the message"},
    {"bad_key_twice", "series_id: twice"},
    {"bad_bytes_of_2_to_63", "9223372036854775808 bytes, but only 0 bytes are left"},
    {"bad_map_of_2_to_63", "with 9223372036854775808 items"},
    {"bad_nested_deep", "nested too deep"},
    {"bad_text_not_utf8", "not UTF-8"},
    {"bad_reserved_item", "0x1c does not start a CBOR item"},
    {"bad_key_not_text", "expected text, found an unsigned integer"},
    {"bad_pixels_in_pieces", "a byte string in pieces"},
});

class OddMessages : public testing::TestWithParam<BadVector> {};

/// What the pixels do not need costs none of them.
TEST_P(OddMessages, AreTakenWithARemarkOfFieldAndValue) {
  const auto bytes = read_vector(GetParam().name);
  const auto parsed = parse_message(bytes, limits);
  ASSERT_TRUE(parsed.ok()) << GetParam().name << ": " << parsed.error().message();
  const auto& remarks = std::visit(
      [](const auto& message) {
        if constexpr (requires { message.remarks; })
          return message.remarks;
        else
          return std::vector<Error>();
      },
      *parsed);
  ASSERT_EQ(remarks.size(), 1u) << GetParam().name;
  EXPECT_NE(remarks[0].message().find(GetParam().message), std::string::npos)
      << GetParam().name << ": " << remarks[0].message();
}

constexpr auto odd_vectors = std::to_array<BadVector>({
    {"bad_time_denominator_0", "start_time is [1,0]: [1, 0] has no value"},
    {"bad_time_300_years", "exceed 292 years"},
    {"bad_time_three_numbers", ": more than [numerator, denominator]"},
    {"bad_mask_shape", ": \"threshold_1\": shape [2, 2], but the images have [3, 4]"},
    {"bad_translation", "detector_translation is [1.0,2.0]: 2 numbers, not 3"},
    {"bad_beam_center_text", "beam_center_x is \"middle\": at byte"},
    {"bad_metadata_twice", "user_data: \"a\": twice: it is left out"},
    {"bad_metadata_null_twice", "user_data: \"a\": twice: it is left out"},
});

INSTANTIATE_TEST_SUITE_P(All, OddMessages, testing::ValuesIn(odd_vectors),
                         [](const auto& vector) { return std::string(vector.param.name); });

INSTANTIATE_TEST_SUITE_P(All, BadMessages, testing::ValuesIn(bad_vectors),
                         [](const auto& vector) { return std::string(vector.param.name); });

TEST(Message, EveryVectorIsTested) {
  for (const auto& name : vector_names("bad_")) {
    const auto is_named = [&](const BadVector& vector) { return name == vector.name; };
    EXPECT_TRUE(std::any_of(bad_vectors.begin(), bad_vectors.end(), is_named) ||
                std::any_of(odd_vectors.begin(), odd_vectors.end(), is_named))
        << name << " is in the corpus but not in this file";
  }
}

TEST(Message, LimitsAreKept) {
  MessageLimits small;
  small.frame_bytes_max = 23;
  EXPECT_EQ(parse_message(read_vector("image_u16"), small).error().code(), Errc::too_large);
  EXPECT_EQ(parse_message(read_vector("start_least"), small).error().code(), Errc::too_large);
  small = {};
  small.channels_max = 1;
  EXPECT_EQ(parse_message(read_vector("image_two_channels"), small).error().code(), Errc::too_large);
  small = {};
  small.text_bytes_max = 4;
  const auto fields = read_vector("image_unknown_fields");
  const auto left = parse_message(fields, small);
  ASSERT_TRUE(left.ok()) << left.error().message();
  const auto& image = std::get<ImageMessage>(*left);
  EXPECT_EQ(image.metadata.size(), 1u);
  ASSERT_EQ(image.remarks.size(), 1u);
  EXPECT_EQ(image.remarks[0].code(), Errc::too_large);
}

std::vector<std::byte> self_described(const nlohmann::ordered_json& fields) {
  std::vector<std::uint8_t> text{0xd9, 0xd9, 0xf7};
  nlohmann::ordered_json::to_cbor(fields, text);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(Message, AnImageWithoutPixelsSaysWhy) {
  nlohmann::ordered_json image{{"type", "image"}, {"series_id", 7}, {"series_unique_id", "s"}, {"image_id", 5}};
  image["damaged"] = "uniqueId 6: " + std::string(1000, 'x');
  const auto refused = parse_message(self_described(image), limits);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::malformed);
  EXPECT_EQ(
      refused.error().message().rfind("image: frame 5 of series \"s\" was corrupt when it was sent: uniqueId 6", 0),
      0u);
  EXPECT_LT(refused.error().message().size(), 700u);
  image["damaged"] = 6;
  EXPECT_EQ(parse_message(self_described(image), limits).error().message(), "image: data: missing");
}

TEST(Message, AnEndMayBeTheOnlyOne) {
  nlohmann::ordered_json end{{"type", "end"}, {"series_id", 7}, {"series_unique_id", "s"}};
  const auto is_sole = [&] { return std::get<SeriesEnd>(parse_message(self_described(end), limits).value()).sole; };
  EXPECT_FALSE(is_sole());
  end["sole"] = true;
  EXPECT_TRUE(is_sole());
  for (const auto& other : {nlohmann::ordered_json("yes"), nlohmann::ordered_json(1), nlohmann::ordered_json()}) {
    end["sole"] = other;
    EXPECT_FALSE(is_sole()) << other;
  }
}

/// Parses what mutation made of a message, as one piece and detached: anything but a crash will do.
void expect_survived(Bytes mutated, std::size_t& parsed) {
  const auto outcome = parse_message(mutated, limits);
  if (outcome.ok())
    ++parsed;
  else
    EXPECT_FALSE(outcome.error().message().empty());
  (void)parse_detached(mutated, mutated, limits).ok();
}

TEST(Message, MutationsOfValidMessagesDoNoHarm) {
  constexpr unsigned seed = 20261121;
  std::mt19937 random(seed);
  std::size_t parsed = 0;
  std::size_t tried = 0;
  for (const auto& prefix : {"image_", "start_", "end"}) {
    for (const auto& name : vector_names(prefix)) {
      const auto original = read_vector(name);
      for (int round = 0; round < 100; ++round, ++tried) {
        auto mutated = original;
        const auto flips = 1 + random() % 4;
        for (unsigned flip = 0; flip < flips; ++flip) mutated[random() % mutated.size()] = std::byte(random() & 0xff);
        if (random() % 4 == 0) mutated.resize(random() % mutated.size());
        expect_survived(mutated, parsed);
      }
    }
  }
  // Some hit nothing that matters, and some break the message.
  EXPECT_GT(parsed, 0u) << "seed " << seed;
  EXPECT_LT(parsed, tried) << "seed " << seed;
}

}  // namespace
}  // namespace penstock::stream::test
