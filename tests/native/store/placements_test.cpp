// Chunks at fixed places: slots.
#include <sys/stat.h>

#include "scan.hpp"
#include "store/space/slots.hpp"
#include "store_fixture.hpp"

namespace penstock::store::testing {
namespace {

constexpr std::uint64_t aligned_frame_bytes = 32 * 64 * 2;  // a page, so that direct writes are possible
const char* const data_path = "/entry/data/data";

FileLayout placed(Placement placement, std::uint64_t frames, std::uint64_t columns = 64) {
  auto layout = one_dataset(32, columns);
  auto& node = layout.chunked.front();
  node.frames_max = frames;
  node.places.placement = placement;
  node.fill = {std::byte{0xFF}, std::byte{0xFF}};
  node.attributes = {{"signal_of", std::string("a detector")}};
  return layout;
}

std::uint64_t allocated_bytes(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

std::uint64_t size_of_file(const std::string& path) { return std::filesystem::file_size(path); }

class PlacementsTest : public StoreTest {
 protected:
  static void put(ChunkWriter& writer, std::uint64_t frame, std::uint64_t bytes = aligned_frame_bytes) {
    ASSERT_TRUE(writer.put(head_of(frame), content_of(frame, bytes), nullptr, bytes).ok()) << frame;
  }
  Scan file_scan() const { return scan(path()); }
};

TEST_F(PlacementsTest, EachSlotFollowsFromItsChunksNumber) {
  auto layout = placed(Placement::slots, 50);
  layout.chunked.front().chunk_bytes_max = 3 * aligned_frame_bytes;
  auto store = Store::create(posix_env(), path(), layout, small_options(), nullptr).value();
  {
    auto writer = store->make_writer();
    for (const auto frame : {7u, 49u, 0u, 20u}) put(*writer, frame);
  }
  ASSERT_TRUE(store->finish({.values = {}, .attributes = {}, .frames = 50}).ok());
  const auto found = file_scan();
  ASSERT_TRUE(found.description);
  const auto& places = found.description->datasets.front().places;
  EXPECT_EQ(places.placement, Placement::slots);
  EXPECT_EQ(places.step_bytes, 4 * 4096u);
  ASSERT_EQ(found.chunks.size(), 4u);
  for (const auto& segment : found.segments) {
    if (segment.kind != format::SegmentKind::chunks) continue;
    EXPECT_EQ((segment.address - places.address) % places.step_bytes, 0u);
    EXPECT_LT(segment.address, places.address_of(50));
  }
  const PlainReader reader(path());
  for (const auto frame : {7u, 49u, 0u, 20u}) {
    ASSERT_NE(found.find(frame), nullptr) << frame;
    EXPECT_EQ(reader.frame(data_path, frame), content_of(frame, aligned_frame_bytes));
  }
  EXPECT_EQ(reader.frame(data_path, 1), std::vector<std::byte>(aligned_frame_bytes, std::byte{0xFF}));
}

TEST_F(PlacementsTest, OnlyWhatIsWrittenTakesSpace) {
  auto layout = placed(Placement::slots, 64);
  layout.chunked.front().chunk_bytes_max = 1 << 20;
  auto store = Store::create(posix_env(), path(), layout, small_options(), nullptr).value();
  {
    auto writer = store->make_writer();
    for (std::uint64_t frame = 0; frame < 64; ++frame) put(*writer, frame);
  }
  ASSERT_TRUE(store->finish({}).ok());
  EXPECT_GT(size_of_file(path()), 63u << 20);
  EXPECT_LT(allocated_bytes(path()), 64 * 2 * 4096 + (1u << 20));
}

TEST_F(PlacementsTest, SlotsOfASeriesWithAnOpenEndGoOnInRuns) {
  auto store = Store::create(posix_env(), path(), placed(Placement::slots, 0), small_options(), nullptr).value();
  constexpr std::uint64_t far = 3 * 4096 + 17;
  {
    auto writer = store->make_writer();
    for (std::uint64_t frame = 4090; frame < 4100; ++frame) put(*writer, frame);
    put(*writer, far);
  }
  ASSERT_TRUE(store->finish({}).ok());
  const PlainReader reader(path());
  EXPECT_EQ(reader.frame(data_path, 4095), content_of(4095, aligned_frame_bytes));
  EXPECT_EQ(reader.frame(data_path, 4096), content_of(4096, aligned_frame_bytes));
  EXPECT_EQ(reader.frame(data_path, far), content_of(far, aligned_frame_bytes));
}

/// Everything that HDF5 takes lies beside every slot, however much it is.
TEST_F(PlacementsTest, RoomBesideSlotsMeetsNoSlot) {
  for (const std::uint64_t frames : {0u, 10u}) {
    SCOPED_TRACE(frames);
    auto layout = placed(Placement::slots, frames);
    layout.chunked.push_back(layout.chunked.front());
    EndBesideSlots end;
    ASSERT_EQ(end.advance(5 << 20).value(), 0u);
    end.lay_out(layout, 64 << 10);
    const auto& first = layout.chunked.front().places;
    const auto last = layout.chunked.back().places;
    EXPECT_EQ(last.address, first.address + first.place_bytes);
    EXPECT_EQ(first.step_bytes, 2 * first.place_bytes);
    std::uint64_t before = 5 << 20;
    const std::uint64_t chunks = frames == 0 ? 5 * 4096 : frames;
    for (int i = 0; i < 40; ++i) {
      const auto at = end.advance(4 << 20).value();
      EXPECT_GE(at, before);
      before = at + (4 << 20);
      for (std::uint64_t chunk = 0; chunk < chunks; ++chunk)
        ASSERT_TRUE(last.address_of(chunk) + last.place_bytes <= at || first.address_of(chunk) >= before) << chunk;
    }
    EXPECT_GT(before, first.address_of(frames == 0 ? 4096 : frames - 1)) << "no room was used up";
    EXPECT_EQ(end.advance(std::uint64_t{1} << 30).ok(), frames != 0);
  }
}

TEST_F(PlacementsTest, AChunkThatIsTooLargeForItsSlotIsRefused) {
  auto store = Store::create(posix_env(), path(), placed(Placement::slots, 3), small_options(), nullptr).value();
  auto writer = store->make_writer();
  const auto big = content_of(0, aligned_frame_bytes + 1);
  auto head = head_of(0);
  const auto refused = writer->put(head, big, nullptr, big.size());
  ASSERT_FALSE(refused.ok());
  head.index = 3;
  EXPECT_EQ(writer->put(head, content_of(3, aligned_frame_bytes), nullptr, aligned_frame_bytes).error().code(),
            Errc::too_large);
  writer.reset();
  ASSERT_TRUE(store->finish({}).ok());
}

TEST_F(PlacementsTest, ASecondFrameOfTheSameNumberIsToldApart) {
  Recorder recorder;
  auto store = Store::create(posix_env(), path(), placed(Placement::slots, 4), small_options(), &recorder).value();
  {
    auto writer = store->make_writer();
    put(*writer, 1);
    put(*writer, 1);
  }
  ASSERT_TRUE(store->finish({}).ok());
  EXPECT_EQ(recorder.placed_chunks.size(), 1u);
  EXPECT_EQ(recorder.lost_chunks.size(), 1u);
}

TEST_F(PlacementsTest, AnUnknownPlacementIsRefusedByItsName) {
  auto layout = placed(Placement::slots, 10);
  const auto honest = format::describe(layout);
  ASSERT_TRUE(format::parse_description(honest).ok());
  for (const std::string other : {"contiguous", "log", "elsewhere"}) {
    auto text = honest;
    text.replace(text.find("\"slots\""), 7, "\"" + other + "\"");
    const auto refused = format::parse_description(text);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message(), "datasets 0: description: 'placement' is '" + other + "'; it must be 'slots'");
  }
}

}  // namespace
}  // namespace penstock::store::testing
