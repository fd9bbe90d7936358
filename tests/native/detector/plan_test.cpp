#include "detector/plan.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/bytes.hpp"

namespace penstock::detector {
namespace {

using nlohmann::json;

json good_plan() {
  return json::parse(R"({
    "detector": {"name": "PILATUS 6M", "description": "hybrid photon counter", "vendor": "kept for people",
                 "rows": 400, "columns": 487, "type": "int32", "pixel_size_m": [172e-6, 171e-6],
                 "sensor_material": "Si", "sensor_thickness_m": 320e-6, "saturation_value": 1048575, "gap_value": -1,
                 "gaps": [{"row": 195, "column": 0, "rows": 17, "columns": 487}],
                 "simulation": {"background_mean": 2.5}},
    "frames": 100, "rate_hz": 25.0, "seed": 3, "distinct_frames": 16, "ratio": null, "replay": null, "stamp": true,
    "encoding": "none", "to": {"kind": "tcp", "host": "127.0.0.1", "port": 9900, "token": null},
    "series_id": 4, "series_unique_id": "run-4", "connect_timeout_s": 10, "log_level": "info"})");
}

Result<DetectorPlan> read(const json& plan) { return DetectorPlan::from_json(plan.dump(), 1'700'000'000'123'456'789); }

std::string error_of(const json& plan) {
  const auto result = read(plan);
  return result ? "no error" : result.error().message();
}

TEST(DetectorPlan, ReadsAllOfIt) {
  const auto plan = read(good_plan());
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->frames, 100U);
  EXPECT_EQ(plan->series.id, 4U);
  EXPECT_EQ(plan->series.unique_id, "run-4");
  EXPECT_EQ(plan->series.arm_date, "2023-11-14T22:13:20.123456+00:00");
  EXPECT_EQ(plan->series.frame, (ArraySpec{ElementType::i32, {400, 487}}));
  EXPECT_EQ(plan->series.pixel_size_y_m, 172e-6);
  EXPECT_EQ(plan->series.pixel_size_x_m, 171e-6);
  EXPECT_EQ(plan->series.saturation_value, 1048575U);
  EXPECT_EQ(plan->series.frame_time_s, 0.04);
  EXPECT_EQ(plan->simulation.background_mean, 2.5);
  EXPECT_EQ(plan->simulation.seed, 3U);
  EXPECT_TRUE(plan->simulation.stamp);
  EXPECT_EQ(std::get<ToTcp>(plan->to).peers.at(0).port, 9900);
  ASSERT_EQ(plan->series.pixel_mask.size(), 1U);
  const auto& mask = plan->series.pixel_mask[0];
  EXPECT_EQ(load_le<std::uint32_t>(mask.data.data() + 4 * 194 * 487), 0U);
  EXPECT_EQ(load_le<std::uint32_t>(mask.data.data() + 4 * 195 * 487), 1U);
  EXPECT_EQ(load_le<std::uint32_t>(mask.data.data() + 4 * (212 * 487 - 1)), 1U);
  EXPECT_EQ(load_le<std::uint32_t>(mask.data.data() + 4 * 212 * 487), 0U);
}

TEST(DetectorPlan, StampsRawFramesOnly) {
  auto plan = good_plan();
  plan["encoding"] = "bslz4";
  EXPECT_FALSE(read(plan)->simulation.stamp);
}

TEST(DetectorPlan, MakesNoMoreImagesThanFrames) {
  auto plan = good_plan();
  plan["frames"] = 5;
  EXPECT_EQ(read(plan)->simulation.distinct_frames, 5U);
}

TEST(DetectorPlan, ReplaysAnyElementType) {
  auto plan = good_plan();
  plan["detector"]["type"] = "float32";
  EXPECT_EQ(error_of(plan), "detector.type: \"float32\" is not one of uint8, uint16, uint32, int16, int32");
  plan["replay"] = "images.npy";
  ASSERT_TRUE(read(plan)) << error_of(plan);
  EXPECT_EQ(read(plan)->series.frame.type, ElementType::f32);
}

TEST(DetectorPlan, NamesWhatIsWrong) {
  const auto with = [](const char* pointer, const json& value) {
    auto plan = good_plan();
    plan[json::json_pointer(pointer)] = value;
    return error_of(plan);
  };
  EXPECT_NE(DetectorPlan::from_json("nonsense", 0).error().message().find("the plan is not valid JSON"),
            std::string::npos);
  EXPECT_EQ(with("/frames", nullptr), "frames: this field is required");
  EXPECT_EQ(with("/frames", 0), "frames: 0 is below the minimum of 1");
  EXPECT_EQ(with("/rate_hz", -1), "rate_hz: -1 is below the minimum of 0");
  EXPECT_EQ(with("/encoding", "zip"), "encoding: \"zip\" is not one of none, bslz4, bszstd, lz4, zstd, deflate");
  EXPECT_EQ(with("/to/kind", "ftp"), "to.kind: \"ftp\" is not one of tcp, zmq, files");
  EXPECT_EQ(with("/to/port", 70000), "to.port: 70000 exceeds the maximum of 65535");
  EXPECT_EQ(with("/to/colour", 1), "to.colour: unknown field");
  EXPECT_EQ(with("/freindly", 1), "freindly: unknown field");
  EXPECT_NE(with("/detector/rows", "many").find("detector.rows: \"many\" is not a whole number"), std::string::npos);
  EXPECT_NE(with("/detector/simulation", json{{"glow", 1}}).find("detector.simulation.glow: unknown field"),
            std::string::npos);
  EXPECT_NE(with("/series_unique_id", "").find("series_unique_id: \"\" must not be empty"), std::string::npos);
}

TEST(DetectorPlan, FaultsAreCheckedToo) {
  const auto with = [](const json& rule) {
    auto plan = good_plan();
    plan["faults"] = {{"rules", {rule}}};
    return error_of(plan);
  };
  EXPECT_NE(with({{"rate", 1}}).find("faults.rules[0].kind: this field is required"), std::string::npos);
  EXPECT_NE(with({{"kind", "melt"}}).find("faults.rules[0].kind: \"melt\" is not one of drop"), std::string::npos);
  EXPECT_NE(with({{"kind", "drop"}, {"rate", 1.5}}).find("faults.rules[0].rate: 1.5 exceeds the maximum of 1"),
            std::string::npos);
  EXPECT_NE(
      with({{"kind", "drop"}, {"by_frames", 2}}).find("faults.rules[0].by_frames: 2 must be left out with this kind"),
      std::string::npos);
  EXPECT_NE(with({{"kind", "late"}, {"by_frames", 70000}}).find("by_frames: 70000 exceeds"), std::string::npos);
  EXPECT_NE(with({{"kind", "drop"}, {"element", 32}}).find("element: 32 exceeds the maximum of 31"), std::string::npos);
  for (const auto& frames : {json(3), json{3}, json{{5, 3}}, json{{-1, 3}}, json{{1, 2, 3}}})
    EXPECT_NE(with({{"kind", "drop"}, {"frames", frames}}).find("faults.rules[0].frames: "), std::string::npos);
  auto plan = good_plan();
  plan["faults"] = {{"rules", json::array({{{"kind", "drop"}, {"frames", {{2, 3}}}, {"element", 1}}})}};
  const auto faults = read(plan)->faults;
  EXPECT_EQ(faults.rule_for(2, 0), nullptr);
  EXPECT_EQ(faults.rule_for(1, 1), nullptr);
  EXPECT_EQ(faults.rule_for(3, 1), &faults.rules[0]);
  EXPECT_EQ(faults.rule_for(4, 1), nullptr);
  plan["to"] = {{"kind", "files"}, {"folder", "out"}};
  EXPECT_NE(error_of(plan).find("must be left out with to.kind files"), std::string::npos);
}

TEST(DetectorPlan, EachElementHasAnEndpoint) {
  auto plan = good_plan();
  plan["elements"] = {2, 1};
  plan["to"] = {{"kind", "zmq"}, {"endpoint", "tcp://127.0.0.1:1"}};
  EXPECT_NE(error_of(plan).find("1 endpoints (endpoint and more) for 2 elements"), std::string::npos);
  plan["to"]["more"] = 3;
  EXPECT_EQ(error_of(plan), "to.more: 3 is not a list");
  plan["to"]["more"] = json::array({"tcp://127.0.0.1:2"});
  plan["elements_told"] = false;
  ASSERT_TRUE(read(plan)) << error_of(plan);
  EXPECT_EQ(std::get<ToZmq>(read(plan)->to).endpoints.back(), "tcp://127.0.0.1:2");
  plan["element_gap"] = {1, 0};
  EXPECT_EQ(error_of(plan), "element_gap requires elements_told, because start messages carry it");
  plan["to"] = good_plan()["to"];
  EXPECT_NE(error_of(plan).find("elements_told: false requires elements over zmq"), std::string::npos);
  plan["to"] = {{"kind", "files"}, {"folder", "out"}};
  EXPECT_NE(error_of(plan).find("cannot be written to files"), std::string::npos);
}

TEST(DetectorPlan, FileNamesStayInTheFolder) {
  auto plan = good_plan();
  for (const char* name : {"../up", "a/b", "..", ".hidden", ""}) {
    plan["to"] = {{"kind", "files"}, {"folder", "out"}, {"format", "cbf"}, {"prefix", name}};
    EXPECT_NE(error_of(plan).find("to.prefix: \"" + std::string(name) + "\""), std::string::npos) << error_of(plan);
  }
  plan["to"] = {{"kind", "files"}, {"folder", "out"}};
  plan["series_unique_id"] = "../../etc/cron";
  EXPECT_NE(error_of(plan).find("stay in the folder"), std::string::npos);
  plan["series_unique_id"] = "fine";
  EXPECT_EQ(std::get<ToFiles>(read(plan)->to).prefix, "fine");
  plan["encoding"] = "bslz4";
  EXPECT_EQ(error_of(plan), "encoding: \"bslz4\" must be none when writing files");
}

}  // namespace
}  // namespace penstock::detector
