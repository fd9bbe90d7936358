#include "detector/simulation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/crc32c.hpp"
#include "detector/images/spots.hpp"

namespace penstock::detector {
namespace {

Simulation simulation_of(std::string_view json) {
  auto made = Simulation::from_json(json);
  if (!made) ADD_FAILURE() << made.error().message();
  return std::move(made).value();
}

std::vector<std::byte> frame_of(const Simulation& simulation, std::uint64_t number) {
  std::vector<std::byte> frame(simulation.spec().frame_bytes());
  simulation.make(number, frame);
  return frame;
}

template <typename T>
T pixel_of(const std::vector<std::byte>& frame, std::size_t pixel) {
  return load_le<T>(frame.data() + pixel * sizeof(T));
}

std::string error_of(std::string_view json) {
  const auto made = Simulation::from_json(json);
  return made ? "no error" : made.error().message();
}

/// The checksums hold for ever: a frame that is made again must equal the one in the file.
TEST(Simulation, KeepsItsPixels) {
  const struct {
    const char* json;
    std::uint64_t frame;
    std::uint32_t crc;
  } golden[] = {
      {R"({"rows":64,"columns":48,"type":"uint16"})", 0, 0x4a46904a},
      {R"({"rows":64,"columns":48,"type":"uint16"})", 5, 0xbfdf58ff},
      {R"({"rows":195,"columns":487,"type":"int32","seed":7,"spots":20,"hot_pixels":9,"dead_pixels":5,
           "gaps":[{"row":100,"column":0,"rows":7,"columns":487}],"background_mean":0.3})",
       3, 0x87857278},
      {R"({"rows":33,"columns":31,"type":"uint8","background_mean":40,"saturation_value":50})", 1, 0x46094368},
      {R"({"rows":40,"columns":50,"type":"uint32","background_mean":20000,"stamp":true})", 12345, 0x1fb97bf0},
      {R"({"rows":40,"columns":50,"type":"int16","background_mean":2,"beam_center":[-10,70.5]})", 2, 0xeaef3552},
  };
  for (const auto& each : golden)
    EXPECT_EQ(crc32c(frame_of(simulation_of(each.json), each.frame)), each.crc) << each.json << " frame " << each.frame;
}

TEST(Simulation, RoundsTripThroughJson) {
  const auto made = simulation_of(R"({"rows":64,"columns":48,"type":"int32","background_mean":0.3333333333333333,
    "gaps":[{"row":3,"column":0,"rows":2,"columns":48}],"seed":18446744073709551615,"stamp":true})");
  const auto again = simulation_of(made.spec().to_json());
  EXPECT_EQ(again.spec(), made.spec());
  EXPECT_EQ(frame_of(made, 77), frame_of(again, 77));
}

TEST(Simulation, CyclesItsImagesAndStampsFrames) {
  const auto plain = simulation_of(R"({"rows":32,"columns":32,"type":"uint16","distinct_frames":3})");
  EXPECT_EQ(frame_of(plain, 1), frame_of(plain, 4));
  EXPECT_NE(frame_of(plain, 1), frame_of(plain, 2));
  const auto stamped = simulation_of(R"({"rows":32,"columns":32,"type":"uint16","distinct_frames":3,"stamp":true})");
  const auto frame = frame_of(stamped, 0x123456789);
  EXPECT_EQ(load_le<std::uint64_t>(frame.data()), 0x123456789U);
  const auto image = frame_of(plain, 0x123456789);
  EXPECT_TRUE(std::equal(frame.begin() + 8, frame.end(), image.begin() + 8));
}

TEST(Simulation, HonoursGapsAndSaturation) {
  const auto made = simulation_of(R"({"rows":100,"columns":80,"type":"int32","background_mean":100,"spots":30,
    "spot_counts":5000,"saturation_value":150,"hot_pixels":50,"dead_pixels":40,
    "gaps":[{"row":40,"column":0,"rows":5,"columns":80},{"row":0,"column":10,"rows":100,"columns":3}]})");
  for (std::uint64_t number = 0; number < 4; ++number) {
    const auto frame = frame_of(made, number);
    std::int32_t highest = 0;
    for (std::size_t row = 0; row < 100; ++row)
      for (std::size_t column = 0; column < 80; ++column) {
        const auto value = pixel_of<std::int32_t>(frame, row * 80 + column);
        const bool gap = (row >= 40 && row < 45) || (column >= 10 && column < 13);
        if (gap) {
          EXPECT_EQ(value, -1);
        } else {
          EXPECT_GE(value, 0);
        }
        highest = std::max(highest, value);
      }
    EXPECT_EQ(highest, 150);
  }
}

TEST(Simulation, HasTheBackgroundAsked) {
  const auto made = simulation_of(R"({"rows":400,"columns":300,"type":"uint16","background_mean":2.5,"spots":0,
    "hot_pixels":0,"dead_pixels":0,"gaps":[{"row":0,"column":100,"rows":400,"columns":20}]})");
  double sum = 0, near = 0, far = 0;
  std::size_t pixels = 0;
  for (std::uint64_t number = 0; number < 8; ++number) {
    const auto frame = frame_of(made, number);
    for (std::size_t pixel = 0; pixel < 400 * 300; ++pixel)
      if (const auto value = pixel_of<std::uint16_t>(frame, pixel); value != 65535) sum += value, ++pixels;
    for (std::size_t at = 0; at < 10; ++at)
      near += pixel_of<std::uint16_t>(frame, 200 * 300 + 150 + at), far += pixel_of<std::uint16_t>(frame, at);
  }
  EXPECT_EQ(pixels, 8U * 400 * 280);
  // The levels are steps of a few per cent, each right on average.
  EXPECT_NEAR(sum / static_cast<double>(pixels), 2.5, 0.05);
  EXPECT_GT(near, 2 * far);
}

TEST(Simulation, PutsDefectsAtFixedPlaces) {
  const auto made = simulation_of(R"({"rows":100,"columns":100,"type":"uint16","background_mean":30,"spots":0,
    "hot_pixels":5,"dead_pixels":20,"background_floor":1,"ring_strength":0})");
  std::vector<int> zero(10000, 0), bright(10000, 0);
  for (std::uint64_t number = 0; number < 10; ++number) {
    const auto frame = frame_of(made, number);
    for (std::size_t pixel = 0; pixel < 10000; ++pixel) {
      zero[pixel] += pixel_of<std::uint16_t>(frame, pixel) == 0 ? 1 : 0;
      bright[pixel] += pixel_of<std::uint16_t>(frame, pixel) > 70 ? 1 : 0;
    }
  }
  EXPECT_EQ(std::count(zero.begin(), zero.end(), 10), 20);
  EXPECT_EQ(std::count(zero.begin(), zero.end(), 0), 9980);
  EXPECT_GE(std::count(bright.begin(), bright.end(), 10), 3);
}

TEST(Simulation, ShowsAboutTheSpotsAsked) {
  const auto made = simulation_of(R"({"rows":2000,"columns":1500,"type":"uint16","spots":400})");
  std::size_t sum = 0;
  for (std::uint64_t image = 0; image < 10; ++image) sum += spots_of(made.spec(), image).size();
  EXPECT_NEAR(static_cast<double>(sum) / 10, 400, 60);
  const auto first = spots_of(made.spec(), 0);
  const auto second = spots_of(made.spec(), 1);
  EXPECT_FALSE(first.front().row == second.front().row && first.front().column == second.front().column);
}

TEST(Simulation, SpotsOfOddShapesEnd) {
  // A strip with its beam far away must not walk a lattice of thousands of millions of nodes.
  const auto made = simulation_of(R"({"rows":1,"columns":1000000,"type":"uint8","beam_center":[-1000000,1000000]})");
  EXPECT_LT(spots_of(made.spec(), 0).size(), 1000U);
}

TEST(Simulation, ExponentialIsRight) {
  for (const double x : {0.0, 1e-9, 0.3, 1.0, 6.125, 40.0, 600.0})
    EXPECT_NEAR(falling_exponential(x) / std::exp(-x), 1, 1e-9) << x;
  EXPECT_EQ(falling_exponential(1e6), 0);
}

TEST(SimulationSpec, NamesWhatIsWrong) {
  EXPECT_EQ(error_of("{"), error_of("{"));
  EXPECT_NE(error_of("{").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of("[]").find("[] is not an object"), std::string::npos);
  EXPECT_EQ(error_of(R"({"rows":3,"type":"uint8"})"), "simulation.columns: this field is required");
  EXPECT_EQ(error_of(R"({"rows":0,"columns":3,"type":"uint8"})"), "simulation.rows: 0 is below the minimum of 1");
  EXPECT_EQ(error_of(R"({"rows":3,"columns":3,"type":"float32"})"),
            "simulation.type: \"float32\" is not one of uint8, uint16, uint32, int16, int32");
  EXPECT_NE(error_of(R"({"rows":1048576,"columns":1048576,"type":"uint8"})").find("1073741824 bytes"),
            std::string::npos);
  EXPECT_EQ(error_of(R"({"rows":3,"columns":3,"type":"uint8","colour":1})"), "simulation.colour: unknown field");
  EXPECT_EQ(error_of(R"({"rows":3,"columns":3,"type":"uint8","gap_value":256})"),
            "simulation.gap_value: 256 exceeds the maximum of 255");
  EXPECT_EQ(error_of(R"({"rows":3,"columns":3,"type":"uint8","gaps":[{"row":2,"rows":2}]})"),
            "simulation.gaps[0]: must lie within the frame of 3 x 3 pixels");
  EXPECT_NE(error_of(R"({"rows":3,"columns":3,"type":"uint8","seed":-1})").find("simulation.seed: -1"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"rows":3,"columns":3,"type":"uint8","background_mean":1e300})").find("background_mean"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"rows":3,"columns":3,"type":"uint8","version":2})").find("simulation.version: 2"),
            std::string::npos);
}

TEST(Simulation, MakesTheSmallestFrame) {
  const auto made = simulation_of(R"({"rows":1,"columns":1,"type":"uint8","stamp":true})");
  EXPECT_EQ(frame_of(made, 300), std::vector<std::byte>{std::byte{300 & 0xFF}});
}

}  // namespace
}  // namespace penstock::detector
