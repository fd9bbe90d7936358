/// Arrays whose elements a source sends otherwise than the file keeps them: little-endian, the last dimension fastest.
///
/// What is sent so stays as it came, also compressed, until somebody needs the elements: then straighten() makes them
/// right. The ArraySpec beside a WireForm is always that of the array made right.
#pragma once

#include "base/bytes.hpp"
#include "frame/array.hpp"

namespace penstock {

struct WireForm {
  bool big_endian = false;
  bool column_major = false;  ///< the first dimension runs fastest
  bool half = false;          ///< floats of 16 bits, which become float32: it has all of their values

  bool operator==(const WireForm&) const = default;
  /// Nothing is to be done.
  bool plain() const { return *this == WireForm{}; }
  /// Of an element as it was sent.
  std::size_t element_bytes(ElementType type) const { return half ? 2 : size_of(type); }
  /// As they were sent, of an array that has `bytes` bytes made right.
  std::uint64_t sent_bytes(std::uint64_t bytes) const { return half ? bytes / 2 : bytes; }
};

/// Writes the array made right. `sent` has form.sent_bytes(into.size()) bytes, which is the size of `spec`; the two do
/// not overlap.
void straighten(const WireForm& form, const ArraySpec& spec, Bytes sent, MutableBytes into);

}  // namespace penstock
