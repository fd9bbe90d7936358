#include "recorder/tree/nexus/nexus_names.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock::recorder {
namespace {

using nlohmann::json;

TEST(NexusNames, ASeriesNamesGoBeforeThoseOfTheConfiguration) {
  const auto configured =
      NexusNames::from_json(json::parse(R"({"source_name": "ESRF", "sample_name": "unnamed"})"), "nexus");
  ASSERT_TRUE(configured.ok());
  const auto names = NexusNames::of_series(
      R"({"penstock": {"nexus": {"sample_name": "lysozyme µ", "instrument_name": "ID1", "source_type": null,
                                  "user_name": "A. Person", "experiment_identifier": "MX-7"}}})",
      *configured);
  EXPECT_EQ(names.sample_name, "lysozyme µ");
  EXPECT_EQ(names.user_name, "A. Person");
  EXPECT_EQ(names.experiment_identifier, "MX-7");
  EXPECT_EQ(names.instrument_name, "ID1");
  EXPECT_EQ(names.source_name, "ESRF");
  EXPECT_EQ(names.source_type, "");
}

TEST(NexusNames, WhatIsWrongInAConfigurationIsRefused) {
  const std::string long_name(257, 'x');
  for (const auto& [object, said] : {
           std::pair<json, std::string>{json::array(), "nexus is []"},
           {{{"sample", "s"}}, "nexus.sample is not known"},
           {{{"sample_name", 5}}, "nexus.sample_name is 5"},
           {{{"source_name", "a\nb"}}, "without control characters"},
           {{{"source_name", long_name}}, "at most 256 bytes"},
           {{{"sensor_thickness", 0}}, "nexus.sensor_thickness is 0"},
           {{{"sensor_thickness", "thin"}}, "nexus.sensor_thickness is \"thin\""},
       }) {
    const auto names = NexusNames::from_json(object, "nexus");
    ASSERT_FALSE(names.ok()) << object.dump();
    EXPECT_NE(names.error().message().find(said), std::string::npos) << names.error().message();
  }
  EXPECT_TRUE(NexusNames::from_json({{"source_name", long_name.substr(1)}}, "nexus").ok());
}

TEST(NexusNames, NoNameIsWorthASeries) {
  NexusNames configured;
  configured.sample_name = "kept";
  for (const auto* told : {"no json", "[]", "{\"penstock\": 5}", R"({"penstock": {"nexus": []}})",
                           R"({"penstock": {"nexus": {"sample_name": 5, "other": "x"}}})"})
    EXPECT_EQ(NexusNames::of_series(told, configured).sample_name, "kept") << told;
  const auto names =
      NexusNames::of_series(R"({"penstock": {"nexus": {"sample_name": 5, "source_name": "ESRF"}}})", configured);
  EXPECT_EQ(names.source_name, "ESRF") << "the others are taken";
}

}  // namespace
}  // namespace penstock::recorder
