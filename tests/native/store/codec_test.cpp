// Frames encoded straight into segments, and read back through HDF5 chunk by chunk.
#include "codec/codec.hpp"

#include "store_fixture.hpp"

namespace penstock::store::testing {
namespace {

/// A frame that compresses: small numbers with a few large ones.
std::vector<std::uint16_t> frame_of(std::uint64_t number, std::size_t pixels) {
  std::mt19937_64 random(number + 77);
  std::vector<std::uint16_t> frame(pixels);
  for (auto& pixel : frame) pixel = static_cast<std::uint16_t>(random() % 50 == 0 ? random() % 60000 : random() % 3);
  return frame;
}

class CodecIntoStore : public StoreTest, public ::testing::WithParamInterface<Encoding> {};

TEST_P(CodecIntoStore, EncodedInPlaceAndReadBack) {
  const CodecSpec spec{GetParam(), 0, 0};
  constexpr std::size_t pixels = 120 * 130;
  constexpr std::uint64_t frames = 60;
  auto layout = one_dataset(120, 130);
  layout.chunked[0].filters = filters_of(spec, 2);
  auto store = Store::create(posix_env(), path(), layout, small_options(), nullptr).value();
  {
    auto writer = store->make_writer();
    CodecScratch scratch;
    for (std::uint64_t i = 0; i < frames; ++i) {
      const auto frame = frame_of(i, pixels);
      const auto raw = std::as_bytes(std::span(frame));
      auto into = writer->reserve(encoded_bound(spec, raw.size(), 2));
      ASSERT_TRUE(into.ok()) << into.error().message();
      const auto size = encode(spec, raw, 2, *into, scratch);
      ASSERT_TRUE(size.ok()) << size.error().message();
      const auto committed = writer->commit(head_of(i), *size);
      ASSERT_TRUE(committed.ok()) << committed.error().message();
    }
  }
  ASSERT_TRUE(store->finish({}).ok());

  const PlainReader reader(path());
  const auto dataset = H5Dopen2(reader.file(), "/entry/data/data", H5P_DEFAULT);
  CodecScratch scratch;
  for (std::uint64_t i = 0; i < frames; ++i) {
    const hsize_t offset[] = {i, 0, 0};
    hsize_t stored = 0;
    ASSERT_GE(H5Dget_chunk_storage_size(dataset, offset, &stored), 0);
    std::vector<std::byte> chunk(stored);
    std::uint32_t mask = 99;
    ASSERT_GE(H5Dread_chunk(dataset, H5P_DEFAULT, offset, &mask, chunk.data()), 0);
    std::vector<std::uint16_t> back(pixels);
    ASSERT_TRUE(decode(spec.encoding, chunk, 2, std::as_writable_bytes(std::span(back)), scratch).ok());
    EXPECT_EQ(back, frame_of(i, pixels)) << i;
  }
  H5Dclose(dataset);
}

INSTANTIATE_TEST_SUITE_P(All, CodecIntoStore,
                         ::testing::Values(Encoding::none, Encoding::bitshuffle_lz4, Encoding::bitshuffle_zstd,
                                           Encoding::lz4, Encoding::zstd, Encoding::deflate),
                         [](const auto& encoding) { return std::string(name(encoding.param)); });

}  // namespace
}  // namespace penstock::store::testing
