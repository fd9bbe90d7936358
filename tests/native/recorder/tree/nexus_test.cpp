/// The tree of a series as data; tests/python/files/test_nexus.py reads it with the field's own readers.

#include "recorder/tree/nexus/nexus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "recorder/tree/nexus/nexus_sensor.hpp"

namespace penstock::recorder {
namespace {

Series series() {
  Series series;
  series.unique_id = "s";
  series.frames = 4;
  series.channels = {"1"};
  series.frame = {ElementType::u16, {16, 32}};
  return series;
}

class Nodes {
 public:
  explicit Nodes(const Series& series, const NexusNames& names = {})
      : layout_(nexus_layout(series, DatasetFilters(series.channels.size()), {}, {}, names)) {}

  const store::ValueNode* find(const std::string& path) const {
    const auto found =
        std::find_if(layout_.values.begin(), layout_.values.end(), [&](const auto& node) { return node.path == path; });
    return found == layout_.values.end() ? nullptr : &*found;
  }
  bool has(const std::string& path) const { return find(path) != nullptr; }
  std::string text(const std::string& path) const {
    return has(path) ? std::get<std::string>(find(path)->value) : "no " + path;
  }
  static std::vector<double> numbers_of(const store::Value& value) {
    const auto& array = std::get<store::ArrayValue>(value);
    std::vector<double> numbers(array.data.size() / sizeof(double));
    std::memcpy(numbers.data(), array.data.data(), array.data.size());
    return numbers;
  }
  std::vector<double> numbers(const std::string& path) const {
    return has(path) ? numbers_of(find(path)->value) : std::vector<double>{};
  }
  std::uint32_t count(const std::string& path) const {
    return has(path) ? load_le<std::uint32_t>(std::get<store::ArrayValue>(find(path)->value).data.data()) : 0;
  }
  std::int64_t integer(const std::string& path) const {
    return has(path) ? load_le<std::int64_t>(std::get<store::ArrayValue>(find(path)->value).data.data()) : -1;
  }
  std::vector<double> attribute(const std::string& path, const std::string& name) const {
    if (!has(path)) return {};
    for (const auto& attribute : find(path)->attributes)
      if (attribute.name == name) return numbers_of(attribute.value);
    return {};
  }
  std::size_t paths_twice() const {
    std::vector<std::string> paths;
    for (const auto& node : layout_.values) paths.push_back(node.path);
    std::sort(paths.begin(), paths.end());
    const auto last = std::unique(paths.begin(), paths.end());
    return static_cast<std::size_t>(paths.end() - last);
  }

 private:
  store::FileLayout layout_;
};

const std::string detector = "/entry/instrument/detector/";
const std::string sample = "/entry/sample/";

TEST(Nexus, WhatWasNotToldIsNotThere) {
  const Nodes nodes(series());
  EXPECT_FALSE(nodes.has(detector + "module/fast_pixel_direction"));
  EXPECT_FALSE(nodes.has(detector + "module/module_offset"));
  EXPECT_FALSE(nodes.has(detector + "transformations/translation"));
  EXPECT_FALSE(nodes.has(detector + "distance"));
  EXPECT_EQ(nodes.text(detector + "depends_on"), ".");
  EXPECT_EQ(nodes.text(sample + "depends_on"), ".");
  EXPECT_TRUE(nodes.has(detector + "module/data_size"));
}

TEST(Nexus, ADistanceAloneLeadsToTheBeamCentre) {
  auto told = series();
  told.pixel_size_x_m = told.pixel_size_y_m = 1e-4;
  told.beam_center_x = 10;
  told.beam_center_y = 5;
  told.detector_translation_m = {0, 0, 0.2};
  const Nodes nodes(told);
  EXPECT_EQ(nodes.numbers(detector + "transformations/translation"), (std::vector<double>{0.2}));
  EXPECT_EQ(nodes.attribute(detector + "module/module_offset", "offset"), (std::vector<double>{1e-3, 5e-4, 0}));
}

TEST(Nexus, AFullTranslationLeadsToTheFirstPixelAgainstDetectorsZ) {
  auto told = series();
  told.pixel_size_x_m = told.pixel_size_y_m = 1e-4;
  told.beam_center_x = 10;
  told.beam_center_y = 5;
  told.detector_translation_m = {0.3, 0, -0.4};
  const Nodes nodes(told);
  EXPECT_EQ(nodes.numbers(detector + "transformations/translation"), (std::vector<double>{0.5}));
  EXPECT_EQ(nodes.attribute(detector + "transformations/translation", "vector"), (std::vector<double>{0.6, 0, 0.8}));
  EXPECT_EQ(nodes.attribute(detector + "module/module_offset", "offset"), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(nodes.numbers(detector + "distance"), (std::vector<double>{0.4}));
  EXPECT_EQ(nodes.numbers("/entry/penstock/detector_translation"), (std::vector<double>{0.3, 0, -0.4}));
}

TEST(Nexus, ReadersOfEigerFilesFindTheirOwnNames) {
  auto told = series();
  told.detector_translation_m = {0, 0, -0.2};
  told.incident_energy_ev = 12000;
  told.saturation_value = std::uint64_t{1} << 40;
  const Nodes nodes(told);
  EXPECT_EQ(nodes.numbers(detector + "detector_distance"), (std::vector<double>{0.2}));
  EXPECT_EQ(nodes.numbers(detector + "distance"), (std::vector<double>{0.2}));
  EXPECT_EQ(nodes.numbers(detector + "detectorSpecific/photon_energy"), (std::vector<double>{12000}));
  EXPECT_EQ(nodes.count(detector + "detectorSpecific/x_pixels_in_detector"), 32u);
  EXPECT_EQ(nodes.count(detector + "detectorSpecific/y_pixels_in_detector"), 16u);
  EXPECT_EQ(nodes.count(detector + "detectorSpecific/countrate_correction_count_cutoff"), 0xFFFFFFFFu);
  told.incident_energy_ev.reset();
  told.incident_wavelength_angstrom = 1;
  EXPECT_NEAR(Nodes(told).numbers(detector + "detectorSpecific/photon_energy").at(0), 12398.42, 0.01);
  const Nodes untold(series());
  EXPECT_FALSE(untold.has(detector + "detector_distance"));
  EXPECT_FALSE(untold.has(detector + "detectorSpecific/photon_energy"));
  EXPECT_FALSE(untold.has(detector + "detectorSpecific/countrate_correction_count_cutoff"));
}

TEST(Nexus, TheTitleIsTheSeriesNameUnlessOneIsTold) {
  EXPECT_EQ(Nodes(series()).text("/entry/title"), "s");
  NexusNames names;
  names.title = "lysozyme, second crystal";
  EXPECT_EQ(Nodes(series(), names).text("/entry/title"), "lysozyme, second crystal");
  auto nameless = series();
  nameless.unique_id.clear();
  EXPECT_FALSE(Nodes(nameless).has("/entry/title"));
}

TEST(Nexus, FramesNameTheValueOfPixelsWithoutData) {
  for (const auto type : {ElementType::u8, ElementType::u16, ElementType::i32, ElementType::f64}) {
    auto told = series();
    told.frame.type = type;
    const auto layout = nexus_layout(told, DatasetFilters(1), {});
    const auto& attributes = layout.chunked.front().attributes;
    const auto found = std::find_if(attributes.begin(), attributes.end(),
                                    [](const auto& attribute) { return attribute.name == "_FillValue"; });
    ASSERT_NE(found, attributes.end());
    const auto& value = std::get<store::ArrayValue>(found->value);
    EXPECT_EQ(value.spec, (ArraySpec{type, {}}));
    EXPECT_EQ(value.data, layout.chunked.front().fill);
  }
}

TEST(Nexus, TheChainHasTheScanAxisAlone) {
  auto told = series();
  told.goniometer = {{"chi", 30, 0}, {"omega", 10, 0.5}, {"phi", 90, 0}, {"two_theta", 20, 0}};
  const Nodes nodes(told);
  EXPECT_EQ(nodes.text(sample + "depends_on"), sample + "transformations/omega");
  EXPECT_EQ(nodes.numbers(sample + "transformations/omega"), (std::vector<double>{10, 10.5, 11, 11.5}));
  EXPECT_EQ(nodes.numbers(sample + "transformations/omega_end"), (std::vector<double>{10.5, 11, 11.5, 12}));
  EXPECT_EQ(nodes.attribute(sample + "transformations/omega", "vector"), (std::vector<double>{-1, 0, 0}));
  EXPECT_EQ(nodes.numbers(sample + "transformations/chi"), (std::vector<double>{30}));
  EXPECT_TRUE(nodes.attribute(sample + "transformations/chi", "vector").empty());
  EXPECT_EQ(nodes.numbers(detector + "transformations/two_theta"), (std::vector<double>{20}));
  EXPECT_FALSE(nodes.has(sample + "transformations/two_theta"));
}

TEST(Nexus, AnotherAxisIsTheScanAxisWhereOmegaStands) {
  auto told = series();
  told.goniometer = {{"omega", 10, 0}, {"phi", 0, 0.1}};
  EXPECT_EQ(Nodes(told).text(sample + "depends_on"), sample + "transformations/phi");
  told.goniometer = {{"chi", 0, 0}, {"omega", 10, 0}};
  EXPECT_EQ(Nodes(told).text(sample + "depends_on"), sample + "transformations/omega");
  told.goniometer = {{"two_theta", 0, 1}};
  EXPECT_EQ(Nodes(told).text(sample + "depends_on"), ".");
}

TEST(Nexus, AStandingScanAxisHasAnAngleForEachFrame) {
  auto told = series();
  told.goniometer = {{"chi", 30, 0}, {"omega", 10, 0}};
  const Nodes nodes(told);
  EXPECT_EQ(nodes.numbers(sample + "transformations/omega"), (std::vector<double>{10, 10, 10, 10}));
  EXPECT_EQ(nodes.numbers(sample + "transformations/omega_end"), (std::vector<double>{10, 10, 10, 10}));
  EXPECT_EQ(nodes.numbers(sample + "transformations/chi"), (std::vector<double>{30}));
}

TEST(Nexus, BitsAreThoseOfTheImagesAndFlagsAreBelowTheLeastCount) {
  auto told = series();
  told.bit_depth_readout = 12;
  const Nodes nodes(told);
  EXPECT_EQ(nodes.integer(detector + "bit_depth_readout"), 16);
  EXPECT_EQ(nodes.integer("/entry/penstock/bit_depth_readout"), 12);
  EXPECT_EQ(nodes.integer(detector + "underload_value"), 0);
  told.frame.type = ElementType::f32;
  EXPECT_FALSE(Nodes(told).has(detector + "underload_value"));
}

TEST(Nexus, TheSensorIsThatOfTheStartMessageOrElseOfTheConfiguration) {
  NexusNames names;
  names.sensor_material = "silicon";
  names.sensor_thickness_m = 4.5e-4;
  auto told = series();
  EXPECT_EQ(Nodes(told).text(detector + "sensor_material"), "unknown");
  EXPECT_EQ(Nodes(told, names).text(detector + "sensor_material"), "Si") << "as DIALS knows it";
  EXPECT_EQ(Nodes(told, names).numbers(detector + "sensor_thickness"), (std::vector<double>{4.5e-4}));
  told.sensor_material = "CdTe";
  told.sensor_thickness_m = 1e-3;
  EXPECT_EQ(Nodes(told, names).text(detector + "sensor_material"), "CdTe");
  EXPECT_EQ(Nodes(told, names).numbers(detector + "sensor_thickness"), (std::vector<double>{1e-3}));
  EXPECT_EQ(sensor_problem(sensor_of(told, {})), "");
  told.sensor_material = "CsI";
  EXPECT_NE(sensor_problem(sensor_of(told, {})).find("sensor_material is CsI"), std::string::npos);
  EXPECT_NE(sensor_problem(sensor_of(series(), {})).find("nexus.sensor_thickness"), std::string::npos);
}

TEST(Nexus, TheFirstChannelHasThePlainNames) {
  auto told = series();
  told.channels = {"threshold_1", "difference"};
  told.threshold_energy_ev = {{"difference", 3e3}, {"threshold_1", 5e3}, {"threshold_2", 8e3}};
  const std::vector<std::byte> map(16 * 32 * 4);
  told.pixel_mask = {{"difference", {ElementType::u32, {16, 32}}, map},
                     {"threshold_1", {ElementType::u32, {16, 32}}, map}};
  const Nodes nodes(told);
  EXPECT_EQ(nodes.numbers(detector + "threshold_energy"), (std::vector<double>{5e3}));
  EXPECT_EQ(nodes.numbers(detector + "threshold_energy_threshold_2"), (std::vector<double>{8e3}));
  EXPECT_TRUE(nodes.has(detector + "pixel_mask"));
  EXPECT_TRUE(nodes.has(detector + "pixel_mask_difference"));
}

TEST(Nexus, NamesThatSendersChoseNeverCollideNorLeaveTheirGroup) {
  auto told = series();
  told.goniometer = {{"../../x", 0, 1}, {"a b", 0, 1}, {"a_b", 0, 1}, {"", 0, 1}, {"a_b_end", 0, 1}};
  for (const auto* name : {"a b", "a_b", "", "_"}) told.unknown[name] = {std::byte{1}};
  told.threshold_energy_ev = {{"x/y", 1}, {"x_y", 2}};
  const Nodes nodes(told);
  EXPECT_EQ(nodes.paths_twice(), 0u);
  EXPECT_TRUE(nodes.has(sample + "transformations/______x"));
  EXPECT_TRUE(nodes.has("/entry/penstock/start/a_b_"));
}

}  // namespace
}  // namespace penstock::recorder
