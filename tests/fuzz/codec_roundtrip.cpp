/// Encodes arbitrary pixels and expects them back. The first three bytes choose encoding, element
/// size and block size.

#include <cstdlib>
#include <vector>

#include "codec/codec.hpp"

using namespace penstock;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t choices = 3;
  if (size < choices) return 0;
  static CodecScratch scratch;
  const std::size_t element_bytes = std::size_t{1} << (data[1] % 4);
  const CodecSpec spec{.encoding = static_cast<Encoding>(data[0] % 6),
                       .block_bytes = static_cast<std::uint32_t>(data[2] * 8 * element_bytes)};
  const std::size_t raw_bytes = (size - choices) / element_bytes * element_bytes;
  const Bytes pixels = std::as_bytes(std::span(data, size)).subspan(choices, raw_bytes);
  const std::vector<std::byte> raw(pixels.begin(), pixels.end());
  std::vector<std::byte> chunk(encoded_bound(spec, raw.size(), element_bytes));
  const auto encoded = encode(spec, raw, element_bytes, chunk, scratch);
  if (!encoded.ok()) std::abort();
  chunk.resize(*encoded);
  chunk.shrink_to_fit();
  if (!check_framing(spec.encoding, chunk, element_bytes, raw.size()).ok()) std::abort();
  std::vector<std::byte> back(raw.size());
  if (!decode(spec.encoding, chunk, element_bytes, back, scratch).ok() || back != raw) std::abort();
  return 0;
}
