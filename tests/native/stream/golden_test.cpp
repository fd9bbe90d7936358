/// What Penstock encodes, byte for byte. tests/python/sources/test_stream_vectors.py reads the same files with
/// another decoder. With PENSTOCK_WRITE_GOLDEN set the test writes the files anew.
#include <gtest/gtest.h>

#include <cstdlib>

#include "samples.hpp"
#include "stream/messages/cbor_json.hpp"
#include "vectors.hpp"

namespace penstock::stream::test {
namespace {

void expect_golden(const std::string& name, const std::vector<std::byte>& encoded) {
  const auto path = corpus_folder() / ("encoded_" + name + ".cbor");
  if (std::getenv("PENSTOCK_WRITE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << as_text(encoded);
    return;
  }
  EXPECT_EQ(as_text(encoded), as_text(read_bytes(path))) << path;
}

Series full_series() {
  auto series = sample_series("golden", 3, 4);
  series.channels = {"threshold_1", "threshold_2"};
  series.beam_center_x = 1.5;
  series.beam_center_y = 2.25;
  series.count_time_s = 0.0099;
  series.detector_description = "A détecteur";
  series.detector_translation_m = {0.0, -0.25, 0.125};
  series.saturation_value = 65534;
  series.flatfield_enabled = true;
  series.threshold_energy_ev = {{"threshold_1", 6200.0}};
  series.goniometer = {{"omega", 10.25, 0.5}};
  series.pixel_mask = {{"threshold_1", {ElementType::u32, {3, 4}}, sample_pixels(1, 20), Encoding::bitshuffle_lz4}};
  series.flatfield = {{"threshold_1", {ElementType::f32, {3, 4}}, std::vector<std::byte>(48), Encoding::none}};
  series.user_data_json = R"({"sample":"lysozyme","list":[1,2.5,null,true]})";
  series.unknown["tomorrow"];
  CborWriter writer(series.unknown["tomorrow"]);
  write_json(writer, R"({"deep":[1]})");
  return series;
}

ImageMessage full_image(Bytes first, Bytes second) {
  auto image = sample_image(full_series(), 70'000, first);
  image.start_ns = 333'333'333;
  image.stop_ns = 343'233'333;
  image.real_ns = 9'900'000;
  image.series_date = "2026-11-20T10:00:00Z";
  image.metadata = {{"gain", std::int64_t{-4}}, {"dose", 1.5}, {"note", std::string("µ")}};
  image.channels.push_back({"threshold_2", {ElementType::u16, {3, 4}}, Encoding::bitshuffle_lz4, second});
  return image;
}

TEST(Golden, EncodersWriteTheseBytes) {
  const auto first = sample_pixels(1, 24);
  const auto second = sample_pixels(2, 30);
  const auto image = full_image(first, second);
  expect_golden("start", encode_start(full_series()));
  expect_golden("image", encode_image(image));
  std::vector<std::byte> detached;
  encode_image_detached(image, detached);
  expect_golden("image_detached", detached);
  expect_golden("end", encode_end({7, "golden"}));
}

}  // namespace
}  // namespace penstock::stream::test
