#include "store/format/description.hpp"

#include <gtest/gtest.h>

#include "../support/rounds.hpp"

namespace penstock::store::format {
namespace {

FileLayout example() {
  FileLayout layout;
  layout.chunked.push_back(
      {"/entry/data/data", ElementType::u16, {512, 1028}, 100, {{32008, {0, 4, 2, 0, 2}}}, {}, {}});
  layout.chunked.push_back(
      {"/entry/other", ElementType::i32, {}, 0, {}, {std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0xff}}, {}});
  layout.columns.push_back({"/entry/received", ElementType::i64, {}, {}});
  layout.columns.push_back({.path = "/entry/note", .text_bytes = 96});
  layout.columns.push_back({.path = "/entry/position", .type = ElementType::f32, .shape = {2, 3}});
  return layout;
}

TEST(Description, RoundTrip) {
  const auto text = describe(example());
  const auto back = parse_description(text);
  ASSERT_TRUE(back.ok()) << back.error().message();
  ASSERT_EQ(back->datasets.size(), 2u);
  EXPECT_EQ(back->datasets[0].path, "/entry/data/data");
  EXPECT_EQ(back->datasets[0].type, ElementType::u16);
  EXPECT_EQ(back->datasets[0].frame_shape, (std::vector<std::uint64_t>{512, 1028}));
  EXPECT_EQ(back->datasets[0].frames_max, 100u);
  ASSERT_EQ(back->datasets[0].filters.size(), 1u);
  EXPECT_EQ(back->datasets[0].filters[0].id, 32008);
  EXPECT_EQ(back->datasets[0].filters[0].values, (std::vector<unsigned>{0, 4, 2, 0, 2}));
  EXPECT_EQ(back->datasets[1].fill, example().chunked[1].fill);
  ASSERT_EQ(back->columns.size(), 3u);
  EXPECT_EQ(back->columns[0].type, ElementType::i64);
  EXPECT_EQ(back->columns[0].text_bytes, 0u);
  EXPECT_EQ(back->columns[1].text_bytes, 96u);
  EXPECT_EQ(back->columns[2].shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(back->columns[2].row_bytes(), 24u);
  EXPECT_EQ(back->columns[1].row_bytes(), 96u);
}

TEST(Description, TellsChunksAndScan) {
  auto layout = example();
  EXPECT_NE(describe(layout).find("\"chunk\":[1,512,1028]"), std::string::npos) << "one whole frame";
  EXPECT_EQ(describe(layout).find("scan"), std::string::npos);
  layout.chunked[0].scan_shape = {7, 3};
  layout.chunked[0].chunk_shape = {1, 1, 128, 1028};
  const auto back = parse_description(describe(layout));
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(back->datasets[0].chunk_shape, layout.chunked[0].chunk_shape);
  EXPECT_EQ(back->datasets[0].scan_shape, layout.chunked[0].scan_shape);
  EXPECT_EQ(back->datasets[0].chunks_a_frame(), 4u);
}

TEST(Description, ChunksThatCannotBeAreErrors) {
  const auto parsed = [](const std::string& chunk, const std::string& scan) {
    auto layout = example();
    layout.chunked[0].scan_shape = {7, 3};
    auto text = describe(layout);
    const std::string old_chunk = "\"chunk\":[1,1,512,1028]", old_scan = "\"scan\":[7,3]";
    text.replace(text.find(old_chunk), old_chunk.size(), "\"chunk\":" + chunk);
    text.replace(text.find(old_scan), old_scan.size(), "\"scan\":" + scan);
    return parse_description(text).ok();
  };
  EXPECT_TRUE(parsed("[1,1,512,1028]", "[7,3]"));
  EXPECT_TRUE(parsed("[1,1,1,1]", "[7,3]"));
  EXPECT_FALSE(parsed("[1,1,513,1028]", "[7,3]"));
  EXPECT_FALSE(parsed("[1,1,0,1028]", "[7,3]"));
  EXPECT_FALSE(parsed("[1,3,512,1028]", "[7,3]")) << "more than one frame";
  EXPECT_FALSE(parsed("[2,1,512,1028]", "[7,3]")) << "more than one frame";
  EXPECT_FALSE(parsed("[1,512,1028]", "[7,3]"));
  EXPECT_FALSE(parsed("[1,1,1,1]", "[7,18446744073709551615]")) << "more chunks than 64 bits count";
  EXPECT_FALSE(parsed("[1,1,512,1028]", "[7,0]"));
  EXPECT_FALSE(parsed("7", "[7,3]"));
}

TEST(Description, TellsGaps) {
  auto layout = example();
  EXPECT_EQ(describe(layout).find("assembled"), std::string::npos);
  layout.chunked[0].assembled = Assembled{"/entry/shown", {36}, {8, 0, 8}};
  const auto back = parse_description(describe(layout));
  ASSERT_TRUE(back.ok()) << back.error().message();
  ASSERT_TRUE(back->datasets[0].assembled);
  EXPECT_EQ(back->datasets[0].assembled->path, "/entry/shown");
  EXPECT_EQ(back->datasets[0].assembled->frame_shape({512, 1028}), (std::vector<std::uint64_t>{548, 1044}));
  EXPECT_FALSE(back->datasets[1].assembled);
}

TEST(Description, GapsThatCannotBeAreErrors) {
  const auto parsed = [](const std::string& path, const std::string& rows) {
    auto layout = example();
    layout.chunked[0].assembled = Assembled{"/entry/shown", {36}, {}};
    auto text = describe(layout);
    const std::string old_path = "\"path\":\"/entry/shown\"", old_rows = "\"row_gaps\":[36]";
    text.replace(text.find(old_path), old_path.size(), "\"path\":" + path);
    text.replace(text.find(old_rows), old_rows.size(), "\"row_gaps\":" + rows);
    return parse_description(text).ok();
  };
  const std::string path = "\"/entry/shown\"";
  EXPECT_TRUE(parsed(path, "[36]"));
  EXPECT_TRUE(parsed(path, "[65535,0,1]"));
  EXPECT_FALSE(parsed(path, "[1,2]")) << "512 rows are not three equal bands";
  EXPECT_FALSE(parsed(path, "[-1]"));
  EXPECT_FALSE(parsed(path, "[65536]"));
  EXPECT_FALSE(parsed(path, "[18446744073709551615]"));
  EXPECT_FALSE(parsed(path, "[1e3]"));
  EXPECT_FALSE(parsed(path, "36"));
  EXPECT_FALSE(parsed("\"shown\"", "[36]")) << "not absolute";
  EXPECT_FALSE(parsed("\"/entry/data/data\"", "[36]")) << "the dataset itself";
  EXPECT_FALSE(parsed("7", "[36]"));
  auto members = example();
  members.chunked[0].assembled = Assembled{"/entry/shown", {36}, {}};
  members.members = Members{"run_member_", ".h5"};
  EXPECT_FALSE(parse_description(describe(members)).ok());
}

TEST(Description, NamesSubsetsOfTheFrames) {
  auto layout = example();
  EXPECT_EQ(describe(layout).find("subsets"), std::string::npos);
  layout.subsets =
      FrameSubsets{"/entry/note", "/entry/state", "/entry/number", {{"/a", {}}, {"/b", {{"x", scalar(1.5)}}}}};
  const auto text = describe(layout);
  const auto back = parse_description(text);
  ASSERT_TRUE(back.ok()) << back.error().message();
  ASSERT_TRUE(back->subsets);
  EXPECT_EQ(back->subsets->choice, "/entry/note");
  EXPECT_EQ(back->subsets->states, "/entry/state");
  EXPECT_EQ(back->subsets->numbers, "/entry/number");
  ASSERT_EQ(back->subsets->datasets.size(), 2u);
  EXPECT_EQ(back->subsets->datasets[1].path, "/b");
  EXPECT_EQ(back->subsets->datasets[1].attributes.size(), 1u);
}

TEST(Description, SubsetsThatCannotBeAreErrors) {
  const auto parsed = [](const FrameSubsets& subsets, bool scan = false) {
    auto layout = example();
    if (scan) layout.chunked[0].scan_shape = {7, 3};
    layout.subsets = subsets;
    return parse_description(describe(layout)).ok();
  };
  const FrameSubsets right{"/entry/note", "/entry/state", "/entry/number", {{"/a", {}}}};
  EXPECT_TRUE(parsed(right));
  EXPECT_FALSE(parsed(right, true));
  auto wrong = right;
  wrong.choice = "note";
  EXPECT_FALSE(parsed(wrong));
  wrong = right;
  wrong.datasets = {};
  EXPECT_FALSE(parsed(wrong));
  for (const auto* path : {"a", "", "/", "/entry", "/entry/data/data", "/entry/note"}) {
    wrong.datasets = {{path, {}}};
    EXPECT_FALSE(parsed(wrong)) << path;
  }
  wrong.datasets = {{"/a", {}}, {"/a", {}}};
  EXPECT_FALSE(parsed(wrong)) << "one path twice";
  wrong.datasets = std::vector<Subset>(subsets_max + 1, Subset{"/a", {}});
  EXPECT_FALSE(parsed(wrong));
}

TEST(Description, AChunkHasUpTo32FramesInAFileOfItsOwn) {
  const auto parsed = [](std::uint64_t frames, auto change) {
    auto layout = example();
    layout.chunked[0].chunk_shape = {frames, 128, 1028};
    change(layout);
    const auto back = parse_description(describe(layout));
    return back.ok() && back->datasets[0].frames_a_chunk() == frames && back->datasets[0].chunks_a_frame() == 4;
  };
  EXPECT_TRUE(parsed(1, [](auto&) {}));
  EXPECT_TRUE(parsed(32, [](auto&) {}));
  EXPECT_FALSE(parsed(33, [](auto&) {})) << "a record has 32 bits";
  EXPECT_FALSE(parsed(2, [](auto& layout) { layout.chunked[0].places = {Placement::slots, 4096, 4096, 0, 0, 4096}; }));
  EXPECT_FALSE(parsed(2, [](auto& layout) { layout.members = Members{"a_", ".h5", 0, 1}; }));
  EXPECT_FALSE(parsed(2, [](auto& layout) { layout.member = MemberMark{"a.h5", 1}; }));
}

FileLayout with_tree() {
  auto layout = example();
  layout.chunked[0].attributes = {{"offset", vector_of({1.5})}};
  layout.columns[0].attributes = {{"units", std::string("ns")}};
  layout.groups = {{"/", {{"n", scalar(std::uint64_t{7})}}}, {"/entry/none", {}}};
  layout.values.push_back({"/entry/text", std::string("\xc3\x85 and \xe9"), {{"sure", Boolean{true}}}});
  layout.values.push_back({"/entry/list", std::vector<std::string>{"", "b"}, {}});
  ArrayValue mask{{ElementType::u16, {5, 4}}, {}};
  layout.values.push_back({"/entry/mask", mask, {}, ValuePlace{8192, 40, 0xfedcba98}});
  layout.values.push_back({"/entry/long", std::string(), {}, ValuePlace{12288, 99, 1}});
  layout.links.push_back({"/entry/b", "/entry/a"});
  return layout;
}

TEST(Description, HasTheWholeTree) {
  const auto back = parse_description(describe(with_tree()));
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_TRUE(back->has_tree);
  EXPECT_TRUE(back->sealed);
  EXPECT_EQ(std::get<ArrayValue>(back->datasets[0].attributes.at(0).value).data.size(), 8u);
  EXPECT_EQ(std::get<std::string>(back->columns[0].attributes.at(0).value), "ns");
  ASSERT_EQ(back->groups.size(), 2u);
  EXPECT_EQ(back->groups[0].attributes.at(0).name, "n");
  ASSERT_EQ(back->values.size(), 4u);
  EXPECT_EQ(std::get<std::string>(back->values[0].value), "\xc3\x85 and \xe9") << "also what is not UTF-8";
  EXPECT_TRUE(std::get<Boolean>(back->values[0].attributes.at(0).value).value);
  EXPECT_EQ(std::get<std::vector<std::string>>(back->values[1].value), (std::vector<std::string>{"", "b"}));
  ASSERT_TRUE(back->values[2].place);
  EXPECT_EQ(back->values[2].place->crc, 0xfedcba98u);
  EXPECT_EQ(std::get<ArrayValue>(back->values[2].value).spec, (ArraySpec{ElementType::u16, {5, 4}}));
  EXPECT_EQ(back->values[3].place->bytes, 99u);
  EXPECT_EQ(back->links.at(0).target, "/entry/a");
  EXPECT_EQ(describe({back->groups, back->values, back->datasets, back->columns, back->links, {}}),
            describe(with_tree()));
}

/// Files of before stay readable: their descriptions have neither tree nor attributes.
TEST(Description, AnOldOneHasNoTree) {
  const auto back = parse_description(
      R"({"format": "penstock", "datasets": [{"path": "/entry/data/data", "type": "uint16", "frame_shape": [512, 1028],
          "chunk": [1, 512, 1028], "frames_max": 1000, "filters": [{"id": 32008, "values": [0, 4, 2, 0, 2]}],
          "fill": "ffff"}], "columns": [{"path": "/entry/received", "type": "int64", "fill": ""}]})");
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_FALSE(back->has_tree);
  EXPECT_FALSE(back->sealed);
}

TEST(Description, ATreeThatCannotBeIsAnError) {
  const auto good = describe(with_tree());
  const auto with = [&](const std::string& from, const std::string& to) {
    auto text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return parse_description(text.replace(at, from.size(), to)).ok();
  };
  EXPECT_TRUE(with("\"shape\":[5,4]", "\"shape\":[4,5]"));
  EXPECT_FALSE(with("\"shape\":[5,4]", "\"shape\":[5,5]")) << "more than its bytes";
  EXPECT_FALSE(with("\"shape\":[5,4]", "\"shape\":[18446744073709551615,18446744073709551615]"));
  EXPECT_FALSE(with("\"shape\":[5,4]", "\"shape\":[-5,4]"));
  EXPECT_FALSE(with("\"address\":8192", "\"address\":18446744073709551615"));
  EXPECT_FALSE(with("\"bytes\":40", "\"bytes\":-40"));
  EXPECT_FALSE(with("\"bytes\":99", "\"bytes\":1e30"));
  EXPECT_FALSE(with("\"crc32c\":1", "\"crc32c\":4294967296"));
  EXPECT_FALSE(with("\"/entry/mask\"", "\"mask\""));
  EXPECT_FALSE(with("\"tree\":{", "\"tree\":7,\"x\":{"));
  EXPECT_FALSE(with("\"hex\":\"", "\"hex\":\"g0"));
  EXPECT_FALSE(with("\"hex\":\"", "\"hex\":\"0"));
  EXPECT_FALSE(with("\"sure\":true", "\"sure\":null"));
  EXPECT_FALSE(with("\"target\":\"/entry/a\"", "\"target\":3"));
  constexpr std::size_t step = penstock::testing::is_sanitized ? 5 : 1;
  for (std::size_t i = 0; i < good.size(); i += step) {
    auto text = good;
    text[i] = text[i] == '"' ? '9' : '"';
    (void)parse_description(text);
  }
}

TEST(Description, HostileTextIsAnError) {
  const std::string good = describe(example());
  EXPECT_FALSE(parse_description("").ok());
  EXPECT_FALSE(parse_description("[]").ok());
  EXPECT_FALSE(parse_description("{}").ok());
  EXPECT_FALSE(parse_description(std::string(100'000, '[')).ok());
  EXPECT_FALSE(parse_description(good.substr(0, good.size() / 2)).ok());
  const auto with = [&](const std::string& from, const std::string& to) {
    auto text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return parse_description(text.replace(at, from.size(), to));
  };
  EXPECT_FALSE(with("uint16", "uint17").ok());
  EXPECT_FALSE(with("\"/entry/data/data\"", "\"data\"").ok());
  for (const char* type : {"S", "S0", "S-1", "S96x", "S65537", "S99999999999999999999"})
    EXPECT_FALSE(with("S96", type).ok()) << type;
  EXPECT_FALSE(with("32008", "-1").ok());
  EXPECT_FALSE(with("32008", "99999").ok());
  EXPECT_FALSE(with("[512,1028]", "[-512,1028]").ok());
  EXPECT_FALSE(with("[512,1028]", "\"wide\"").ok());
  EXPECT_FALSE(with("010000ff", "0100").ok());
  EXPECT_FALSE(with("010000ff", "xyxyxyxy").ok());
  // Truncations and changed characters: an error or a description, never a crash.
  constexpr std::size_t step = penstock::testing::is_sanitized ? 7 : 1;
  for (std::size_t i = 0; i < good.size(); i += step) {
    auto text = good;
    text[i] = '"';
    (void)parse_description(text);
    (void)parse_description(good.substr(0, i));
  }
}

}  // namespace
}  // namespace penstock::store::format
