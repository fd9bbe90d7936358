#include "check/compare/pipeline.hpp"

#include <cstring>

namespace penstock::check {
namespace {

constexpr int filter_deflate = 1;
constexpr int filter_shuffle = 2;
constexpr int filter_fletcher32 = 3;
constexpr int filter_lz4 = 32004;
constexpr int filter_bitshuffle = 32008;
constexpr int filter_zstd = 32015;
constexpr std::size_t fletcher32_bytes = 4;

std::optional<Encoding> encoding_of_filter(const FilterSpec& filter) {
  switch (filter.id) {
    case filter_deflate: return Encoding::deflate;
    case filter_lz4: return Encoding::lz4;
    case filter_zstd: return Encoding::zstd;
    case filter_bitshuffle:
      // Values: version (2), element bytes, block elements, compression.
      if (filter.values.size() < 5) return std::nullopt;
      if (filter.values[4] == 2) return Encoding::bitshuffle_lz4;
      if (filter.values[4] == 3) return Encoding::bitshuffle_zstd;
      return std::nullopt;
    default: return std::nullopt;
  }
}

/// HDF5's Fletcher checksum: over big-endian 16-bit words, the odd last byte as a high byte.
std::uint32_t fletcher32(Bytes data) {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  std::size_t since_fold = 0;
  for (std::size_t i = 0; i < data.size(); i += 2) {
    const auto first = std::to_integer<std::uint32_t>(data[i]) << 8;
    low += first | (i + 1 < data.size() ? std::to_integer<std::uint32_t>(data[i + 1]) : 0);
    high += low;
    if (++since_fold == 360) {
      low = (low & 0xFFFF) + (low >> 16);
      high = (high & 0xFFFF) + (high >> 16);
      since_fold = 0;
    }
  }
  const auto fold = [](std::uint64_t sum) {
    while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
    return static_cast<std::uint32_t>(sum);
  };
  return fold(high) << 16 | fold(low);
}

/// The reverse of grouping the elements' bytes by their place; a rest of less than one element stays.
void unshuffle(Bytes from, std::size_t element_bytes, std::byte* to) {
  const auto elements = from.size() / element_bytes;
  for (std::size_t place = 0; place < element_bytes; ++place) {
    const auto* plane = from.data() + place * elements;
    for (std::size_t i = 0; i < elements; ++i) to[i * element_bytes + place] = plane[i];
  }
  const auto done = elements * element_bytes;
  std::memcpy(to + done, from.data() + done, from.size() - done);
}

}  // namespace

Result<Pipeline> Pipeline::of(const std::vector<FilterSpec>& filters, std::size_t element_bytes,
                              const Plugins& plugins) {
  Pipeline pipeline;
  pipeline.element_bytes_ = element_bytes;
  unsigned encodings = 0;
  for (const auto& filter : filters) {
    if (filter.id == filter_shuffle) {
      if (encodings > 0 || element_bytes == 0) return make_error(Errc::unsupported, "shuffle behind a compression");
      pipeline.steps_.push_back({Kind::shuffle, Encoding::none});
    } else if (filter.id == filter_fletcher32) {
      pipeline.steps_.push_back({Kind::fletcher32, Encoding::none});
    } else if (const auto encoding = encoding_of_filter(filter)) {
      if (++encodings > 1) return make_error(Errc::unsupported, "more than one compression");
      pipeline.steps_.push_back({Kind::encoding, *encoding});
    } else {
      if (++encodings > 1) return make_error(Errc::unsupported, "more than one compression");
      if (!plugins.used)
        return make_error(Errc::unsupported, "filter {} requires a plug-in, which --no-plugins excludes", filter.id);
      PEN_ASSIGN(pipeline.plugin_,
                 store::FilterPlugin::load({.id = filter.id, .name = {}, .folders = plugins.folders}));
      pipeline.plugin_filter_ = filter;
      pipeline.steps_.push_back({Kind::plugin, Encoding::none});
    }
  }
  return pipeline;
}

Result<Bytes> Pipeline::undo(const Step& step, Bytes stored, std::size_t expanded_bytes, std::vector<std::byte>& into,
                             PipelineScratch& scratch) const {
  if (step.kind == Kind::fletcher32) {
    if (stored.size() < fletcher32_bytes)
      return make_error(Errc::corrupt, "{} bytes are too few for a Fletcher checksum", stored.size());
    const auto data = stored.first(stored.size() - fletcher32_bytes);
    const auto said = load_le<std::uint32_t>(stored.data() + data.size());
    if (const auto sum = fletcher32(data); sum != said)
      return make_error(Errc::corrupt, "the Fletcher checksum is {:08x}, the chunk says {:08x}", sum, said);
    return data;
  }
  if (step.kind == Kind::plugin) {
    PEN_TRY(plugin_->reverse(plugin_filter_, stored, expanded_bytes, scratch.filter));
    return scratch.filter.bytes();
  }
  into.resize(expanded_bytes);
  if (step.kind == Kind::shuffle) {
    if (stored.size() != expanded_bytes)
      return make_error(Errc::corrupt, "{} bytes instead of {}", stored.size(), expanded_bytes);
    unshuffle(stored, element_bytes_, into.data());
    return Bytes(into);
  }
  PEN_TRY(decode(step.encoding, stored, element_bytes_, into, scratch.codec));
  return Bytes(into);
}

Result<Bytes> Pipeline::expand(Bytes stored, std::uint32_t filter_mask, std::size_t raw_bytes,
                               PipelineScratch& scratch) const {
  // What each step had as its input, while sizes can be told: all of them, as only a compression
  // changes a size in an untold way and there is at most one.
  std::vector<std::size_t> input_bytes;
  std::size_t bytes = raw_bytes;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    input_bytes.push_back(bytes);
    const bool skipped = i < 32 && (filter_mask >> i & 1U) != 0;
    if (!skipped && steps_[i].kind == Kind::fletcher32) bytes += fletcher32_bytes;
  }
  Bytes data = stored;
  bool to_raw = true;  // the two buffers take turns
  for (std::size_t i = steps_.size(); i-- > 0;) {
    if (i < 32 && (filter_mask >> i & 1U) != 0) continue;
    PEN_ASSIGN(data, undo(steps_[i], data, input_bytes[i], to_raw ? scratch.raw : scratch.between, scratch));
    to_raw = !to_raw;
  }
  if (data.size() != raw_bytes)
    return make_error(Errc::corrupt, "{} bytes instead of the chunk's {}", data.size(), raw_bytes);
  return data;
}

}  // namespace penstock::check
