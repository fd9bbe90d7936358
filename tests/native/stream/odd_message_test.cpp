/// Messages with fields that cannot be understood and that no pixel needs.
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "samples.hpp"
#include "stream/messages/cbor.hpp"
#include "stream/messages/message.hpp"

namespace penstock::stream::test {
namespace {

const MessageLimits usual_limits;

/// The start of a series that is otherwise as in start_least.
std::vector<std::byte> start_with(const std::function<void(CborWriter&)>& entry, std::uint64_t entries = 1) {
  std::vector<std::byte> bytes;
  CborWriter writer(bytes);
  writer.tag(55799);
  writer.map(7 + entries);
  for (const auto& [key, number] : {std::pair("series_id", 7), {"image_size_x", 4}, {"image_size_y", 3}}) {
    if (key == std::string_view("series_id")) {
      writer.text("type");
      writer.text("start");
    }
    writer.text(key);
    writer.unsigned_integer(static_cast<std::uint64_t>(number));
  }
  writer.text("series_unique_id");
  writer.text("01ABC");
  writer.text("image_dtype");
  writer.text("uint16");
  writer.text("channels");
  writer.array(1);
  writer.text("a");
  entry(writer);
  return bytes;
}

TEST(Message, AFieldThatNoSeriesNeedsIsKeptAsItCame) {
  const auto bytes = start_with([](CborWriter& writer) {
    writer.text("sensor_thickness");
    writer.text("450 um");
  });
  const auto parsed = parse_message(bytes, usual_limits);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  const auto& series = std::get<Series>(*parsed);
  EXPECT_FALSE(series.sensor_thickness_m);
  EXPECT_EQ(as_text(series.unknown.at("sensor_thickness_as_sent")),
            "\x66"
            "450 um");
  ASSERT_EQ(series.remarks.size(), 1u);
  EXPECT_TRUE(series.remarks[0].message().starts_with("sensor_thickness is \"450 um\": "))
      << series.remarks[0].message();
  EXPECT_TRUE(series.remarks[0].message().ends_with("sensor_thickness_as_sent"));
  const auto encoded = encode_start(series);
  const auto again = parse_message(encoded, usual_limits);
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(std::get<Series>(*again).unknown, series.unknown);
  EXPECT_TRUE(std::get<Series>(*again).remarks.empty());
}

TEST(Message, AFieldThatIsThereAThousandTimesIsToldOnce) {
  const auto bytes = start_with(
      [](CborWriter& writer) {
        for (int i = 0; i < 1000; ++i) {
          writer.text("count_time");
          writer.floating(i + 1);
        }
      },
      1000);
  const auto parsed = parse_message(bytes, usual_limits);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  const auto& series = std::get<Series>(*parsed);
  EXPECT_EQ(series.count_time_s, 1);
  EXPECT_EQ(series.remarks.size(), 1u);
}

TEST(Message, OneEntryThatIsWrongCostsTheOthersNothing) {
  const auto bytes = start_with([](CborWriter& writer) {
    writer.text("threshold_energy");
    writer.map(3);
    writer.text("a");
    writer.text("high");
    writer.text("b");
    writer.floating(6200);
    writer.text("c");
    writer.array(0);
  });
  const auto parsed = parse_message(bytes, usual_limits);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  const auto& series = std::get<Series>(*parsed);
  EXPECT_EQ(series.threshold_energy_ev, (std::map<std::string, double>{{"b", 6200.0}}));
  EXPECT_TRUE(series.unknown.contains("threshold_energy_as_sent"));
}

TEST(Message, UserDataThatIsJsonTextIsUnderstood) {
  const auto told = [](const char* text) {
    const auto bytes = start_with([&](CborWriter& writer) {
      writer.text("user_data");
      writer.text(text);
    });
    return std::get<Series>(parse_message(bytes, usual_limits).value()).user_data_json;
  };
  EXPECT_EQ(told(R"( {"sample":"lysozyme","n":1})"), R"({"n":1,"sample":"lysozyme"})");
  EXPECT_EQ(told(R"({"sample":)"), R"("{\"sample\":")");
  std::string deep = "{\"a\":";
  for (int i = 0; i < 20; ++i) deep += "{\"a\":";
  deep += "1" + std::string(21, '}');
  EXPECT_TRUE(told(deep.c_str())->starts_with("\"{")) << "no message is nested so deep";
  EXPECT_EQ(told("[1]"), R"("[1]")");
  EXPECT_EQ(told("just text"), R"("just text")");
}

TEST(Message, AnImagesUserDataThatIsJsonTextBecomesMetadata) {
  const auto pixels = sample_pixels(1, 24);
  auto image = sample_image(sample_series("s", 3, 4), 0, pixels);
  image.metadata = {};
  auto bytes = encode_image(image);
  // One more entry in front of the others, behind `type`.
  std::vector<std::byte> entry;
  CborWriter writer(entry);
  writer.text("user_data");
  writer.text(R"({"x":1.5,"n":-4,"t":"é","l":[1,2],"z":null})");
  bytes[3] = std::byte(std::to_integer<int>(bytes[3]) + 1);
  constexpr std::size_t behind_type = 3 + 1 + 5 + 6;
  bytes.insert(bytes.begin() + behind_type, entry.begin(), entry.end());
  const auto parsed = parse_message(bytes, usual_limits);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  using Entry = std::pair<std::string, MetaValue>;
  const std::vector<Entry> expected{
      {"l", std::string("[1,2]")}, {"n", std::int64_t{-4}}, {"t", std::string("é")}, {"x", 1.5}};
  EXPECT_EQ(std::get<ImageMessage>(*parsed).metadata, expected);
}

/// What an image brings along waits in memory, of each channel by itself.
TEST(Message, ValuesBeyondTheMemoryForThemAreLeftOutWithARemark) {
  const auto pixels = sample_pixels(1, 24);
  const auto values_of = [&](std::size_t channels) {
    auto image = sample_image(sample_series("s", 3, 4), 0, pixels);
    image.metadata.clear();
    for (int i = 0; i < 30; ++i) image.metadata.emplace_back(std::to_string(i), std::string(300'000, 'x'));
    for (std::size_t i = 1; i < channels; ++i) {
      image.channels.push_back(image.channels[0]);
      image.channels.back().channel = std::to_string(i);
    }
    const auto bytes = encode_image(image);
    auto parsed = std::get<ImageMessage>(parse_message(bytes, usual_limits).value());
    EXPECT_FALSE(parsed.remarks.empty());
    return parsed.metadata.size();
  };
  EXPECT_EQ(values_of(1), 13u) << "of 4 MiB";
  EXPECT_EQ(values_of(4), 3u);
}

TEST(Message, AStructureTooLongForAColumnIsLeftOutBeforeItsTreeIsBuilt) {
  const auto pixels = sample_pixels(1, 24);
  auto image = sample_image(sample_series("s", 3, 4), 0, pixels);
  image.metadata = {};
  auto bytes = encode_image(image);
  std::vector<std::byte> entry;
  CborWriter writer(entry);
  writer.text("wide");
  writer.array(100'000);
  for (int i = 0; i < 100'000; ++i) writer.array(0);
  bytes[3] = std::byte(std::to_integer<int>(bytes[3]) + 1);
  constexpr std::size_t behind_type = 3 + 1 + 5 + 6;
  bytes.insert(bytes.begin() + behind_type, entry.begin(), entry.end());
  const auto parsed = std::get<ImageMessage>(parse_message(bytes, usual_limits).value());
  EXPECT_TRUE(parsed.metadata.empty());
  ASSERT_EQ(parsed.remarks.size(), 1u);
  EXPECT_NE(parsed.remarks[0].message().find("exceed the limit of 16384"), std::string::npos)
      << parsed.remarks[0].message();
}

}  // namespace
}  // namespace penstock::stream::test
