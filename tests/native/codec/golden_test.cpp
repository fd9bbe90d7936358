// Chunks that other writers of the same encodings have made; tests/corpus/codec/generate.py tells how.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "../support/whole_file.hpp"
#include "codec/codec.hpp"

namespace penstock {
namespace {

std::vector<std::byte> read_all(const std::string& name) {
  const auto text = whole_file(std::string(PENSTOCK_CORPUS "/") + name);
  EXPECT_FALSE(text.empty()) << name;
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(Golden, ChunksOfOtherWritersDecode) {
  std::ifstream manifest(PENSTOCK_CORPUS "/manifest.txt");
  CodecScratch scratch;
  std::size_t chunks = 0;
  std::string encoding_name, raw_name, chunk_name;
  for (std::size_t element_bytes = 0; manifest >> encoding_name >> element_bytes >> raw_name >> chunk_name; ++chunks) {
    SCOPED_TRACE(chunk_name);
    const auto encoding = encoding_of(encoding_name);
    ASSERT_TRUE(encoding.has_value());
    const auto raw = read_all(raw_name);
    const auto chunk = read_all(chunk_name);
    const auto framing = check_framing(*encoding, chunk, element_bytes, raw.size());
    EXPECT_TRUE(framing.ok()) << framing.error().message();
    std::vector<std::byte> back(raw.size());
    const auto decoded = decode(*encoding, chunk, element_bytes, back, scratch);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message();
    EXPECT_EQ(back, raw);
  }
  EXPECT_EQ(chunks, 28u);
}

}  // namespace
}  // namespace penstock
