/// Values of frames in a segment that is damaged, or was being written when the recorder died.

#include "recover/values/frame_values.hpp"

#include "../check/check_fixture.hpp"
#include "recover/recover.hpp"
#include "right_frames.hpp"
#include "store/format/rows.hpp"
#include "store/recovery/scan.hpp"

namespace penstock::recover {
namespace {

using namespace check::testing;
using store::format::SegmentHeader;

constexpr std::uint64_t frames = 4;
/// Of each frame, so that the values of one take several pages.
constexpr std::size_t length = 1200;
constexpr const char* spectrum_path = "/entry/metadata/spectrum";
constexpr const char* corrupt = "a segment's values of frames are corrupt";

std::vector<std::int64_t> spectrum_of(std::uint64_t frame) {
  return std::vector<std::int64_t>(length, static_cast<std::int64_t>(frame) + 1);
}

class FrameValues : public CheckTest {
 protected:
  /// As a recorder's death leaves it before HDF5 has any value: one segment for each frame.
  void write_left(bool in_segments = true) const {
    const FileSpec spec{.frames = frames, .announced = frames, .encoding = Encoding::none};
    StateListener listener(spec);
    auto layout = layout_of(spec);
    layout.columns.push_back(
        {.path = spectrum_path, .type = ElementType::i64, .shape = {length}, .in_segments = in_segments});
    store::StoreOptions options;
    options.segment_bytes = options.extent_bytes = 64 << 10;
    options.buffer_bytes = 1 << 20;
    options.flush_interval = std::chrono::hours(1);
    options.write_threads = 1;  // the segments have the order of the frames
    auto store = store::Store::create(posix_env(), path(), layout, options, &listener);
    ASSERT_TRUE(store.ok()) << store.error().message();
    {
      auto writer = (*store)->make_writer();
      for (std::uint64_t frame = 0; frame < frames; ++frame) {
        const auto values = spectrum_of(frame);
        std::vector<std::byte> rows_of_frame;
        store::format::RowAppender(rows_of_frame, frame).add(1, std::as_bytes(std::span(values)));
        store::ChunkHead head{store::DatasetId{0}, frame, 0, 1, frame};
        head.rows = rows_of_frame;
        const auto pixels = simulated(frame);
        ASSERT_TRUE(writer->put(head, pixels, nullptr, pixels.size()).ok());
        ASSERT_TRUE(writer->flush().ok());
      }
    }
    listener.wait_for(frames);
    const auto left = bytes_of(path());
    store = make_error(Errc::cancelled, "gone");
    write_bytes(path(), left);
  }

  std::vector<SegmentHeader> segments_of_frames() const {
    const auto file = posix_env().open(path(), {}).value();
    auto scanner = store::SegmentScanner::create(*file, {}).value();
    std::vector<SegmentHeader> found;
    while (const auto header = scanner.next().value())
      if (header->kind == store::format::SegmentKind::chunks) found.push_back(*header);
    return found;
  }

  void zero(std::uint64_t begin, std::uint64_t end) const {
    auto bytes = bytes_of(path());
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.begin() + static_cast<std::ptrdiff_t>(end), 0);
    write_bytes(path(), bytes);
  }

  RecoverReport recover() const {
    RecoverPlan plan;
    plan.file = path();
    plan.index_timeout_s = 20;
    return run_recover(
               posix_env(), plan, [](auto, auto, const auto&) {}, [] { return false; })
        .value();
  }

  static bool has_corrupt(const std::vector<check::Finding>& findings) {
    return std::any_of(findings.begin(), findings.end(), [](const auto& finding) { return finding.what == corrupt; });
  }

  /// `lacking` has zeros.
  void expect_values(std::optional<std::uint64_t> lacking) const {
    const auto column = testing::column_of(path(), spectrum_path);
    ASSERT_GE(column.size(), (frames - 1) * length);
    for (std::uint64_t frame = 0; frame < column.size() / length; ++frame)
      for (std::size_t i = 0; i < length; ++i)
        ASSERT_EQ(column[frame * length + i], frame == lacking ? 0 : static_cast<std::int64_t>(frame) + 1) << frame;
  }
};

TEST_F(FrameValues, ComeBackFromTheSegments) {
  write_left();
  EXPECT_FALSE(has_corrupt(recover().findings));
  expect_values({});
  EXPECT_TRUE(check(path()).ok());
}

TEST_F(FrameValues, AreNotTakenForColumnsThatTheDescriptionDoesNotMark) {
  write_left(false);
  (void)recover();
  for (const auto value : testing::column_of(path(), spectrum_path)) ASSERT_EQ(value, 0);
}

TEST_F(FrameValues, OfADamagedSegmentAreReportedAndCostNoFrame) {
  write_left();
  const auto victim = segments_of_frames().at(1);
  ASSERT_GT(victim.header_bytes, 2 * page_bytes);
  zero(victim.address + page_bytes, victim.address + page_bytes + 1);
  const auto unfinished = check(path());
  EXPECT_FALSE(unfinished.ok()) << "check tells damage from an interrupted write, as recover does";
  EXPECT_TRUE(has(unfinished, corrupt)) << text(unfinished);
  const auto report = recover();
  EXPECT_TRUE(has_corrupt(report.findings));
  EXPECT_EQ(report.missing, 0u);
  EXPECT_EQ(testing::right_frames(path()).size(), frames);
  expect_values(1);
  const auto checked = check(path());
  EXPECT_FALSE(checked.ok());
  EXPECT_TRUE(has(checked, corrupt)) << text(checked);
}

TEST_F(FrameValues, OfASegmentThatWasBeingWrittenAreNoDamage) {
  write_left();
  const auto last = segments_of_frames().back();
  zero(last.address + page_bytes, last.address + last.segment_bytes);
  const auto unfinished = check(path());
  EXPECT_FALSE(has(unfinished, corrupt)) << text(unfinished);
  const auto report = recover();
  EXPECT_FALSE(has_corrupt(report.findings));
  EXPECT_EQ(report.missing, 1u);
  expect_values(frames - 1);
  const auto checked = check(path());
  EXPECT_TRUE(checked.ok()) << text(checked);
}

}  // namespace
}  // namespace penstock::recover
