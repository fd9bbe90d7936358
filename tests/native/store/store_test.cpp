#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "../support/page_cache.hpp"
#include "base/crc32c.hpp"
#include "scan.hpp"
#include "store_fixture.hpp"

namespace penstock::store::testing {
namespace {

/// Puts frames [0, frames) of content_of(), copied.
void put_frames(Store& store, std::uint64_t frames) {
  auto writer = store.make_writer();
  for (std::uint64_t i = 0; i < frames; ++i) {
    const auto data = content_of(i, frame_bytes);
    const auto put = writer->put({DatasetId{0}, i, 0, 5, i * 7}, data, nullptr, data.size());
    ASSERT_TRUE(put.ok()) << put.error().message();
  }
}

TEST_F(StoreTest, FramesReadBackWithPlainHdf5) {
  Recorder recorder;
  recorder.write_numbers = true;
  auto store = Store::create(posix_env(), path(), one_dataset(32, 40), small_options(), &recorder);
  ASSERT_TRUE(store.ok()) << store.error().message();
  constexpr std::uint64_t frames = 200;
  put_frames(**store, frames);
  FinalValues values;
  values.frames = frames;
  values.values.push_back({"/entry/end_time", std::string("now"), {}});
  values.values.push_back({"/entry/title", std::string("another"), {}});
  values.attributes.push_back({"/entry", {"complete", scalar(std::uint64_t{1})}});
  const auto finished = (*store)->finish(values);
  ASSERT_TRUE(finished.ok()) << finished.error().message();
  EXPECT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL), 0);
  EXPECT_EQ((*store)->stats().chunks, frames);

  const PlainReader reader(path());
  ASSERT_TRUE(reader.open());
  EXPECT_EQ(reader.shape("/entry/data/data"), (std::vector<hsize_t>{frames, 32, 40}));
  for (std::uint64_t i = 0; i < frames; ++i)
    ASSERT_EQ(reader.frame("/entry/data/data", i), content_of(i, frame_bytes)) << i;
  EXPECT_EQ(reader.frame("/entry/same", 3), content_of(3, frame_bytes));
  const auto numbers = reader.numbers("/entry/number");
  ASSERT_EQ(numbers.size(), frames);
  for (std::uint64_t i = 0; i < frames; ++i) EXPECT_EQ(numbers[i], i + 1000);
  EXPECT_EQ(reader.text("/entry/end_time"), "now");
  EXPECT_EQ(reader.text("/entry/title"), "another");
  EXPECT_EQ(reader.text_attribute("/entry", "NX_class"), "NXentry");
  EXPECT_EQ(reader.text_attribute("/", "penstock_file_id").size(), 32u);
}

/// Who may make links in the folder does not get to choose which file elsewhere is replaced.
TEST_F(StoreTest, NoFileIsReplacedThroughASymbolicLink) {
  const auto elsewhere = path() + ".elsewhere";
  std::ofstream(elsewhere) << "precious";
  auto options = small_options();
  options.overwrite = true;
  for (const auto& target : {elsewhere, path() + ".nothing"}) {
    std::filesystem::remove(path());
    std::filesystem::create_symlink(target, path());
    const auto store = Store::create(posix_env(), path(), one_dataset(32, 40), options, nullptr);
    ASSERT_FALSE(store.ok());
    EXPECT_EQ(store.error().code(), Errc::already_exists);
    EXPECT_NE(store.error().message().find("is a symbolic link"), std::string::npos) << store.error().message();
  }
  std::string kept;
  std::ifstream(elsewhere) >> kept;
  EXPECT_EQ(kept, "precious");
  EXPECT_FALSE(std::filesystem::exists(path() + ".nothing"));
  std::filesystem::remove(path());
  std::filesystem::remove(elsewhere);
}

TEST_F(StoreTest, WhatIsNoRegularFileIsNotReplaced) {
  auto options = small_options();
  options.overwrite = true;
  std::filesystem::remove(path());
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  const auto store = Store::create(posix_env(), path(), one_dataset(32, 40), options, nullptr);
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.error().message().find("is not a regular file"), std::string::npos) << store.error().message();
  std::filesystem::remove(path());
}

TEST_F(StoreTest, TheListenerIsToldWhereEachChunkIs) {
  Recorder recorder;
  auto store = Store::create(posix_env(), path(), one_dataset(32, 40), small_options(), &recorder).value();
  put_frames(*store, 50);
  ASSERT_TRUE(store->finish({}).ok());
  ASSERT_EQ(recorder.placed_chunks.size(), 50u);
  EXPECT_TRUE(recorder.lost_chunks.empty());
  std::ifstream file(path(), std::ios::binary);
  for (const auto& chunk : recorder.placed_chunks) {
    std::vector<char> bytes(chunk.size);
    file.seekg(static_cast<std::streamoff>(chunk.address));
    file.read(bytes.data(), chunk.size);
    const auto expected = content_of(chunk.head.index, frame_bytes);
    EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), expected.size()), 0);
    EXPECT_EQ(chunk.crc, crc32c(expected));
    EXPECT_EQ(chunk.head.cookie, chunk.head.index * 7);
    EXPECT_EQ(chunk.head.received_ns, 5);
    EXPECT_GT(chunk.written_ns, 0);
  }
}

TEST_F(StoreTest, OrderGapsAndTheEndOfTheSeries) {
  auto layout = one_dataset(32, 40);
  layout.chunked[0].fill = {std::byte{0xFF}, std::byte{0xFF}};
  auto store = Store::create(posix_env(), path(), layout, small_options(), nullptr).value();
  auto writer = store->make_writer();
  for (const std::uint64_t frame : {90, 3, 41, 7, 2, 60})
    ASSERT_TRUE(writer->put(head_of(frame), content_of(frame, frame_bytes), nullptr, frame_bytes).ok());
  writer.reset();
  FinalValues values;
  values.frames = 120;
  ASSERT_TRUE(store->finish(values).ok());
  const PlainReader reader(path());
  EXPECT_EQ(reader.shape("/entry/data/data")[0], 120u);
  EXPECT_EQ(reader.shape("/entry/number")[0], 120u);
  const std::vector<std::byte> fill(frame_bytes, std::byte{0xFF});
  for (const std::uint64_t frame : {90, 3, 41, 7, 2, 60})
    EXPECT_EQ(reader.frame("/entry/data/data", frame), content_of(frame, frame_bytes));
  for (const std::uint64_t frame : {0, 1, 4, 89, 91, 119}) EXPECT_EQ(reader.frame("/entry/data/data", frame), fill);
}

TEST_F(StoreTest, NoFrameAtAll) {
  auto store = Store::create(posix_env(), path(), one_dataset(32, 40), small_options(), nullptr).value();
  ASSERT_TRUE(store->finish({}).ok());
  const PlainReader reader(path());
  EXPECT_EQ(reader.shape("/entry/data/data"), (std::vector<hsize_t>{0, 32, 40}));
}

TEST_F(StoreTest, RowsAtEqualDistancesGoInOneCall) {
  class Strided final : public Listener {
   public:
    void placed(std::span<const PlacedChunk>, RowWriter&) override {}
    void lost(std::span<const PlacedChunk>, const Error&) override {}
    void tick(RowWriter& rows) override {
      const std::uint64_t numbers[] = {10, 11, 12};
      const auto data = std::as_bytes(std::span(numbers));
      EXPECT_TRUE(rows.put(ColumnId{0}, {2, 3}, data).ok());
      for (const auto run : {RowRun{2, 0}, RowRun{std::uint64_t{1} << 41, 1}, RowRun{0, std::uint64_t{1} << 63}})
        EXPECT_EQ(rows.put(ColumnId{0}, run, data).error().code(), Errc::invalid_argument);
    }
  } listener;
  auto store = Store::create(posix_env(), path(), one_dataset(32, 40), small_options(), &listener).value();
  ASSERT_TRUE(store->finish({}).ok());
  const PlainReader reader(path());
  EXPECT_EQ(reader.numbers("/entry/number"), (std::vector<std::uint64_t>{0, 0, 10, 0, 0, 11, 0, 0, 12}));
}

TEST_F(StoreTest, SwmrOffWritesTheSame) {
  auto options = small_options();
  options.swmr = false;
  auto store = Store::create(posix_env(), path(), one_dataset(32, 40), options, nullptr).value();
  put_frames(*store, 100);
  ASSERT_TRUE(store->finish({}).ok());
  const PlainReader reader(path());
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_EQ(reader.frame("/entry/data/data", i), content_of(i, frame_bytes));
}

TEST_F(StoreTest, AChunkOfEachWayInOneSegment) {
  for (const bool direct : {false, true}) {
    auto options = small_options();
    options.direct = direct;
    options.overwrite = true;
    options.segment_bytes = 256 << 10;
    auto store = Store::create(posix_env(), path(), one_dataset(100, 101), options, nullptr).value();
    const std::size_t bytes = 100 * 101 * 2;  // no multiple of 8
    auto writer = store->make_writer();
    constexpr std::uint64_t frames = 90;
    for (std::uint64_t i = 0; i < frames; ++i) {
      const auto data = content_of(i, bytes);
      if (i % 3 == 0) {
        ASSERT_TRUE(writer->put(head_of(i), data, nullptr, bytes).ok());
      } else if (i % 3 == 1) {
        auto into = writer->reserve(2 * bytes);
        ASSERT_TRUE(into.ok());
        into = writer->reserve(bytes);
        std::memcpy(into->data(), data.data(), bytes);
        ASSERT_TRUE(writer->commit(head_of(i), bytes).ok());
      } else {
        // Every other one cannot be gathered past the page cache: neither aligned nor padded.
        auto memory = std::shared_ptr<std::byte>(static_cast<std::byte*>(std::aligned_alloc(4096, 32768)), std::free);
        auto* at = memory.get() + (i % 2 == 0 ? 8 : 0);
        std::memcpy(at, data.data(), bytes);
        ASSERT_TRUE(writer->put(head_of(i), {at, bytes}, memory, i % 2 == 0 ? bytes : 32768).ok());
      }
    }
    writer.reset();
    ASSERT_TRUE(store->finish({}).ok());
    {
      const PlainReader reader(path());
      for (std::uint64_t i = 0; i < frames; ++i)
        ASSERT_EQ(reader.frame("/entry/data/data", i), content_of(i, bytes)) << i << " direct " << direct;
    }
    const auto found = scan(path());
    ASSERT_EQ(found.chunks.size(), frames);
    for (const auto& chunk : found.chunks) ASSERT_TRUE(chunk.intact) << chunk.record.chunk_index;
  }
}

TEST_F(StoreTest, SegmentsThroughThePageCacheDoNotFillIt) {
  if (penstock::testing::is_in_memory(folder_)) GTEST_SKIP() << "what lies in memory stays there";
  constexpr std::uint64_t bytes = 1024 * 1024 * 2;
  constexpr std::uint64_t frames = 2 * cached_behind_bytes / bytes;
  StoreOptions options;
  options.direct = false;
  options.durability = Durability::segment;
  Recorder recorder;
  auto store = Store::create(posix_env(), path(), one_dataset(1024, 1024), options, &recorder).value();
  const auto data = content_of(0, bytes);
  {
    auto writer = store->make_writer();
    for (std::uint64_t i = 0; i < frames; ++i) ASSERT_TRUE(writer->put(head_of(i), data, nullptr, bytes).ok());
  }
  ASSERT_TRUE(store->finish({}).ok());
  const auto cached = penstock::testing::cached_pages(path());
  std::size_t pages = 0;
  for (const auto& chunk : recorder.placed_chunks)
    for (std::uint64_t at = 0; at < bytes; at += page_bytes) pages += cached[(chunk.address + at) / page_bytes];
  // Of pages that the device did not have in time some may stay.
  EXPECT_LT(pages, frames * bytes / page_bytes * 3 / 4);
  const PlainReader reader(path());
  for (std::uint64_t i = 0; i < frames; i += 16) ASSERT_EQ(reader.frame("/entry/data/data", i), data);
}

TEST_F(StoreTest, SegmentsDescribeTheFile) {
  auto store = Store::create(posix_env(), path(), one_dataset(32, 40), small_options(), nullptr).value();
  put_frames(*store, 200);
  ASSERT_TRUE(store->finish({}).ok());
  const auto found = scan(path());
  ASSERT_TRUE(found.description);
  EXPECT_EQ(found.description->datasets[0].path, "/entry/data/data");
  EXPECT_EQ(found.damaged_segments, 0u);
  ASSERT_EQ(found.chunks.size(), 200u);
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto* chunk = found.find(i);
    ASSERT_NE(chunk, nullptr) << i;
    EXPECT_EQ(chunk->data, content_of(i, frame_bytes));
  }
  std::vector<std::uint64_t> sequences;
  for (const auto& segment : found.segments) {
    sequences.push_back(segment.sequence);
    EXPECT_LE(segment.segment_bytes, small_options().segment_bytes);
    EXPECT_EQ(format::to_hex(segment.file_id), PlainReader(path()).text_attribute("/", "penstock_file_id"));
  }
  std::erase(sequences, 0);
  std::sort(sequences.begin(), sequences.end());
  for (std::size_t i = 0; i < sequences.size(); ++i) EXPECT_EQ(sequences[i], i + 1);
}

TEST_F(StoreTest, NothingLeasedIsLeftAtTheEndAndNothingIsCut) {
  auto options = small_options();
  options.extent_bytes = 64 << 20;
  auto store = Store::create(posix_env(), path(), one_dataset(32, 40), options, nullptr).value();
  EXPECT_GE(std::filesystem::file_size(path()), 64u << 20);
  put_frames(*store, 100);
  ASSERT_TRUE(store->finish({}).ok());
  EXPECT_LT(std::filesystem::file_size(path()), 100 * frame_bytes + (300 << 10));
  const PlainReader reader(path());
  EXPECT_EQ(reader.frame("/entry/data/data", 99), content_of(99, frame_bytes));
}

TEST_F(StoreTest, SegmentsFillWithChunksThatNeedLessThanWasReserved) {
  // The pool rounds a buffer of 8 MiB and two pages up to 10 MiB. A writer may not use what lies beyond the size.
  StoreOptions options;
  options.segment_bytes = 8 << 20;
  options.flush_interval = std::chrono::seconds(10);  // segments are sealed because they are full
  auto store = Store::create(posix_env(), path(), one_dataset(100, 170), options, nullptr).value();
  const std::size_t bytes = 100 * 170 * 2;
  constexpr std::uint64_t frames = 1000;  // of four segments
  auto writer = store->make_writer();
  for (std::uint64_t i = 0; i < frames; ++i) {
    auto into = writer->reserve(4 * bytes);
    ASSERT_TRUE(into.ok());
    ASSERT_EQ(into->size(), 4 * bytes);
    std::memset(into->data(), 0, into->size());
    std::memcpy(into->data(), content_of(i, bytes).data(), bytes);
    const auto committed = writer->commit(head_of(i), bytes);
    ASSERT_TRUE(committed.ok()) << i << ": " << committed.error().message();
  }
  writer.reset();
  ASSERT_TRUE(store->finish({}).ok());
  const PlainReader reader(path());
  for (std::uint64_t i = 0; i < frames; ++i) ASSERT_EQ(reader.frame("/entry/data/data", i), content_of(i, bytes)) << i;
}

TEST_F(StoreTest, ChunksLargerThanASegmentAndThanTheBudgetOfBuffers) {
  auto store = Store::create(posix_env(), path(), one_dataset(600, 700), small_options(), nullptr).value();
  const std::size_t bytes = 600 * 700 * 2;  // 840 kB; a segment has 64 KiB
  auto writer = store->make_writer();
  for (std::uint64_t i = 0; i < 20; ++i) {
    const auto data = content_of(i, bytes);
    if (i % 2 == 0) {
      ASSERT_TRUE(writer->put(head_of(i), data, nullptr, bytes).ok());
    } else {
      auto into = writer->reserve(bytes + 1000);
      ASSERT_TRUE(into.ok()) << into.error().message();
      std::memcpy(into->data(), data.data(), bytes);
      ASSERT_TRUE(writer->commit(head_of(i), bytes).ok());
    }
  }
  EXPECT_EQ(writer->reserve(5 << 20).error().code(), Errc::too_large);
  writer.reset();
  ASSERT_TRUE(store->finish({}).ok());
  const PlainReader reader(path());
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_EQ(reader.frame("/entry/data/data", i), content_of(i, bytes)) << i;
}

TEST_F(StoreTest, SeveralWritersAtOnce) {
  Recorder recorder;
  recorder.write_numbers = true;
  auto options = small_options();
  options.write_threads = 3;
  auto store = Store::create(posix_env(), path(), one_dataset(32, 40), options, &recorder).value();
  constexpr std::uint64_t frames = 1200;
  std::vector<std::thread> threads;
  for (std::uint64_t share = 0; share < 4; ++share)
    threads.emplace_back([&, share] {
      auto writer = store->make_writer();
      for (auto i = share; i < frames; i += 4) {
        const auto data = content_of(i, frame_bytes);
        ASSERT_TRUE(writer->put(head_of(i), data, nullptr, data.size()).ok());
        if (i % 101 == 0) {
          ASSERT_TRUE(writer->flush().ok());
        }
        (void)store->stats();
      }
    });
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(store->finish({}).ok());
  EXPECT_EQ(recorder.placed_chunks.size(), frames);
  const PlainReader reader(path());
  for (std::uint64_t i = 0; i < frames; ++i)
    ASSERT_EQ(reader.frame("/entry/data/data", i), content_of(i, frame_bytes)) << i;
}

TEST_F(StoreTest, TwoStoresInOneProcess) {
  auto one = Store::create(posix_env(), path("a.h5"), one_dataset(32, 40), small_options(), nullptr).value();
  auto two = Store::create(posix_env(), path("b.h5"), one_dataset(32, 40), small_options(), nullptr).value();
  std::thread other([&] { put_frames(*two, 300); });
  put_frames(*one, 300);
  other.join();
  ASSERT_TRUE(one->finish({}).ok());
  ASSERT_TRUE(two->finish({}).ok());
  for (const auto* name : {"a.h5", "b.h5"}) {
    const PlainReader reader(path(name));
    EXPECT_EQ(reader.frame("/entry/data/data", 299), content_of(299, frame_bytes));
  }
}

TEST_F(StoreTest, FilteredDatasetKeepsItsParametersMasksAndSizes) {
  auto layout = one_dataset(32, 40);
  layout.chunked[0].filters = {{32008, {0, 4, 2, 0, 2}}};
  auto store = Store::create(posix_env(), path(), layout, small_options(), nullptr).value();
  auto writer = store->make_writer();
  for (std::uint64_t i = 0; i < 40; ++i) {
    auto head = head_of(i);
    head.filter_mask = i % 2;  // odd ones are stored without the filter
    const auto bytes = i % 2 == 0 ? 100 + i : frame_bytes;
    ASSERT_TRUE(writer->put(head, content_of(i, bytes), nullptr, bytes).ok());
  }
  writer.reset();
  ASSERT_TRUE(store->finish({}).ok());
  const PlainReader reader(path());
  const auto dataset = H5Dopen2(reader.file(), "/entry/data/data", H5P_DEFAULT);
  const auto properties = H5Dget_create_plist(dataset);
  unsigned flags = 0;
  unsigned values[8] = {};
  std::size_t count = 8;
  unsigned config = 0;
  char name[8];
  ASSERT_EQ(H5Pget_nfilters(properties), 1);
  EXPECT_EQ(H5Pget_filter2(properties, 0, &flags, &count, values, sizeof name, name, &config), 32008);
  EXPECT_EQ((std::vector<unsigned>(values, values + count)), (std::vector<unsigned>{0, 4, 2, 0, 2}));
  EXPECT_TRUE(flags & H5Z_FLAG_OPTIONAL);
  H5Pclose(properties);
  for (std::uint64_t i = 0; i < 40; ++i) {
    const hsize_t offset[] = {i, 0, 0};
    hsize_t stored = 0;
    ASSERT_GE(H5Dget_chunk_storage_size(dataset, offset, &stored), 0);
    std::vector<std::byte> data(stored);
    std::uint32_t mask = 99;
    ASSERT_GE(H5Dread_chunk(dataset, H5P_DEFAULT, offset, &mask, data.data()), 0);
    EXPECT_EQ(mask, i % 2);
    EXPECT_EQ(data, content_of(i, i % 2 == 0 ? 100 + i : frame_bytes)) << i;
  }
  H5Dclose(dataset);
}

TEST_F(StoreTest, ValuesOfEveryKind) {
  FileLayout layout;
  const std::vector<std::string> words{"one", "", "three"};
  layout.values.push_back({"/a/words", words, {{"note", words}}});
  layout.values.push_back({"/a/none", std::vector<std::string>{}, {}});
  layout.values.push_back({"/a/utf8", std::string("5 \xC2\xB5m"), {}});
  layout.values.push_back({"/a/vector", vector_of({1.5, 2.5, 3.5}), {{"depends_on", std::string(".")}}});
  ArrayValue mask{{ElementType::u32, {300, 200}}, content_of(1, 300 * 200 * 4)};
  layout.values.push_back({"/a/mask", mask, {}});
  layout.columns.push_back({"/a/column", ElementType::f32, {}, {}});
  auto store = Store::create(posix_env(), path(), layout, small_options(), nullptr).value();
  ASSERT_TRUE(store->finish({}).ok());
  const PlainReader reader(path());
  EXPECT_EQ(reader.shape("/a/words"), (std::vector<hsize_t>{3}));
  EXPECT_EQ(reader.shape("/a/none"), (std::vector<hsize_t>{0}));
  EXPECT_EQ(reader.text("/a/utf8"), "5 \xC2\xB5m");
  EXPECT_EQ(reader.shape("/a/mask"), (std::vector<hsize_t>{300, 200}));
  const auto dataset = H5Dopen2(reader.file(), "/a/mask", H5P_DEFAULT);
  std::vector<std::byte> back(mask.data.size());
  H5Dread(dataset, H5T_STD_U32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, back.data());
  H5Dclose(dataset);
  EXPECT_EQ(back, mask.data);
}

}  // namespace
}  // namespace penstock::store::testing
