/// Layouts as data: plans that cannot be, and where objects go. tests/python/files/test_layout_end_to_end.py reads
/// files.

#include "recorder/tree/layout/user_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "recorder/tree/nexus/nexus.hpp"

namespace penstock::recorder {
namespace {

using nlohmann::json;

json frames_at(const std::string& path, std::uint64_t channel = 0) {
  return {{"kind", "frames"}, {"path", path}, {"channel", channel}};
}
json named_frames_at(const std::string& path, const char* channel) {
  return {{"kind", "frames"}, {"path", path}, {"channel", channel}};
}
json group_at(const std::string& path, const std::string& from = "") {
  return {{"kind", "group"}, {"path", path}, {"from", from}};
}
json value_at(const std::string& path, const json& metadata) {
  return {{"kind", "metadata"}, {"path", path}, {"metadata", metadata}};
}
json plan(std::vector<json> nodes) { return {{"name", "mine"}, {"nodes", nodes}}; }

Series series(std::vector<std::string> channels = {"1"}) {
  Series series;
  series.unique_id = "s";
  series.frames = 4;
  series.channels = std::move(channels);
  series.frame = {ElementType::u16, {16, 32}};
  series.pixel_size_x_m = 1e-4;
  return series;
}

UserLayout layout_of(const json& plan) {
  auto layout = UserLayout::from_json(plan);
  EXPECT_TRUE(layout.ok()) << layout.error().message();
  return std::move(layout).value();
}

store::FileLayout applied(const UserLayout& layout, const Series& series, const std::vector<MetaColumn>& columns = {},
                          const EdgeValues& edges = {}) {
  return layout.apply(nexus_layout(series, DatasetFilters(series.channels.size()), columns), series, columns, edges);
}

template <typename Nodes>
bool has(const Nodes& nodes, const std::string& path) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const auto& node) { return node.path == path; });
}

/// Every path once, and nothing but groups above anything: HDF5 can make it.
void can_be_made(const store::FileLayout& layout) {
  std::set<std::string> leaves;
  const auto add = [&](const std::string& path) { EXPECT_TRUE(leaves.insert(path).second) << path; };
  for (const auto& node : layout.values) add(node.path);
  for (const auto& node : layout.chunked) add(node.path);
  for (const auto& node : layout.columns) add(node.path);
  for (const auto& node : layout.links) add(node.path);
  for (const auto& node : layout.groups)
    for (auto end = node.path.size(); end != 0 && end != std::string::npos; end = node.path.rfind('/', end - 1))
      EXPECT_FALSE(leaves.contains(node.path.substr(0, end))) << node.path;
  for (const auto& leaf : leaves)
    for (auto end = leaf.rfind('/'); end != 0; end = leaf.rfind('/', end - 1))
      EXPECT_FALSE(leaves.contains(leaf.substr(0, end))) << leaf;
}

TEST(UserLayout, PlansThatCannotBeAreRefusedByName) {
  const std::pair<json, const char*> wrong[] = {
      {json::array(), "layout"},
      {{{"name", "a"}}, "layout.nodes"},
      {{{"name", "a"}, {"nodes", json::array()}, {"more", 1}}, "more"},
      {plan({{{"kind", "thing"}, {"path", "/a"}}}), "layout.nodes[0].kind"},
      {plan({frames_at("a")}), "layout.nodes[0].path"},
      {plan({frames_at("/a//b")}), "/a//b"},
      {plan({frames_at("/a/")}), "layout.nodes[0].path"},
      {plan({frames_at("/a/./b")}), "layout.nodes[0].path"},
      {plan({frames_at(std::string("/a\0b", 4))}), "layout.nodes[0].path"},
      {plan({frames_at("/")}), "layout.nodes[0].path"},
      {plan({frames_at("/entry/penstock/x")}), "/entry/penstock"},
      {plan({frames_at("/a", 99)}), "layout.nodes[0].channel"},
      {plan({frames_at("/a"), frames_at("/a", 1)}), "two objects have the path /a"},
      {plan({frames_at("/a"), frames_at("/a/b", 1)}), "/a/b lies below /a"},
      {plan({value_at("/a", {{"name", ""}})}), "metadata.name"},
      {plan({value_at("/a", {{"name", "x"}, {"when", "now"}})}), "metadata.when"},
      {plan({value_at("/a", {{"name", "x"}, {"type", "real"}})}), "metadata.type"},
      {plan({{{"kind", "constant"}, {"path", "/a"}, {"constant", {{"type", "uint8"}, {"value", 256}}}}}), "256"},
      {plan({{{"kind", "constant"},
              {"path", "/a"},
              {"constant", {{"type", "int8"}, {"value", json::array({1, "a"})}}}}}),
       "constant.value"},
      {plan({{{"kind", "constant"}, {"path", "/a"}, {"constant", {{"value", std::string("a\0b", 3)}}}}}), "text"},
      {plan({{{"kind", "series"}, {"path", "/a"}, {"from", "/elsewhere"}}}), "layout.nodes[0].from"},
      {plan({{{"kind", "link"}, {"path", "/a"}}}), "layout.nodes[0].target"},
      {plan({{{"kind", "group"}, {"path", "/a"}, {"attributes", json::array({{{"name", "x"}}})}}}), "attributes[0]"},
      {{{"name", "a"}, {"metadata_group", "/a"}, {"nodes", json::array({frames_at("/a")})}}, "metadata_group is /a"},
      {{{"name", "a"}, {"metadata_group", "/entry/penstock"}, {"nodes", json::array({frames_at("/a")})}},
       "layout.metadata_group"},
  };
  for (const auto& [object, where] : wrong) {
    const auto layout = UserLayout::from_json(object);
    ASSERT_FALSE(layout.ok()) << object.dump();
    EXPECT_NE(layout.error().message().find(where), std::string::npos) << layout.error().message() << " of " << object;
  }
}

TEST(UserLayout, EveryChannelHasAPlace) {
  const auto of = [](const json& plan) {
    const auto layout = applied(layout_of(plan), series({"a", "b", "c"}));
    can_be_made(layout);
    std::vector<std::string> paths;
    for (const auto& node : layout.chunked) paths.push_back(node.path);
    return paths;
  };
  using Paths = std::vector<std::string>;
  EXPECT_EQ(of(plan({frames_at("/x/data")})), (Paths{"/x/data", "/x/channel_1_b", "/x/channel_2_c"}));
  EXPECT_EQ(of(plan({frames_at("/x/data"), named_frames_at("/b", "b"), named_frames_at("/none", "z")})),
            (Paths{"/x/data", "/b", "/x/channel_2_c"}));
  EXPECT_EQ(of(plan({frames_at("/x", 2), frames_at("/y", 0)})), (Paths{"/y", "/channel_1_b", "/x"}));
  EXPECT_EQ(of(plan({group_at("/g", "/entry/data")})), (Paths{"/g/data", "/g/channel_1_b", "/g/channel_2_c"}));
  EXPECT_EQ(of(plan({frames_at("/x/data"), frames_at("/x/channel_1_b/under", 2)})),
            (Paths{"/x/data", "/entry/penstock/series/data/channel_1_b", "/x/channel_1_b/under"}));
}

TEST(UserLayout, WhatIsInTheWayMakesNothingGoLost) {
  // The user's dataset has the name of one that is taken over; another is where taken objects would lie below.
  const auto layout =
      applied(layout_of(plan({group_at("/d", "/entry/instrument/detector"),
                              frames_at("/d/x_pixel_size"),
                              {{"kind", "constant"}, {"path", "/d/module"}, {"constant", {{"value", "mine"}}}}})),
              series());
  can_be_made(layout);
  EXPECT_EQ(layout.chunked.front().path, "/d/x_pixel_size");
  EXPECT_TRUE(has(layout.values, "/entry/penstock/series/instrument/detector/x_pixel_size"));
  EXPECT_TRUE(has(layout.values, "/entry/penstock/series/instrument/detector/module/data_size"));
  EXPECT_TRUE(has(layout.values, "/d/bit_depth_readout"));
  EXPECT_FALSE(has(layout.values, "/entry/penstock/series/definition"));
}

TEST(UserLayout, GroupsThatAreTakenOverIntoEachOtherKeepTheirObjectsApart) {
  auto object = plan({group_at("/g", "/entry"), group_at("/g/source", "/entry/sample"), group_at("/g/definition"),
                      frames_at("/g/dose/under")});
  object["metadata_group"] = "/g";
  const std::vector<MetaColumn> columns{{"dose", ElementType::f64}, {"instrument", ElementType::f64}};
  const auto layout = applied(layout_of(object), series(), columns);
  can_be_made(layout);
  EXPECT_TRUE(has(layout.values, "/g/source/name"));                      // the sample's
  EXPECT_TRUE(has(layout.values, "/entry/penstock/series/source/name"));  // the source's
  EXPECT_FALSE(has(layout.values, "/g/definition"));                      // is a group of the user's
  EXPECT_TRUE(has(layout.columns, "/entry/penstock/metadata/dose"));      // there is a group of its name
  EXPECT_TRUE(has(layout.columns, "/g/instrument"));
  EXPECT_TRUE(has(layout.values, "/entry/penstock/series/instrument/name"));
}

TEST(UserLayout, ValuesOfFramesAreFoundAgainByTheirPlace) {
  auto object = plan({frames_at("/data"), value_at("/dose", {{"name", "dose"}}), value_at("/again", {{"name", "dose"}}),
                      value_at("/last", {{"name", "note"}, {"when", "last"}}),
                      value_at("/angle", {{"name", "th"}, {"type", "float"}})});
  for (const auto* group : {"", "/", "/slow"}) {
    if (*group != 0) object["metadata_group"] = group;
    const auto layout = layout_of(object);
    const auto columns = layout.complete({{"dose", ElementType::f64},
                                          {"note", ElementType::u8, 64},
                                          {"data", ElementType::i64},
                                          {"entry", ElementType::i64}});
    ASSERT_EQ(columns.size(), 5U);
    EXPECT_EQ(columns.back().name, "th");
    const auto made = applied(layout, series(), columns);
    can_be_made(made);
    for (std::size_t i = 0; i < columns.size(); ++i)
      EXPECT_EQ(layout.metadata_at(made.columns[fixed_columns + i].path), columns[i].name);
    EXPECT_EQ(layout.metadata_at(state_path), std::nullopt);
    EXPECT_TRUE(has(made.links, "/again"));
    EXPECT_EQ(made.columns[fixed_columns].path, "/dose");
  }
}

TEST(UserLayout, TheFirstAndTheLastFrameAreThoseByNumber) {
  const auto layout = layout_of(plan({frames_at("/data"), value_at("/first", {{"name", "x"}, {"when", "first"}}),
                                      value_at("/id", {{"name", "NDArrayUniqueId"}, {"when", "last"}})}));
  const auto frame = [&](std::uint64_t number, double x) {
    Frame made;
    made.number = FrameNumber{number};
    made.metadata = {{"x", x}, {"other", std::string("not wanted")}};
    layout.complete(made);
    return made;
  };
  EdgeValues here, elsewhere;
  layout.note(frame(5, 0.5), here);
  layout.note(frame(3, 0.3), here);
  layout.note(frame(4, 0.4), here);
  layout.note(frame(2, 0.2), elsewhere);
  layout.note(frame(9, 0.9), elsewhere);
  here.merge(edges_from(json::parse(to_json(elsewhere).dump())));
  EXPECT_EQ(here.first->number, 2U);
  EXPECT_EQ(here.last->number, 9U);
  const auto made = applied(layout, series(), {}, here);
  EXPECT_TRUE(has(made.values, "/first"));
  store::FinalValues own;
  own.values.push_back({"/entry/end_time", std::string("2026"), {}});
  const auto values = layout.apply(std::move(own), made, series(), {}, here);
  EXPECT_TRUE(has(values.values, "/entry/penstock/series/end_time"));
  const auto last =
      std::find_if(values.values.begin(), values.values.end(), [](const auto& v) { return v.path == "/id"; });
  ASSERT_NE(last, values.values.end());
  std::uint64_t number = 0;
  std::memcpy(&number, std::get<store::ArrayValue>(last->value).data.data(), sizeof number);
  EXPECT_EQ(number, 9U);
}

/// An element that tells nothing of a frame takes nothing away from what another one told, here or in another rank.
TEST(UserLayout, WhatAnyPartOfAnEdgeFrameTellsIsKnown) {
  const auto layout = layout_of(
      plan({frames_at("/data"), value_at("/x", {{"name", "x"}, {"when", "first"}}),
            value_at("/y", {{"name", "y"}, {"when", "last"}}), value_at("/z", {{"name", "z"}, {"when", "last"}})}));
  const auto part = [](Metadata metadata) {
    Frame made;
    made.number = FrameNumber{3};
    made.metadata = std::move(metadata);
    return made;
  };
  EdgeValues here, elsewhere;
  layout.note(part({{"x", 0.5}}), here);
  layout.note(part({}), here);
  layout.note(part({{"x", 7.5}, {"y", std::int64_t{1}}}), here);
  layout.note(part({{"z", std::string("told")}}), elsewhere);
  here.merge(elsewhere);
  for (const auto& edge : {here.first, here.last}) {
    ASSERT_TRUE(edge);
    EXPECT_EQ(edge->metadata.size(), 3U);
  }
  const auto made = applied(layout, series(), {}, here);
  for (const auto* path : {"/x", "/y", "/z"}) EXPECT_TRUE(has(made.values, path)) << path;
  const auto x = std::find_if(made.values.begin(), made.values.end(), [](const auto& v) { return v.path == "/x"; });
  ASSERT_NE(x, made.values.end());
  EXPECT_EQ(load_le<double>(std::get<store::ArrayValue>(x->value).data.data()), 0.5) << "the first one is used";
}

/// A recovery has to know which columns have what a killed recorder did not come to write.
TEST(UserLayout, ValuesOfTheLastFrameNameTheirColumns) {
  const auto with_last = [](const char* path) {
    auto group = group_at(path);
    group["attributes"] = json::array({{{"name", "at_end"}, {"metadata", {{"name", "x"}, {"when", "last"}}}}});
    return group;
  };
  const auto layout = layout_of(plan({frames_at("/data"), value_at("/x", {{"name", "x"}}), with_last("/g"),
                                      value_at("/last", {{"name", "x"}, {"when", "last"}}),
                                      value_at("/no_column", {{"name", "y"}, {"when", "last"}})}));
  const auto rows = [&](const std::vector<MetaColumn>& columns) {
    for (const auto& node : applied(layout, series(), columns).values)
      if (node.path == std::string(layout_path) + "/last_rows") return std::get<std::vector<std::string>>(node.value);
    return std::vector<std::string>();
  };
  EXPECT_EQ(rows({{"x", ElementType::f64}}), (std::vector<std::string>{"/x\t/g\tat_end", "/x\t/last"}));
  EXPECT_TRUE(rows({}).empty());
}

TEST(UserLayout, FramesThatDoNotBringAValueLeaveThatOfOthers) {
  const auto layout = layout_of(plan({frames_at("/data"), value_at("/first", {{"name", "x"}, {"when", "first"}}),
                                      value_at("/last", {{"name", "x"}, {"when", "last"}})}));
  EdgeValues edges;
  const auto note = [&](std::uint64_t number, Metadata metadata) {
    Frame frame;
    frame.number = FrameNumber{number};
    frame.metadata = std::move(metadata);
    layout.note(frame, edges);
  };
  note(2, {{"x", 0.5}});
  note(1, {});
  note(3, {});
  const auto made = applied(layout, series(), {}, edges);
  EXPECT_TRUE(has(made.values, "/first"));
  EXPECT_TRUE(has(made.values, "/last"));
}

TEST(UserLayout, AxisOfThePlotReplacesNoValueOfTheFrames) {
  auto object = plan({group_at("/plot", "/entry/data"), frames_at("/plot/data")});
  object["metadata_group"] = "/plot";
  const auto layout = layout_of(object);
  EXPECT_EQ(layout.plot_axis_path(series(), {{"time", ElementType::f64}}, "omega"), "/plot/omega");
  EXPECT_FALSE(layout.plot_axis_path(series(), {{"omega", ElementType::f64}}, "omega"));
}

json with_destination(json object) {
  object["destination"] = "where";
  return object;
}

TEST(UserLayout, FramesChooseAmongDatasets) {
  auto dark = frames_at("/a/dark"), image = frames_at("/a/image");
  const auto destinations = [&] {
    const auto layout = layout_of(with_destination(
        plan({dark, image, frames_at("/a/other", 1), {{"kind", "link"}, {"path", "/plot"}, {"target", "/a/dark"}}})));
    EXPECT_TRUE(layout.has_destinations());
    const auto& of_series = series({"1", "2"});
    const auto columns = layout.complete({{"where", ElementType::i64}});
    EXPECT_GT(columns.front().text_bytes, 0u) << "whatever the first frame brings";
    const auto made = applied(layout, of_series, columns);
    can_be_made(made);
    EXPECT_EQ(made.chunked[0].path, "/entry/penstock/frames/data");
    EXPECT_EQ(made.chunked[1].path, "/a/other");
    EXPECT_EQ(made.subsets->choice, "/entry/penstock/metadata/where");
    EXPECT_EQ(made.columns.back().path, made.subsets->numbers);
    EXPECT_TRUE(has(made.links, "/plot"));
    std::vector<std::string> paths;
    for (const auto& subset : made.subsets->datasets) paths.push_back(subset.path);
    return paths;
  };
  EXPECT_EQ(destinations(), (std::vector<std::string>{"/a/dark", "/a/image"})) << "the first by path";
  image["default"] = true;
  EXPECT_EQ(destinations(), (std::vector<std::string>{"/a/image", "/a/dark"}));
}

TEST(UserLayout, OneDatasetOrAScanHasNoDestinations) {
  const auto one = layout_of(with_destination(plan({frames_at("/data"), frames_at("/other", 1)})));
  EXPECT_FALSE(one.has_destinations());
  EXPECT_EQ(applied(one, series()).chunked[0].path, "/data");
  const auto two = layout_of(with_destination(plan({frames_at("/a"), frames_at("/b")})));
  auto own = nexus_layout(series(), DatasetFilters(1), {});
  own.chunked[0].scan_shape = {2, 2};
  const auto made = two.apply(std::move(own), series(), {}, {});
  EXPECT_FALSE(made.subsets);
  EXPECT_EQ(made.chunked[0].path, "/a");
}

TEST(UserLayout, MessagesBetweenRanksThatAreNotUnderstoodAreLeftOut) {
  for (const auto* text :
       {"null", "3", "{}", R"({"first": 3})", R"({"first": {"values": [[1, 2], ["a", null], 5]}})"}) {
    const auto edges = edges_from(json::parse(text));
    EXPECT_FALSE(edges.last);
    EXPECT_TRUE(!edges.first || edges.first->metadata.empty());
  }
}

}  // namespace
}  // namespace penstock::recorder
