/// What frames bring along lies in the segment of their chunk: whoever has the one has the other.

#include <map>
#include <set>

#include "recorder_test.hpp"
#include "store/format/rows.hpp"
#include "store/recovery/find_description.hpp"

namespace penstock::recorder {
namespace {

using Values = std::map<std::string, std::vector<std::byte>>;  ///< by the path of their column

struct Kind {
  const char* name;
  void (*configure)(Config& config);
};

class SegmentValues : public RecorderTest, public ::testing::WithParamInterface<Kind> {
 protected:
  static constexpr std::uint64_t frames = 10;

  static Frame frame_with_values(std::uint64_t number) {
    auto with = frame(number);
    with.exposure_start_ns = static_cast<std::int64_t>(number) * 1'000'000;
    with.exposure_stop_ns = with.exposure_start_ns + 900'000;
    with.exposure_real_ns = 900'000;
    with.metadata.emplace_back("motor", 0.5 * static_cast<double>(number));
    with.metadata.emplace_back("sample", std::string(1 + number, 'x'));
    return with;
  }

  template <typename Number>
  static std::vector<std::byte> bytes(Number number) {
    const auto all = std::as_bytes(std::span(&number, 1));
    return {all.begin(), all.end()};
  }

  /// By frame, of the segments that have the frame's first chunk.
  static std::map<std::uint64_t, Values> values_in(File& file, std::uint64_t chunks_a_frame,
                                                   std::uint64_t frames_a_chunk) {
    const auto description = store::find_description(file, {}).value().description;
    std::map<std::uint64_t, Values> values;
    auto scanner = store::SegmentScanner::create(file, {}).value();
    while (const auto header = scanner.next().value()) {
      if (header->kind != store::format::SegmentKind::chunks) continue;
      std::set<std::uint64_t> here;
      const auto records = store::read_records(file, *header).value();
      for (const auto& record : records)
        if (record.chunk_index % chunks_a_frame == 0)
          for (std::uint64_t i = 0; i < frames_a_chunk; ++i)
            here.insert(record.chunk_index / chunks_a_frame * frames_a_chunk + i);
      const auto rows = store::read_rows(file, *header).value();
      store::format::RowReader reader(rows);
      while (const auto value = reader.next().value()) {
        EXPECT_TRUE(here.contains(value->frame)) << "frame " << value->frame << " is in another segment";
        const auto& column = description.columns.at(value->column);
        EXPECT_TRUE(column.in_segments) << column.path;
        std::vector<std::byte> whole(value->bytes.begin(), value->bytes.end());
        whole.resize(column.row_bytes());
        EXPECT_TRUE(values[value->frame].emplace(column.path, std::move(whole)).second) << "it is there twice";
      }
    }
    return values;
  }
};

TEST_P(SegmentValues, AreThereForEachFrame) {
  GetParam().configure(config_);
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(frames), nullptr).ok());
  for (std::uint64_t n = 0; n < frames; ++n) ASSERT_TRUE(recorder->put(frame_with_values(n)).ok());
  finish(*recorder);

  const auto file = posix_env().open((folder_ / "s1.h5").string(), {}).value();
  const auto chunks_a_frame = config_.chunk.shape.empty() ? 1 : rows / config_.chunk.shape.front();
  const auto values = values_in(*file, chunks_a_frame, config_.chunk.frames);
  ASSERT_EQ(values.size(), frames);
  for (std::uint64_t n = 0; n < frames; ++n) {
    const auto sent = frame_with_values(n);
    std::vector<std::byte> text(64);
    std::memcpy(text.data(), std::string(1 + n, 'x').data(), 1 + n);
    EXPECT_EQ(values.at(n), (Values{{"/entry/penstock/timing/exposure_start", bytes(sent.exposure_start_ns)},
                                    {"/entry/penstock/timing/exposure_stop", bytes(sent.exposure_stop_ns)},
                                    {"/entry/penstock/timing/exposure_real", bytes(sent.exposure_real_ns)},
                                    {"/entry/metadata/motor", bytes(0.5 * static_cast<double>(n))},
                                    {"/entry/metadata/sample", text}}))
        << n;
  }
}

TEST_P(SegmentValues, ThatBeginWithALaterFrameAreInAColumnOfTheClosedFile) {
  GetParam().configure(config_);
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(frames), nullptr).ok());
  for (std::uint64_t n = 0; n < frames; ++n) {
    auto with = frame_with_values(n);
    if (n >= 3) with.metadata.emplace_back("shutter", std::int64_t(100 + n));
    ASSERT_TRUE(recorder->put(std::move(with)).ok());
  }
  finish(*recorder);
  EXPECT_EQ(read<std::int64_t>("s1.h5", "/entry/metadata/shutter", H5T_NATIVE_INT64),
            (std::vector<std::int64_t>{0, 0, 0, 103, 104, 105, 106, 107, 108, 109}));
  EXPECT_EQ(read<double>("s1.h5", "/entry/metadata/motor", H5T_NATIVE_DOUBLE).size(), frames);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, SegmentValues,
    ::testing::Values(Kind{"plain", [](Config&) {}},
                      Kind{"compressed", [](Config& config) { config.codec.encoding = Encoding::bitshuffle_lz4; }},
                      Kind{"slots", [](Config& config) { config.placement = store::Placement::slots; }},
                      Kind{"tiles",
                           [](Config& config) {
                             config.chunk.shape = {4, columns};
                           }},
                      Kind{"blocks", [](Config& config) { config.chunk.frames = 4; }}),
    [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace penstock::recorder
