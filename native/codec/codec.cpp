#include "codec/codec.hpp"

#include "codec/bitshuffle.hpp"
#include "codec/scratch.hpp"
#include "codec/whole_chunk.hpp"

namespace penstock {
namespace {

bool is_bitshuffle(Encoding encoding) {
  return encoding == Encoding::bitshuffle_lz4 || encoding == Encoding::bitshuffle_zstd;
}

/// The specification with defaults filled in, checked against what encoding and elements allow.
Result<CodecSpec> resolved(const CodecSpec& spec, std::size_t element_bytes) {
  if (is_bitshuffle(spec.encoding)) return codec::resolved_bitshuffle(spec, element_bytes);
  CodecSpec result = spec;
  PEN_ASSIGN(result.level, codec::resolved_level(spec));
  return result;
}

std::vector<unsigned> bitshuffle_values(const CodecSpec& spec, std::size_t element_bytes) {
  constexpr unsigned version_major = 0;
  constexpr unsigned version_minor = 4;
  constexpr unsigned with_lz4 = 2;
  constexpr unsigned with_zstd = 3;
  const auto block_elements = static_cast<unsigned>(spec.block_bytes / element_bytes);
  std::vector<unsigned> values{version_major, version_minor, static_cast<unsigned>(element_bytes), block_elements};
  if (spec.encoding == Encoding::bitshuffle_lz4) {
    values.push_back(with_lz4);
  } else {
    values.push_back(with_zstd);
    values.push_back(static_cast<unsigned>(spec.level == 0 ? 1 : spec.level));
  }
  return values;
}

}  // namespace

std::vector<FilterSpec> filters_of(const CodecSpec& spec, std::size_t element_bytes) {
  const auto level = static_cast<unsigned>(spec.level == 0 ? 1 : spec.level);
  switch (spec.encoding) {
    case Encoding::none: return {};
    case Encoding::bitshuffle_lz4:
    case Encoding::bitshuffle_zstd: return {{32008, bitshuffle_values(spec, element_bytes)}};
    case Encoding::lz4: return {{32004, {0}}};
    case Encoding::zstd: return {{32015, {level}}};
    case Encoding::deflate: return {{1, {level}}};
  }
  return {};
}

CodecScratch::CodecScratch() : impl_(std::make_unique<Impl>()) {}
CodecScratch::~CodecScratch() = default;
CodecScratch::CodecScratch(CodecScratch&&) noexcept = default;
CodecScratch& CodecScratch::operator=(CodecScratch&&) noexcept = default;

std::size_t encoded_bound(const CodecSpec& spec, std::size_t raw_bytes, std::size_t element_bytes) {
  const auto settled = resolved(spec, element_bytes);
  if (!settled.ok()) return raw_bytes;
  switch (spec.encoding) {
    case Encoding::none: return raw_bytes;
    case Encoding::bitshuffle_lz4:
    case Encoding::bitshuffle_zstd: return codec::bitshuffle_bound(*settled, raw_bytes, element_bytes);
    case Encoding::lz4: return codec::lz4_chunk_bound(raw_bytes);
    case Encoding::zstd: return codec::zstd_chunk_bound(raw_bytes);
    case Encoding::deflate: return codec::deflate_chunk_bound(raw_bytes);
  }
  return raw_bytes;
}

Result<std::size_t> encode(const CodecSpec& spec, Bytes raw, std::size_t element_bytes, MutableBytes into,
                           CodecScratch& scratch) {
  PEN_ASSIGN(const CodecSpec settled, resolved(spec, element_bytes));
  if (element_bytes == 0 || raw.size() % element_bytes != 0)
    return make_error(Errc::invalid_argument, "{} bytes is not a multiple of the element size ({} bytes)", raw.size(),
                      element_bytes);
  const std::size_t bound = encoded_bound(settled, raw.size(), element_bytes);
  if (into.size() < bound)
    return make_error(Errc::invalid_argument,
                      "buffer of {} bytes is too small: encoding {} bytes as {} may need {} bytes", into.size(),
                      raw.size(), name(spec.encoding), bound);
  switch (spec.encoding) {
    case Encoding::none:
      if (!raw.empty()) std::memcpy(into.data(), raw.data(), raw.size());
      return raw.size();
    case Encoding::bitshuffle_lz4:
    case Encoding::bitshuffle_zstd: return codec::bitshuffle_encode(settled, raw, element_bytes, into, scratch.impl());
    case Encoding::lz4: return codec::lz4_chunk_encode(raw, into, scratch.impl());
    case Encoding::zstd: return codec::zstd_chunk_encode(settled.level, raw, into, scratch.impl());
    case Encoding::deflate: return codec::deflate_chunk_encode(settled.level, raw, into, scratch.impl());
  }
  return make_error(Errc::unsupported, "unknown encoding {}", static_cast<int>(spec.encoding));
}

Result<void> decode(Encoding encoding, Bytes encoded, std::size_t element_bytes, MutableBytes into,
                    CodecScratch& scratch) {
  switch (encoding) {
    case Encoding::none:
      PEN_TRY(check_framing(encoding, encoded, element_bytes, into.size()));
      if (!into.empty()) std::memcpy(into.data(), encoded.data(), into.size());
      return {};
    case Encoding::bitshuffle_lz4:
    case Encoding::bitshuffle_zstd:
      return codec::bitshuffle_decode(encoding, encoded, element_bytes, into, scratch.impl());
    case Encoding::lz4: return codec::lz4_chunk_decode(encoded, into);
    case Encoding::zstd: return codec::zstd_chunk_decode(encoded, into, scratch.impl());
    case Encoding::deflate: return codec::deflate_chunk_decode(encoded, into, scratch.impl());
  }
  return make_error(Errc::unsupported, "unknown encoding {}", static_cast<int>(encoding));
}

Result<void> check_framing(Encoding encoding, Bytes encoded, std::size_t element_bytes, std::size_t raw_bytes) {
  switch (encoding) {
    case Encoding::none:
      if (encoded.size() != raw_bytes)
        return make_error(Errc::corrupt, "{} bytes of plain pixels, expected {}", encoded.size(), raw_bytes);
      return {};
    case Encoding::bitshuffle_lz4:
    case Encoding::bitshuffle_zstd: return codec::bitshuffle_check(encoded, element_bytes, raw_bytes);
    case Encoding::lz4: return codec::lz4_chunk_check(encoded, raw_bytes);
    case Encoding::zstd: return codec::zstd_chunk_check(encoded, raw_bytes);
    case Encoding::deflate: return codec::deflate_chunk_check(encoded, raw_bytes);
  }
  return make_error(Errc::unsupported, "unknown encoding {}", static_cast<int>(encoding));
}

}  // namespace penstock
