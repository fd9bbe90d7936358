// Chunks at fixed places: slots, and contiguous frames.
#include <sys/stat.h>

#include <atomic>
#include <future>
#include <thread>

#include "../support/fault_env.hpp"
#include "base/crc32c.hpp"
#include "scan.hpp"
#include "store/receipts.hpp"
#include "store/space/slots.hpp"
#include "store_fixture.hpp"

namespace penstock::store::testing {
namespace {

constexpr std::uint64_t frame_bytes = 32 * 64 * 2;  // a page, so that direct writes are possible
const char* const data_path = "/entry/data/data";

FileLayout placed(Placement placement, std::uint64_t frames, std::uint64_t columns = 64) {
  auto layout = one_dataset(32, columns);
  auto& node = layout.chunked.front();
  node.frames_max = frames;
  node.places.placement = placement;
  node.fill = {std::byte{0xFF}, std::byte{0xFF}};
  node.receipts_path = "/entry/receipts";
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
  static void put(ChunkWriter& writer, std::uint64_t frame, std::uint64_t bytes = frame_bytes) {
    ASSERT_TRUE(writer.put(head_of(frame), content_of(frame, bytes), nullptr, bytes).ok()) << frame;
  }
  Scan file_scan() const { return scan(path()); }
};

TEST_F(PlacementsTest, EachSlotFollowsFromItsChunksNumber) {
  auto layout = placed(Placement::slots, 50);
  layout.chunked.front().chunk_bytes_max = 3 * frame_bytes;
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
    EXPECT_EQ(reader.frame(data_path, frame), content_of(frame, frame_bytes));
  }
  EXPECT_EQ(reader.frame(data_path, 1), std::vector<std::byte>(frame_bytes, std::byte{0xFF}));
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
  EXPECT_EQ(reader.frame(data_path, 4095), content_of(4095, frame_bytes));
  EXPECT_EQ(reader.frame(data_path, 4096), content_of(4096, frame_bytes));
  EXPECT_EQ(reader.frame(data_path, far), content_of(far, frame_bytes));
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
  const auto big = content_of(0, frame_bytes + 1);
  auto head = head_of(0);
  const auto refused = writer->put(head, big, nullptr, big.size());
  ASSERT_FALSE(refused.ok());
  head.index = 3;
  EXPECT_EQ(writer->put(head, content_of(3, frame_bytes), nullptr, frame_bytes).error().code(), Errc::too_large);
  writer.reset();
  ASSERT_TRUE(store->finish({}).ok());
}

TEST_F(PlacementsTest, ContiguousFramesLieOneBehindTheOther) {
  for (const std::uint64_t columns : {64u, 63u}) {  // with whole pages, and without
    SCOPED_TRACE(columns);
    const auto bytes = 32 * columns * 2;
    auto options = small_options();
    options.overwrite = true;
    auto store =
        Store::create(posix_env(), path(), placed(Placement::contiguous, 40, columns), options, nullptr).value();
    {
      auto writer = store->make_writer();
      for (std::uint64_t frame = 0; frame < 40; ++frame)
        if (frame != 9) put(*writer, frame, bytes);
    }
    ASSERT_TRUE(store->finish({.values = {}, .attributes = {}, .frames = 40}).ok());
    const PlainReader reader(path());
    EXPECT_EQ(reader.shape(data_path), (std::vector<hsize_t>{40, 32, columns}));
    const auto dataset = H5Dopen2(reader.file(), data_path, H5P_DEFAULT);
    const auto creation = H5Dget_create_plist(dataset);
    EXPECT_EQ(H5Pget_layout(creation), H5D_CONTIGUOUS);
    const auto address = H5Dget_offset(dataset);
    H5Pclose(creation);
    H5Dclose(dataset);
    const auto found = file_scan();
    ASSERT_TRUE(found.description);
    const auto& node = found.description->datasets.front();
    EXPECT_EQ(node.places.address, address);
    const auto receipts = reader.numbers("/entry/receipts");
    for (std::uint64_t frame = 0; frame < 40; ++frame) {
      const auto expected = frame == 9 ? std::vector<std::byte>(bytes, std::byte{0xFF}) : content_of(frame, bytes);
      EXPECT_EQ(reader.frame(data_path, frame), expected) << frame;
      EXPECT_EQ(receipts[frame], frame == 9 ? 0 : receipt_of(crc32c(expected))) << frame;
    }
  }
}

TEST_F(PlacementsTest, AContiguousDatasetEndsWithTheLastFrameThatCame) {
  auto store =
      Store::create(posix_env(), path(), placed(Placement::contiguous, 1000), small_options(), nullptr).value();
  {
    auto writer = store->make_writer();
    for (const auto frame : {0u, 2u, 4u}) put(*writer, frame);
  }
  ASSERT_TRUE(store->finish({.values = {}, .attributes = {}, .frames = 1000}).ok());
  const PlainReader reader(path());
  for (const char* name : {data_path, "/entry/same"}) {
    EXPECT_EQ(reader.shape(name), (std::vector<hsize_t>{5, 32, 64}));
    EXPECT_EQ(reader.frame(name, 4), content_of(4, frame_bytes));
    EXPECT_EQ(reader.frame(name, 3), std::vector<std::byte>(frame_bytes, std::byte{0xFF}));
  }
  EXPECT_EQ(reader.text_attribute(data_path, "signal_of"), "a detector");
  EXPECT_LT(allocated_bytes(path()), 1u << 20);
}

/// A storage that hangs in it is as long as a file of terabytes.
TEST_F(PlacementsTest, WhileMissingFramesAreFilledOtherFilesGoOn) {
  constexpr std::uint64_t bytes = 32 * 70 * 2;  // as no other write
  penstock::testing::FaultEnv env;
  std::atomic<bool> armed{false};
  std::promise<void> reached, released;
  env.faults->on_write = [&](std::uint64_t, std::uint64_t written) -> Result<void> {
    if (written != bytes || !armed.exchange(false)) return {};
    reached.set_value();
    released.get_future().wait();
    return {};
  };
  auto store = Store::create(env, path(), placed(Placement::contiguous, 9, 70), small_options(), nullptr).value();
  {
    auto writer = store->make_writer();
    for (const auto frame : {0u, 8u}) put(*writer, frame, bytes);
  }
  auto finished = std::async(std::launch::async, [&] {
    while (store->stats().chunks < 2) std::this_thread::yield();
    armed = true;
    return store->finish({}).ok();
  });
  ASSERT_EQ(reached.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  auto other = std::async(std::launch::async, [&] {
    auto beside = Store::create(posix_env(), path("b.h5"), one_dataset(4, 4), small_options(), nullptr).value();
    put(*beside->make_writer(), 0, 32);
    return beside->finish({}).ok();
  });
  EXPECT_EQ(other.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  released.set_value();
  EXPECT_TRUE(other.get());
  EXPECT_TRUE(finished.get());
  const PlainReader reader(path());
  EXPECT_EQ(reader.frame(data_path, 3), std::vector<std::byte>(bytes, std::byte{0xFF}));
  EXPECT_EQ(reader.frame(data_path, 8), content_of(8, bytes));
}

TEST_F(PlacementsTest, ASecondFrameOfTheSameNumberIsToldApart) {
  Recorder recorder;
  auto store = Store::create(posix_env(), path(), placed(Placement::contiguous, 4), small_options(), &recorder).value();
  {
    auto writer = store->make_writer();
    put(*writer, 1);
    put(*writer, 1);
  }
  ASSERT_TRUE(store->finish({}).ok());
  EXPECT_EQ(recorder.placed_chunks.size(), 1u);
  EXPECT_EQ(recorder.lost_chunks.size(), 1u);
}

/// The order of writes is the promise: a receipt never stands for a frame that is not there.
TEST_F(PlacementsTest, AFrameThatCouldNotBeWrittenHasNoReceipt) {
  constexpr std::uint64_t odd_bytes = 32 * 63 * 2;  // no write of HDF5's is of that size
  penstock::testing::FaultEnv env;
  std::atomic<bool> full{false};
  env.faults->on_write = [&](std::uint64_t, std::uint64_t bytes) {
    return full && bytes == odd_bytes ? Result<void>(make_error(Errc::no_space, "the disk is full")) : Result<void>{};
  };
  Recorder recorder;
  auto store = Store::create(env, path(), placed(Placement::contiguous, 4, 63), small_options(), &recorder).value();
  put(*store->make_writer(), 0, odd_bytes);
  const auto settled = [&](std::size_t count) {
    for (int tries = 0; tries < 5000; ++tries) {
      {
        std::lock_guard lock(recorder.mutex);
        if (recorder.placed_chunks.size() + recorder.lost_chunks.size() == count) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  };
  ASSERT_TRUE(settled(1));
  full = true;
  put(*store->make_writer(), 1, odd_bytes);
  ASSERT_TRUE(settled(2));
  full = false;
  put(*store->make_writer(), 3, odd_bytes);
  ASSERT_TRUE(settled(3));
  ASSERT_TRUE(store->finish({.values = {}, .attributes = {}, .frames = 4}).ok());
  ASSERT_EQ(recorder.lost_chunks.size(), 1u);
  const auto receipts = PlainReader(path()).numbers("/entry/receipts");
  EXPECT_TRUE(is_receipt(receipts[0]));
  EXPECT_EQ(receipts[1], 0u);
  EXPECT_EQ(receipts[2], 0u);
  EXPECT_TRUE(is_receipt(receipts[3]));
}

TEST_F(PlacementsTest, WhatCanNotBeContiguousIsRefused) {
  auto open_end = placed(Placement::contiguous, 0);
  EXPECT_EQ(Store::create(posix_env(), path(), open_end, small_options(), nullptr).error().code(),
            Errc::invalid_argument);
  auto filtered = placed(Placement::contiguous, 10);
  filtered.chunked.front().filters.push_back({32008, {0, 4, 2, 0, 2}});
  EXPECT_EQ(Store::create(posix_env(), path(), filtered, small_options(), nullptr).error().code(),
            Errc::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(PlacementsTest, ADescriptionThatLiesAboutItsPlacesIsRefused) {
  auto layout = placed(Placement::contiguous, 10);
  layout.chunked.front().places.step_bytes = frame_bytes;
  const auto honest = format::describe(layout);
  ASSERT_TRUE(format::parse_description(honest).ok());
  const auto with = [&](const std::string& from, const std::string& to) {
    auto text = honest;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " in " << honest;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  };
  EXPECT_FALSE(format::parse_description(with("\"step\":4096", "\"step\":8")).ok());
  EXPECT_FALSE(format::parse_description(with("\"run\":0", "\"run\":3")).ok());
  EXPECT_FALSE(format::parse_description(with("\"frames_max\":10", "\"frames_max\":0")).ok());
  EXPECT_FALSE(format::parse_description(with("\"frames_max\":10", "\"frames_max\":18446744073709551615")).ok());
  EXPECT_FALSE(format::parse_description(with("\"contiguous\"", "\"elsewhere\"")).ok());
  EXPECT_FALSE(format::parse_description(with("\"receipts\":", "\"other\":")).ok());
}

}  // namespace
}  // namespace penstock::store::testing
