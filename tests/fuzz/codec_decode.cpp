/// Decodes arbitrary bytes: no access outside, and what the decoder accepts the framing's check
/// accepts too. The first three bytes choose encoding, element size and the size asked for; where
/// the fourth is even, the header is put right, so that the blocks are reached.

#include <cstdlib>
#include <vector>

#include "codec/codec.hpp"

using namespace penstock;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t choices = 4;
  if (size < choices) return 0;
  static CodecScratch scratch;
  const auto encoding = static_cast<Encoding>(data[0] % 6);
  const std::size_t element_bytes = std::size_t{1} << (data[1] % 4);
  const std::size_t raw_bytes = std::size_t{data[2]} * 40 * element_bytes;
  // A copy of its exact size: the sanitizer sees what reads beyond.
  const Bytes rest = std::as_bytes(std::span(data, size)).subspan(choices);
  std::vector<std::byte> chunk(rest.begin(), rest.end());
  if (data[3] % 2 == 0 && chunk.size() >= 12) {
    store_be(chunk.data(), static_cast<std::uint64_t>(raw_bytes));
    store_be(chunk.data() + 8, static_cast<std::uint32_t>(data[3] * 16 * element_bytes));
  }
  std::vector<std::byte> raw(raw_bytes);
  const bool decoded = decode(encoding, chunk, element_bytes, raw, scratch).ok();
  const bool framed = check_framing(encoding, chunk, element_bytes, raw_bytes).ok();
  // zstd decodes frames that do not tell their size, or several; the filter could not.
  if (decoded && !framed && encoding != Encoding::zstd) std::abort();
  return 0;
}
