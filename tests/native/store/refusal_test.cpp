// What the store refuses, and how it says so.
#include "store_fixture.hpp"

namespace penstock::store::testing {
namespace {

TEST_F(StoreTest, BadChunksAreRefusedAndNamed) {
  auto store = Store::create(posix_env(), path(), one_dataset(32, 40), small_options(), nullptr).value();
  auto writer = store->make_writer();
  const std::vector<std::byte> data(frame_bytes);
  const auto code = [&](ChunkHead head, std::size_t size) {
    const auto put = writer->put(head, Bytes(data).first(size), nullptr, size);
    return put.ok() ? Errc{} : put.error().code();
  };
  EXPECT_EQ(code(head_of(0, 1), frame_bytes), Errc::invalid_argument);
  EXPECT_EQ(code(head_of(0), frame_bytes - 1), Errc::mismatch);
  EXPECT_EQ(code(head_of(0), 0), Errc::invalid_argument);
  EXPECT_EQ(code(head_of(std::uint64_t{1} << 33), frame_bytes), Errc::too_large);
  EXPECT_EQ(code(head_of(~std::uint64_t{0}), frame_bytes), Errc::too_large);
  EXPECT_FALSE(writer->commit(head_of(0), frame_bytes).ok());
  EXPECT_EQ(code(head_of(0), frame_bytes), Errc{});
  writer.reset();
  ASSERT_TRUE(store->finish({}).ok());
  EXPECT_FALSE(store->finish({}).ok());
}

TEST_F(StoreTest, AChunkOfSeveralFramesSaysWhichItHas) {
  auto layout = one_dataset(32, 40);
  layout.chunked[0].chunk_shape = {4, 32, 40};
  Recorder recorder;
  auto store = Store::create(posix_env(), path(), layout, small_options(), &recorder).value();
  auto writer = store->make_writer();
  const auto data = content_of(1, 4 * frame_bytes);
  const auto put = [&](std::uint64_t index, std::uint32_t frames) {
    auto head = head_of(index);
    head.frame = frames;
    const auto outcome = writer->put(head, data, nullptr, data.size());
    return outcome.ok() ? Errc{} : outcome.error().code();
  };
  EXPECT_EQ(put(0, 0), Errc::invalid_argument) << "none";
  EXPECT_EQ(put(0, 0b10000), Errc::invalid_argument) << "one that it has no room for";
  EXPECT_EQ(put(0, 0b1111), Errc{});
  EXPECT_EQ(put(1, 0b0010), Errc{});
  writer.reset();
  ASSERT_TRUE(store->finish({}).ok());
  ASSERT_EQ(recorder.placed_chunks.size(), 2u);
  EXPECT_EQ(recorder.placed_chunks[1].head.frame, 0b0010u);
  const PlainReader reader(path());
  EXPECT_EQ(reader.shape("/entry/data/data").front(), 6u) << "it ends with the last frame, not with the chunk";
}

TEST_F(StoreTest, AFrameThatComesTwiceIsRefusedAndTheFirstStays) {
  Recorder recorder;
  auto store = Store::create(posix_env(), path(), one_dataset(32, 40), small_options(), &recorder).value();
  auto writer = store->make_writer();
  ASSERT_TRUE(writer->put(head_of(4), content_of(4, frame_bytes), nullptr, frame_bytes).ok());
  ASSERT_TRUE(writer->put(head_of(4), content_of(5, frame_bytes), nullptr, frame_bytes).ok());
  ASSERT_TRUE(writer->put(head_of(6), content_of(6, frame_bytes), nullptr, frame_bytes).ok());
  writer.reset();
  ASSERT_TRUE(store->finish({}).ok());
  ASSERT_EQ(recorder.lost_chunks.size(), 1u);
  EXPECT_EQ(recorder.reasons[0].code(), Errc::already_exists);
  EXPECT_EQ(recorder.placed_chunks.size(), 2u);
  EXPECT_EQ(store->stats().chunks, 2u);
  const PlainReader reader(path());
  EXPECT_EQ(reader.frame("/entry/data/data", 4), content_of(4, frame_bytes));
  EXPECT_EQ(reader.frame("/entry/data/data", 6), content_of(6, frame_bytes));
}

TEST_F(StoreTest, AWriterThatOutlivesItsStoreIsRefused) {
  auto store = Store::create(posix_env(), path(), one_dataset(32, 40), small_options(), nullptr).value();
  auto writer = store->make_writer();
  ASSERT_TRUE(store->finish({}).ok());
  store.reset();
  const std::vector<std::byte> data(frame_bytes);
  ASSERT_TRUE(writer->put(head_of(0), data, nullptr, frame_bytes).ok());
  EXPECT_EQ(writer->flush().error().code(), Errc::cancelled);
}

TEST_F(StoreTest, LayoutsThatCannotBeAreErrors) {
  const auto code = [&](auto change) {
    auto layout = one_dataset(32, 40);
    change(layout);
    auto options = small_options();
    options.overwrite = true;
    const auto store = Store::create(posix_env(), path(), layout, options, nullptr);
    return store.ok() ? Errc{} : store.error().code();
  };
  EXPECT_EQ(code([](auto&) {}), Errc{});
  EXPECT_EQ(code([](auto& l) { l.chunked[0].path = "data"; }), Errc::invalid_argument);
  EXPECT_EQ(code([](auto& l) { l.chunked[0].path = "/entry//data"; }), Errc::invalid_argument);
  EXPECT_EQ(code([](auto& l) { l.chunked[0].fill = {std::byte{1}}; }), Errc::invalid_argument);
  EXPECT_EQ(code([](auto& l) { l.values[0].path = "/entry/data/data"; }), Errc::hdf5);
  EXPECT_EQ(code([](auto& l) { l.links[0].target = "/nowhere"; }), Errc::hdf5);
  EXPECT_NE(code([](auto& l) { l.chunked[0].frame_shape = {1 << 20, 1 << 20}; }), Errc{});
  EXPECT_NE(code([](auto& l) { l.chunked[0].frame_shape.assign(40, 1); }), Errc{});
  EXPECT_EQ(code([](auto& l) { l.chunked[0].chunk_shape = {32, 16, 40}; }), Errc{});
  EXPECT_EQ(code([](auto& l) { l.chunked[0].chunk_shape = {33, 16, 40}; }), Errc::invalid_argument);
  EXPECT_EQ(code([](auto& l) {
              l.chunked[0].chunk_shape = {2, 32, 40};
              l.chunked[0].places.placement = Placement::slots;
            }),
            Errc::invalid_argument);
  EXPECT_EQ(code([](auto& l) { l.values[1].value = ArrayValue{{ElementType::u16, {5}}, {}}; }), Errc::invalid_argument);
}

TEST_F(StoreTest, OptionsOutOfRangeAreNamed) {
  const auto message = [&](auto change) {
    auto options = small_options();
    change(options);
    const auto store = Store::create(posix_env(), path(), one_dataset(4, 4), options, nullptr);
    return store.ok() ? "" : store.error().message();
  };
  EXPECT_NE(message([](auto& o) { o.segment_bytes = 100; }).find("segment_bytes is 100"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.alignment_bytes = 5000; }).find("alignment_bytes is 5000"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.write_threads = 0; }).find("write_threads is 0"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.extent_bytes = 1; }).find("extent_bytes is 1"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.buffer_bytes = 1; }).find("buffer_bytes is 1"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

}  // namespace
}  // namespace penstock::store::testing
