#include "recorder/series/chunks/chunk_coding.hpp"

#include <algorithm>

namespace penstock::recorder {

void ChunkCoding::use(const CodecSpec& codec) {
  codec_ = codec;
  filtered_ = !filters_.empty() && codec.encoding == Encoding::none;
  const auto raw = spec_.chunk_bytes();
  const auto encoded_max =
      filtered_ ? filtered_bytes_max(raw) : encoded_bound(codec_, raw, size_of(spec_.series().frame.type));
  chunk_bytes_max_ = std::max<std::uint64_t>(encoded_max, raw);
}

std::vector<std::vector<unsigned>> ChunkCoding::filter_values() const {
  std::vector<std::vector<unsigned>> values;
  if (filtered_)
    for (const auto& filter : filters_) values.push_back(filter.spec.values);
  return values;
}

}  // namespace penstock::recorder
