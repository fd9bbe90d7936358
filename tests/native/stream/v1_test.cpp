#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <span>

#include "stream/messages/cbor_json.hpp"
#include "stream/messages/v1_message.hpp"
#include "vectors.hpp"

namespace penstock::stream::test {
namespace {

const MessageLimits limits;

std::vector<Bytes> parts_of(Bytes file) {
  std::vector<Bytes> parts;
  while (file.size() >= 4) {
    const auto length = std::min<std::size_t>(load_le<std::uint32_t>(file.data()), file.size() - 4);
    parts.push_back(file.subspan(4, length));
    file = file.subspan(4 + length);
  }
  return parts;
}

std::vector<std::byte> read_file(const std::string& name) { return read_bytes(corpus_folder() / (name + ".v1")); }

template <typename T>
struct Parsed {
  std::vector<std::byte> bytes;
  T message;
};

template <typename T>
Parsed<T> parse_vector(const std::string& name) {
  auto bytes = read_file(name);
  auto parsed = parse_v1(parts_of(bytes), limits);
  EXPECT_TRUE(parsed.ok()) << name << ": " << parsed.error().message();
  return {std::move(bytes), std::get<T>(std::move(*parsed))};
}

std::string as_json(const std::vector<std::byte>& item) {
  CborReader reader(item, 16);
  return read_as_json(reader, 1 << 20).value();
}

TEST(StreamV1, AHeaderMayTellNothing) {
  const auto [bytes, header] = parse_vector<V1Header>("header_none");
  EXPECT_EQ(header.series.id, 3u);
  EXPECT_TRUE(header.series.frame.shape.empty());
  EXPECT_EQ(header.series.frames, 0u);
  EXPECT_FALSE(header.series.user_data_json.has_value());
  EXPECT_EQ(parse_vector<V1Header>("header_none_appendix").message.series.user_data_json, R"({"sample":"lysozyme"})");
}

TEST(StreamV1, TheDetectorsConfigurationIsUnderstood) {
  const auto [bytes, header] = parse_vector<V1Header>("header_basic");
  const auto& series = header.series;
  EXPECT_TRUE(header.remarks.empty());
  EXPECT_EQ(series.frame, (ArraySpec{ElementType::u16, {3, 4}}));
  EXPECT_EQ(series.frames, 10u);
  EXPECT_EQ(series.arm_date, "2026-11-20T10:00:00.5");
  EXPECT_EQ(series.beam_center_x, 1.5);
  EXPECT_EQ(series.beam_center_y, 2.5);
  EXPECT_EQ(series.bit_depth_readout, 12u);
  EXPECT_EQ(series.count_time_s, 0.0099);
  EXPECT_EQ(series.frame_time_s, 0.01);
  EXPECT_EQ(series.countrate_correction_enabled, true);
  EXPECT_EQ(series.flatfield_enabled, true);
  EXPECT_EQ(series.pixel_mask_enabled, false);
  EXPECT_EQ(series.detector_description, "A detector");
  EXPECT_EQ(series.detector_serial_number, "E-01-0001");
  EXPECT_EQ(series.detector_translation_m, (std::array<double, 3>{0, 0, 0.125}));
  EXPECT_EQ(series.incident_energy_ev, 12400.0);
  EXPECT_EQ(series.incident_wavelength_angstrom, 1.0);
  EXPECT_EQ(series.pixel_size_x_m, 75e-6);
  EXPECT_EQ(series.pixel_size_y_m, 75e-6);
  EXPECT_EQ(series.saturation_value, 60000u);
  EXPECT_EQ(series.sensor_material, "Si");
  EXPECT_EQ(series.sensor_thickness_m, 450e-6);
  EXPECT_EQ(series.threshold_energy_ev, (std::map<std::string, double>{{"threshold_1", 6200.0}}));
  ASSERT_EQ(series.goniometer.size(), 2u);
  EXPECT_EQ(series.goniometer[0].name, "chi");
  EXPECT_EQ(series.goniometer[1].start, 10.25);
  EXPECT_EQ(series.goniometer[1].increment, 0.5);
  std::vector<std::string> kept;
  for (const auto& [name, item] : series.unknown) kept.push_back(name + "=" + as_json(item));
  EXPECT_EQ(kept, (std::vector<std::string>{R"(element="Cu")", R"(roi_mode="disabled")", R"(software_version="1.8.0")",
                                            R"(trigger_mode="ints")"}));
}

TEST(StreamV1, TablesComeWithAllTheDetail) {
  for (const auto* name : {"header_all", "header_all_lenient", "header_all_appendix"}) {
    const auto [bytes, header] = parse_vector<V1Header>(name);
    const auto& series = header.series;
    EXPECT_TRUE(header.remarks.empty());
    ASSERT_EQ(series.flatfield.size(), 1u) << name;
    EXPECT_EQ(series.flatfield[0].spec, (ArraySpec{ElementType::f32, {3, 4}}));
    ASSERT_EQ(series.pixel_mask.size(), 1u);
    EXPECT_EQ(load_le<std::uint32_t>(&series.pixel_mask[0].data[44]), 11u);
    EXPECT_EQ(series.countrate_correction_table->spec, (ArraySpec{ElementType::f32, {3, 2}}));
  }
  EXPECT_EQ(parse_vector<V1Header>("header_all_appendix").message.series.user_data_json, R"("just text")");
}

TEST(StreamV1, WhatIsWrongInAHeaderCostsNoSeries) {
  const auto odd = parse_vector<V1Header>("header_odd_values").message;
  ASSERT_EQ(odd.remarks.size(), 2u);
  EXPECT_EQ(odd.remarks[0].message(), "beam_center_x is \"middle\", expected a number; it is stored unchanged");
  EXPECT_EQ(odd.remarks[1].message(), "nimages is -1, expected a whole number; it is stored unchanged");
  EXPECT_EQ(as_json(odd.series.unknown.at("beam_center_x")), "\"middle\"");
  EXPECT_EQ(odd.series.frames, 0u);
  const auto mask = parse_vector<V1Header>("header_odd_mask").message;
  ASSERT_EQ(mask.remarks.size(), 1u);
  EXPECT_EQ(mask.remarks[0].message(), "pixelmask: shape [3, 4] (rows first) of uint32 needs 48 bytes, but 2 came");
  EXPECT_EQ(mask.series.flatfield.size(), 1u);
}

std::vector<Bytes> views_of(std::span<const std::string> texts) {
  std::vector<Bytes> parts;
  for (const auto& text : texts) parts.push_back(as_bytes(text));
  return parts;
}

TEST(StreamV1, NumbersAsTextAreReadAndThoseThatAreNoneCostTheirOwnField) {
  const std::array<std::string, 2> texts{
      R"({"htype": "dheader-1.0", "series": 3, "header_detail": "basic"})",
      R"({"nimages": "100", "x_pixels_in_detector": "80", "y_pixels_in_detector": 48, "count_time": NaN,
          "frame_time": "0.01", "wavelength": -Infinity, "description": "NaN \" Infinity", "omega_start": "1.5",
          "detector_distance": "far"})"};
  const auto parsed = parse_v1(views_of(texts), limits);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  const auto& header = std::get<V1Header>(*parsed);
  EXPECT_EQ(header.series.frames, 100u);
  EXPECT_EQ(header.series.frame.shape, (std::vector<std::uint64_t>{48, 80}));
  EXPECT_EQ(header.series.frame_time_s, 0.01);
  EXPECT_EQ(header.series.detector_description, "NaN \" Infinity");
  EXPECT_FALSE(header.series.count_time_s);
  EXPECT_FALSE(header.series.incident_wavelength_angstrom);
  EXPECT_EQ(header.series.goniometer.at(0).start, 1.5);
  ASSERT_EQ(header.remarks.size(), 3u);
  EXPECT_EQ(header.remarks[0].message(), "count_time is \"NaN\", expected a number; it is stored unchanged");
  EXPECT_TRUE(header.remarks[1].message().starts_with("detector_distance is \"far\""));
  EXPECT_TRUE(header.remarks[2].message().starts_with("wavelength is \"-Infinity\""));
}

TEST(StreamV1, SizesAndTimesOfAnImageMayBeText) {
  const std::array<std::string, 5> texts{
      R"({"htype":"dimage-1.0","series":3,"frame":5})",
      R"({"htype":"dimage_d-1.0","shape":["4","3"],"type":"uint16","encoding":"<","size":"24"})", std::string(24, 'p'),
      R"({"htype":"dconfig-1.0","start_time":"12"})", R"({"dose": NaN, "gain": 2})"};
  const auto parsed = parse_v1(views_of(texts), limits);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  const auto& image = std::get<V1Image>(*parsed);
  EXPECT_TRUE(image.remarks.empty());
  EXPECT_EQ(image.spec, (ArraySpec{ElementType::u16, {3, 4}}));
  EXPECT_EQ(image.start_ns, 12);
  ASSERT_EQ(image.metadata.size(), 2u);
  EXPECT_TRUE(std::isnan(std::get<double>(image.metadata[0].second)));
  EXPECT_EQ(std::get<double>(image.metadata[1].second), 2);
}

TEST(StreamV1, ImagesHaveTheirColumnsFirst) {
  const auto [bytes, image] = parse_vector<V1Image>("image");
  EXPECT_EQ(image.series, 3u);
  EXPECT_EQ(image.frame, 5u);
  EXPECT_EQ(image.spec, (ArraySpec{ElementType::u16, {3, 4}}));
  EXPECT_EQ(image.encoding, Encoding::none);
  EXPECT_EQ(image.start_ns, 1000);
  EXPECT_EQ(image.stop_ns, 9'901'000);
  EXPECT_EQ(image.real_ns, 9'900'000);
  EXPECT_EQ(parse_vector<V1Image>("image_u32").message.spec.type, ElementType::u32);
}

TEST(StreamV1, EncodingsAreUnderstood) {
  EXPECT_TRUE(parse_vector<V1Image>("image_big_endian").message.form.big_endian);
  const auto lz4 = parse_vector<V1Image>("image_lz4").message;
  EXPECT_EQ(lz4.encoding, Encoding::lz4);
  EXPECT_TRUE(lz4.is_bare_block);
  const auto bslz4 = parse_vector<V1Image>("image_bslz4").message;
  EXPECT_EQ(bslz4.encoding, Encoding::bitshuffle_lz4);
  EXPECT_FALSE(bslz4.is_bare_block);
}

TEST(StreamV1, AnAppendixBecomesMetadata) {
  using Entry = std::pair<std::string, MetaValue>;
  const auto told = parse_vector<V1Image>("image_appendix").message.metadata;
  EXPECT_EQ(told, (std::vector<Entry>{
                      {"dose", 1.5}, {"gain", 2.0}, {"l", std::string("[1,2]")}, {"note", std::string("n")}}));
  const auto text = parse_vector<V1Image>("image_appendix_text").message.metadata;
  EXPECT_EQ(text, (std::vector<Entry>{{"appendix", std::string("caf\xef\xbf\xbd")}}));
}

TEST(StreamV1, ASeriesEnds) { EXPECT_EQ(parse_vector<V1End>("end").message.series, 3u); }

struct BadVector {
  const char* name;
  const char* message;
};

constexpr auto bad_vectors = std::to_array<BadVector>({
    {"bad_htype", "htype is \"dnothing-1.0\", expected dheader-1.0, dimage-1.0 or dseries_end-1.0"},
    {"bad_no_htype", "htype is null"},
    {"bad_json", "part 1 is not valid JSON"},
    {"bad_json_deep", "part 1 is nested deeper than 64 levels"},
    {"bad_json_number", "part 1 is not valid JSON"},
    {"bad_header_without_series", "header.series is missing"},
    {"bad_header_series_text", "header.series is \"3\", expected a whole number"},
    {"bad_header_detail", "header.header_detail is \"most\", expected none, basic or all"},
    {"bad_header_without_config", "the detector's configuration: a message of 1 parts has no part 2"},
    {"bad_header_config_list", "the detector's configuration: part 2 is [1], expected an object"},
    {"bad_header_cut", "the header ends before the elements of its pixelmask"},
    {"bad_header_parts", "the header of series 3 has 3 parts, which does not match header_detail \"none\""},
    {"bad_image_cut", "image 5 of series 3 has 2 parts, expected 4"},
    {"bad_image_parts", "image 5 of series 3 has 6 parts, expected 4 or 5"},
    {"bad_image_shape", "image 5: shape [3, 5] (rows first) of uint16 needs 30 bytes, but part 3 has 24"},
    {"bad_image_shape_of_2_to_63", "image 5: shape: "},
    {"bad_image_shape_negative", "image data.shape is [-4,-3], expected a list of whole numbers"},
    {"bad_image_type", "image data.type is \"uint12\", expected an element type"},
    {"bad_image_size", "size is 23, but part 3 has 24 bytes"},
    {"bad_image_encoding", "image data.encoding is \"trpx<\", expected"},
    {"bad_image_encoding_bits", "encoding is \"bs32-lz4\", but the elements have 16 bits"},
    {"bad_image_lz4_of_raw_size", "an LZ4 block of 24 bytes, as many as it expands to"},
    {"bad_image_empty", "part 3 is empty"},
    {"bad_image_frame_negative", "image.frame is -1, expected a whole number"},
    {"bad_end_without_series", "series end.series is missing"},
});

TEST(StreamV1, BadMessagesAreRefusedByFieldAndValue) {
  for (const auto& vector : bad_vectors) {
    const auto bytes = read_file(vector.name);
    const auto parsed = parse_v1(parts_of(bytes), limits);
    ASSERT_FALSE(parsed.ok()) << vector.name;
    EXPECT_NE(parsed.error().message().find(vector.message), std::string::npos)
        << vector.name << ": " << parsed.error().message();
  }
  std::size_t kept = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus_folder()))
    kept += entry.path().extension() == ".v1" && entry.path().stem().string().starts_with("bad_") ? 1 : 0;
  EXPECT_EQ(kept, bad_vectors.size() + 1) << "a vector of the corpus is not in this file";
}

/// The image as the corpus has it, with other parts behind its pixels.
V1Image image_with(const std::vector<std::string>& last_parts) {
  const auto file = read_file("image");
  auto parts = parts_of(file);
  parts.resize(3);
  for (const auto& part : last_parts) parts.push_back(std::as_bytes(std::span(part)));
  auto parsed = parse_v1(parts, limits);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message();
  return parsed.ok() ? std::get<V1Image>(std::move(*parsed)) : V1Image{};
}

TEST(StreamV1, WholeNumbersOfAnAppendixAreDoublesAsLongAsTheseAreExact) {
  const auto image = image_with({R"({"htype":"dconfig-1.0"})", R"({"a": 0, "b": -5, "c": 9007199254740992, "d": true,
      "e": 9007199254740993, "f": -9007199254740993, "g": 1764340000000000001, "h": 18446744073709551615})"});
  const auto& told = image.metadata;
  ASSERT_EQ(told.size(), 8u);
  EXPECT_EQ(told[0].second, MetaValue(0.0));
  EXPECT_EQ(told[1].second, MetaValue(-5.0));
  EXPECT_EQ(told[2].second, MetaValue(9007199254740992.0));
  EXPECT_EQ(told[3].second, MetaValue(std::int64_t{1}));
  EXPECT_EQ(told[4].second, MetaValue(std::int64_t{9007199254740993}));
  EXPECT_EQ(told[5].second, MetaValue(std::int64_t{-9007199254740993}));
  EXPECT_EQ(told[6].second, MetaValue(std::int64_t{1764340000000000001}));
  EXPECT_EQ(told[7].second, MetaValue(std::numeric_limits<std::uint64_t>::max()));
}

TEST(StreamV1, WhatNoPixelNeedsCostsNoFrame) {
  const auto [bytes, image] = parse_vector<V1Image>("bad_image_time_text");
  EXPECT_EQ(image.start_ns, -1);
  ASSERT_EQ(image.remarks.size(), 1u);
  EXPECT_TRUE(image.remarks[0].message().starts_with("image config.start_time is \"now\", expected a whole number"))
      << image.remarks[0].message();
  const auto odd =
      image_with({R"({"htype":"dconfig-1.0","start_time":12,"stop_time":-5,"real_time":1e30})", R"({"dose":2})"});
  EXPECT_EQ(odd.start_ns, 12);
  EXPECT_EQ(odd.stop_ns, -1);
  EXPECT_EQ(odd.real_ns, -1);
  EXPECT_EQ(odd.remarks.size(), 2u);
  EXPECT_EQ(odd.metadata.size(), 1u) << "what comes behind the times is read all the same";
  for (const auto* times : {"no JSON", "[1]", R"({"htype":"dimage_d-1.0"})"}) {
    const auto without = image_with({times});
    EXPECT_EQ(without.start_ns, -1);
    ASSERT_EQ(without.remarks.size(), 1u) << times;
    EXPECT_TRUE(without.remarks[0].message().ends_with("its times are left out"));
  }
}

TEST(StreamV1, AnAppendixThatIsTooLargeIsLeftOut) {
  const std::string times = R"({"htype":"dconfig-1.0","start_time":12})";
  const auto huge = image_with({times, std::string(limits.text_bytes_max + 1, 'x')});
  EXPECT_TRUE(huge.metadata.empty());
  EXPECT_EQ(huge.remarks.size(), 1u);
  std::string many = "{";
  for (std::size_t i = 0; i <= limits.metadata_max; ++i) many += fmt::format("{}\"v{}\":1", i == 0 ? "" : ",", i);
  const auto some = image_with({times, many + "}"});
  EXPECT_EQ(some.metadata.size(), limits.metadata_max);
  EXPECT_EQ(some.remarks.size(), 1u);
}

TEST(StreamV1, AnImageThatIsCutStillHasAName) {
  const auto bytes = read_file("bad_image_cut");
  EXPECT_EQ(name_of_v1_image(parts_of(bytes)), (std::pair<std::uint64_t, std::uint64_t>(3, 5)));
}

TEST(StreamV1, MutationsDoNoHarm) {
  std::mt19937 random(20261122);
  for (const auto& entry : std::filesystem::directory_iterator(corpus_folder())) {
    if (entry.path().extension() != ".v1") continue;
    const auto whole = read_bytes(entry.path());
    for (int round = 0; round < 50; ++round) {
      auto bytes = whole;
      for (int change = 0; change < 3; ++change) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      bytes.resize(1 + random() % bytes.size());
      const auto parts = parts_of(bytes);
      if (parts.empty()) continue;
      const auto parsed = parse_v1(parts, limits);
      EXPECT_TRUE(parsed.ok() || !parsed.error().message().empty());
    }
  }
}

}  // namespace
}  // namespace penstock::stream::test
