#include "recorder/config/scan.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

namespace penstock::recorder {
namespace {

using nlohmann::json;

ScanConfig scan_of(std::vector<std::uint64_t> shape, ScanConfig::Order order) {
  ScanConfig scan;
  for (const auto points : shape) scan.axes.push_back({fmt::format("axis{}", scan.axes.size()), points, {}, {}});
  scan.order = order;
  return scan;
}

Frame frame(std::uint64_t number, std::vector<std::pair<std::string, MetaValue>> metadata = {}) {
  Frame made;
  made.number = FrameNumber{number};
  made.metadata = std::move(metadata);
  return made;
}

/// The snake, written down by walking it: each pass of the inner axes goes the other way than the one before.
void walk(const std::vector<std::uint64_t>& shape, std::size_t axis, std::uint64_t base,
          std::vector<std::uint64_t>& places, std::vector<bool>& forward) {
  if (axis == shape.size()) {
    places.push_back(base);
    return;
  }
  for (std::uint64_t step = 0; step < shape[axis]; ++step) {
    const auto index = forward[axis] ? step : shape[axis] - 1 - step;
    walk(shape, axis + 1, base * shape[axis] + index, places, forward);
  }
  forward[axis] = !forward[axis];
}

TEST(Scan, ASnakeIsThatOfWalkingIt) {
  for (const auto& shape :
       std::vector<std::vector<std::uint64_t>>{{5}, {3, 4}, {4, 3}, {2, 3, 4}, {3, 3, 3}, {2, 1, 5}, {3, 2, 2, 3}}) {
    const auto scan = scan_of(shape, ScanConfig::Order::snake);
    std::vector<std::uint64_t> places;
    std::vector<bool> forward(shape.size(), true);
    walk(shape, 0, 0, places, forward);
    for (std::uint64_t number = 0; number < places.size(); ++number)
      EXPECT_EQ(*scan.place_of(frame(number)), places[number]) << "frame " << number;
    std::set<std::uint64_t> all(places.begin(), places.end());
    EXPECT_EQ(all.size(), scan.points());
    EXPECT_EQ(*all.rbegin(), scan.points() - 1);
  }
}

TEST(Scan, RasterAndSnakeGoOnAlongTheFirstAxis) {
  const auto raster = scan_of({2, 3}, ScanConfig::Order::raster);
  EXPECT_EQ(*raster.place_of(frame(7)), 7u);
  const auto snake = scan_of({2, 3}, ScanConfig::Order::snake);
  EXPECT_EQ(*snake.place_of(frame(6)), 6u);
  EXPECT_EQ(*snake.place_of(frame(9)), 11u) << "the fourth row backwards";
}

TEST(Scan, AGivenPlaceIsANumberOrAnIndexForEachAxis) {
  const auto scan = scan_of({4, 5}, ScanConfig::Order::given);
  const auto named = [&](const MetaValue& value) {
    return scan.place_of(frame(8, {{"position", value}})).error().message();
  };
  EXPECT_TRUE(named(std::int64_t{-3}).starts_with("image 8: \"position\" is -3, which is not a point of the scan"))
      << named(-3l);
  EXPECT_TRUE(named(2.5).starts_with("image 8: \"position\" is 2.5,"));
  EXPECT_TRUE(named(std::string("[4, 0]")).starts_with("image 8: \"position\" is \"[4, 0]\","));
  EXPECT_EQ(*scan.place_of(frame(0, {{"position", std::uint64_t{19}}})), 19u);
  EXPECT_EQ(*scan.place_of(frame(0, {{"other", 1.5}, {"position", std::int64_t{3}}})), 3u);
  EXPECT_EQ(*scan.place_of(frame(0, {{"position", std::string("[2, 3]")}})), 13u);
  const auto refused = [&](MetaValue value) {
    const auto place = scan.place_of(frame(8, {{"position", std::move(value)}}));
    return !place.ok() && place.error().message().find("image 8") != std::string::npos;
  };
  EXPECT_TRUE(refused(std::uint64_t{20})) << "beyond the grid";
  EXPECT_TRUE(refused(std::int64_t{-1}));
  EXPECT_TRUE(refused(1.0));
  EXPECT_TRUE(refused(std::string("[2, 5]")));
  EXPECT_TRUE(refused(std::string("[2]")));
  EXPECT_TRUE(refused(std::string("[[2, 3]]")));
  EXPECT_TRUE(refused(std::string(100'000, '[')));
  EXPECT_FALSE(scan.place_of(frame(8)).ok());
}

TEST(Scan, APlaceHasOneFrame) {
  ScanPlaces places;
  EXPECT_TRUE(places.claim(5, FrameNumber{1}).ok());
  EXPECT_TRUE(places.claim(5, FrameNumber{1}).ok()) << "sent again, or another channel";
  const auto second = places.claim(5, FrameNumber{2});
  EXPECT_EQ(second.error().code(), Errc::mismatch);
}

TEST(Scan, ReadsItsAxes) {
  const auto scan =
      ScanConfig::from_json(json::parse(R"({"axes": [{"name": "y", "points": 3, "start": 1, "step": 0.5, "units": "mm"},
                               {"name": "x", "values": [4, 8], "points": null}], "order": "snake"})"),
                            "scan");
  ASSERT_TRUE(scan.ok()) << scan.error().message();
  EXPECT_EQ(scan->shape(), (std::vector<std::uint64_t>{3, 2}));
  EXPECT_EQ(scan->axes[0].values, (std::vector<double>{1, 1.5, 2}));
  EXPECT_EQ(scan->axes[1].values, (std::vector<double>{4, 8}));
  EXPECT_FALSE(*ScanConfig::from_json(json::parse(R"({"axes": []})"), "scan"));
}

TEST(Scan, NamesWhatIsWrong) {
  for (const auto& [text, said] : std::vector<std::pair<const char*, const char*>>{
           {R"([])", "an object"},
           {R"({"axis": []})", "scan.axis"},
           {R"({"order": "spiral"})", "spiral"},
           {R"({"axes": [{"points": 2}]})", "axes[0].name"},
           {R"({"axes": [{"name": "a/b", "points": 2}]})", "a/b"},
           {R"({"axes": [{"name": "data", "points": 2}]})", "data"},
           {R"({"axes": [{"name": "y"}]})", "points is missing"},
           {R"({"axes": [{"name": "y", "points": 0}]})", "points is 0"},
           {R"({"axes": [{"name": "y", "points": -1}]})", "points is -1"},
           {R"({"axes": [{"name": "y", "points": 2, "values": [1]}]})", "1 numbers for 2 points"},
           {R"({"axes": [{"name": "y", "values": ["1"]}]})", "a list of at most 16777216 numbers"},
           {R"({"axes": [{"name": "y", "points": 2}, {"name": "y", "points": 2}]})", "another axis"},
           {R"({"axes": [{"name": "y", "points": 70000}, {"name": "x", "points": 70000}]})",
            "axes[1] has 70000 points"},
           {R"({"axes": [{"name": "y", "points": 16777217}]})", "points is 16777217"},
           {R"({"axes": [{"name": "y", "points": 2, "step": "1"}]})", "step"}}) {
    const auto scan = ScanConfig::from_json(json::parse(text), "scan");
    ASSERT_FALSE(scan.ok()) << text;
    EXPECT_NE(scan.error().message().find(said), std::string::npos) << scan.error().message();
  }
}

TEST(Scan, OfAStartMessageGoesBeforeTheConfiguration) {
  const auto configured = scan_of({7}, ScanConfig::Order::raster);
  EXPECT_EQ(ScanConfig::of_series(std::nullopt, configured)->points(), 7u);
  EXPECT_EQ(ScanConfig::of_series("{\"a\": 1}", configured)->points(), 7u);
  EXPECT_EQ(ScanConfig::of_series("no json", configured)->points(), 7u);
  EXPECT_EQ(
      ScanConfig::of_series(R"({"penstock": {"scan": {"axes": [{"name": "y", "points": 9}]}}})", configured)->points(),
      9u);
  EXPECT_FALSE(ScanConfig::of_series(R"({"penstock": {"scan": 5}})", configured).ok());
  EXPECT_FALSE(ScanConfig::of_series(R"({"penstock": 5})", configured)->points() != 7);
}

}  // namespace
}  // namespace penstock::recorder
