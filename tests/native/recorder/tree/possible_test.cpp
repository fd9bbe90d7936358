#include "recorder/tree/possible.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "recorder/tree/nexus/nexus.hpp"
#include "stream/messages/message.hpp"

namespace penstock::recorder {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinite = std::numeric_limits<double>::infinity();

Series good_series() {
  Series series;
  series.unique_id = "s";
  series.frames = 4;
  series.channels = {"1", "2"};
  series.frame = {ElementType::u16, {16, 32}};
  series.pixel_size_x_m = series.pixel_size_y_m = 75e-6;
  series.sensor_thickness_m = 450e-6;
  series.incident_wavelength_angstrom = 1;
  series.incident_energy_ev = 12398;
  series.count_time_s = 0;
  series.frame_time_s = 0.01;
  series.beam_center_x = series.beam_center_y = -10;
  series.detector_translation_m = {0, 0, -0.25};  // against the beam, as detectors tell it
  series.threshold_energy_ev = {{"1", 0}, {"2", 6000}};
  series.goniometer = {{"omega", 10, 0.1}, {"phi", 0, 0}};
  return series;
}

TEST(Possible, WhatMayBeStays) {
  auto series = good_series();
  EXPECT_TRUE(set_aside_impossible(series).empty());
  EXPECT_EQ(series.pixel_size_x_m, 75e-6);
  EXPECT_EQ(series.goniometer.size(), 2u);
  EXPECT_TRUE(series.unknown.empty());
}

TEST(Possible, WhatCannotBeIsNamedAndSetAside) {
  struct Case {
    std::string field, value;
    void (*spoil)(Series&);
  };
  const Case cases[] = {
      {"pixel_size_x", "0", [](Series& s) { s.pixel_size_x_m = 0; }},
      {"pixel_size_y", "nan", [](Series& s) { s.pixel_size_y_m = nan; }},
      {"sensor_thickness", "-0.001", [](Series& s) { s.sensor_thickness_m = -0.001; }},
      {"incident_wavelength", "inf", [](Series& s) { s.incident_wavelength_angstrom = infinite; }},
      {"incident_energy", "-1", [](Series& s) { s.incident_energy_ev = -1; }},
      {"count_time", "-0.5", [](Series& s) { s.count_time_s = -0.5; }},
      {"frame_time", "nan", [](Series& s) { s.frame_time_s = nan; }},
      {"beam_center_x", "nan", [](Series& s) { s.beam_center_x = nan; }},
      {"beam_center_y", "-inf", [](Series& s) { s.beam_center_y = -infinite; }},
      {"detector_translation", "[0, 0, nan]",
       [](Series& s) {
         s.detector_translation_m = {0, 0, nan};
       }},
      {"threshold_energy", "-5 of channel \"2\"", [](Series& s) { s.threshold_energy_ev["2"] = -5; }},
      {"goniometer", "nan + 0.1 a frame of axis \"omega\"", [](Series& s) { s.goniometer[0].start = nan; }},
  };
  for (const auto& each : cases) {
    auto series = good_series();
    each.spoil(series);
    const auto remarks = set_aside_impossible(series);
    ASSERT_EQ(remarks.size(), 1u) << each.field;
    EXPECT_TRUE(remarks[0].message().starts_with(each.field + " is " + each.value + ", expected "))
        << remarks[0].message();
    EXPECT_EQ(series.unknown.count(each.field + "_as_sent"), 1u) << each.field;
    EXPECT_TRUE(set_aside_impossible(series).empty()) << each.field << " is away";
    // Between ranks the series travels as a message.
    const auto again = stream::parse_message(stream::encode_start(series), {});
    ASSERT_TRUE(again.ok()) << again.error().message();
    EXPECT_EQ(std::get<Series>(*again).unknown.count(each.field + "_as_sent"), 1u);
  }
}

TEST(Possible, AScanThatCannotBeIsKeptAsItWasTold) {
  auto series = good_series();
  series.user_data_json = R"({"penstock": {"scan": {"axes": [], "order": "spiral"}}})";
  ASSERT_TRUE(set_scan_aside(series, make_error(Errc::invalid_argument, "order is \"spiral\"")));
  ASSERT_EQ(series.remarks.size(), 1u);
  EXPECT_TRUE(series.remarks[0].message().starts_with("order is \"spiral\": it is stored only as scan_as_sent"))
      << series.remarks[0].message();
  const auto& item = series.unknown.at("scan_as_sent");
  const auto* cbor = reinterpret_cast<const std::uint8_t*>(item.data());
  EXPECT_EQ(nlohmann::json::from_cbor(cbor, cbor + item.size())["order"], "spiral");
  for (const auto* none : {"{}", "no json", R"({"penstock": {"scan": null}})"}) {
    auto without = good_series();
    without.user_data_json = none;
    EXPECT_FALSE(set_scan_aside(without, make_error(Errc::internal, "of the configuration"))) << none;
    EXPECT_TRUE(without.unknown.empty() && without.remarks.empty());
  }
}

TEST(Possible, ReadersSeeNoNumberOfIt) {
  auto series = good_series();
  series.pixel_size_x_m = nan;
  series.detector_translation_m = {0, 0, infinite};
  (void)set_aside_impossible(series);
  bool kept = false;
  for (const auto& node : nexus_layout(series, DatasetFilters(2), {}).values) {
    EXPECT_FALSE(node.path.ends_with("/x_pixel_size") || node.path.ends_with("/distance")) << node.path;
    kept = kept || node.path == "/entry/penstock/start/pixel_size_x_as_sent";
  }
  EXPECT_TRUE(kept);
}

}  // namespace
}  // namespace penstock::recorder
