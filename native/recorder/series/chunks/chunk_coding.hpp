/// How the chunks of a series are encoded: by a codec, or through filter plug-ins.
///
/// use() is called before the first frame is encoded, by one thread; afterwards it is constant and read without a lock.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "codec/codec.hpp"
#include "recorder/config/filters.hpp"
#include "recorder/series/series_spec.hpp"

namespace penstock::recorder {

class ChunkCoding {
 public:
  /// `filters` by channel, for frames that come plain; empty: none. `spec` outlives it.
  ChunkCoding(const SeriesSpec& spec, std::vector<ChannelFilter> filters)
      : spec_(spec), filters_(std::move(filters)), codec_(spec.config().codec) {}

  /// What the first frame, or a file that was left, has settled.
  void use(const CodecSpec& codec);

  const CodecSpec& codec() const { return codec_; }
  /// Whether chunks go through the filter plug-ins; the codec has no encoding then.
  bool is_filtered() const { return filtered_; }
  const std::vector<ChannelFilter>& filters() const { return filters_; }
  /// The plug-ins' parameters, by channel, if chunks go through them.
  std::vector<std::vector<unsigned>> filter_values() const;
  /// A chunk as the recorder itself encodes it has up to this many bytes; its slot has as many.
  std::uint64_t chunk_bytes_max() const { return chunk_bytes_max_; }

  /// The most that a filter plug-in may make of a chunk; a chunk that it makes larger is better stored plain.
  static std::uint64_t filtered_bytes_max(std::uint64_t raw_bytes) {
    return raw_bytes + raw_bytes / 8 + (std::uint64_t{64} << 10);
  }

 private:
  const SeriesSpec& spec_;
  const std::vector<ChannelFilter> filters_;
  CodecSpec codec_;
  bool filtered_ = false;
  std::uint64_t chunk_bytes_max_ = 0;
};

}  // namespace penstock::recorder
