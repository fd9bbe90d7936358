/// Chunk encodings: from pixels to the bytes that an HDF5 filter stores, and back.
///
/// The bytes are exactly what the registered filter reads (docs/reference/format.md gives the
/// framings), so any HDF5 reader with the plug-in opens them. No call allocates in a steady state;
/// scratch memory lives in a `CodecScratch` that one thread owns.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "frame/encoding.hpp"

namespace penstock {

/// An HDF5 filter as the file declares it: the complete parameter list.
struct FilterSpec {
  int id = 0;
  std::vector<unsigned> values;
};

struct CodecSpec {
  Encoding encoding = Encoding::none;
  /// zstd 1…19, deflate 1…9; ignored by others. 0 is the encoding's default (1).
  int level = 0;
  /// Uncompressed bytes of a bitshuffle block; 0 is the filter's default of 8192 bytes. A multiple
  /// of 8 elements.
  std::uint32_t block_bytes = 0;
};

/// The filter that an encoding declares for elements of `element_bytes`; nothing for `none`.
std::vector<FilterSpec> filters_of(const CodecSpec& spec, std::size_t element_bytes);

/// Memory of one thread.
class CodecScratch {
 public:
  CodecScratch();
  ~CodecScratch();
  CodecScratch(CodecScratch&&) noexcept;
  CodecScratch& operator=(CodecScratch&&) noexcept;
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// The most bytes that `encode` writes for `raw_bytes` of pixels.
std::size_t encoded_bound(const CodecSpec& spec, std::size_t raw_bytes, std::size_t element_bytes);

/// Encodes `raw` (a whole number of elements) into `into` (at least encoded_bound() bytes); returns
/// the bytes written.
Result<std::size_t> encode(const CodecSpec& spec, Bytes raw, std::size_t element_bytes, MutableBytes into,
                           CodecScratch& scratch);

/// Decodes to exactly `into.size()` bytes. The input is hostile: lengths and back references are
/// checked, and an encoding that gives another size is an error (`corrupt`).
Result<void> decode(Encoding encoding, Bytes encoded, std::size_t element_bytes, MutableBytes into,
                    CodecScratch& scratch);

/// Looks at the framing only, without decoding: whether `encoded` claims to expand to `raw_bytes`
/// and its block lengths add up to its size. Cheap enough for every frame that comes compressed.
Result<void> check_framing(Encoding encoding, Bytes encoded, std::size_t element_bytes, std::size_t raw_bytes);

}  // namespace penstock
