/// Stream V1 messages from hostile peers: whatever the parts, parsing answers, and what it says of an image is borne
/// out by its parts. Parts stand one after another, each with its length in front (32 bits, little-endian).
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/bytes.hpp"
#include "stream/messages/cbor.hpp"
#include "stream/messages/v1_message.hpp"

using namespace penstock;
using namespace penstock::stream;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  MessageLimits limits;
  limits.frame_bytes_max = limits.table_bytes_max = 1 << 20;
  std::vector<Bytes> parts;
  for (auto left = std::as_bytes(std::span(data, size)); left.size() >= 4 && parts.size() < v1_parts_max;) {
    const auto length = std::min<std::size_t>(load_le<std::uint32_t>(left.data()), left.size() - 4);
    parts.push_back(left.subspan(4, length));
    left = left.subspan(4 + length);
  }
  if (parts.empty()) return 0;
  const auto count = v1_message_parts(parts);
  if (count == 0 || count > parts.size()) std::abort();
  const auto named = name_of_v1_image(parts);
  const auto message = parse_v1(parts, limits);
  if (!message.ok()) return 0;
  if (const auto* image = std::get_if<V1Image>(&*message)) {
    const auto bytes = image->spec.bytes(limits.frame_bytes_max);
    if (!bytes.ok() || !named || named->first != image->series || named->second != image->frame) std::abort();
    if (image->encoding == Encoding::none && parts[image->pixel_part].size() != *bytes) std::abort();
  }
  if (const auto* header = std::get_if<V1Header>(&*message)) {
    const auto& series = header->series;
    for (const auto* arrays : {&series.pixel_mask, &series.flatfield})
      for (const auto& array : *arrays)
        if (array.data.size() != array.spec.bytes(limits.frame_bytes_max).value()) std::abort();
    // What is kept is passed on between ranks as Stream V2.
    for (const auto& [name, item] : series.unknown) {
      CborReader reader(item, 64);
      if (!reader.skip().ok() || !reader.at_end()) std::abort();
    }
  }
  return 0;
}
