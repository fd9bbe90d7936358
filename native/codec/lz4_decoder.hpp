/// A decoder of LZ4 blocks into scratch memory.
///
/// Scratch memory has room beyond the block, so copies are made in whole vectors; lengths and back
/// references of the hostile input are checked before each. `Ops` has the vector operations of the
/// processor. Everything has internal linkage: the including files are compiled for different
/// processors.
#pragma once

#include "codec/kernels.hpp"
#include "codec/transpose_portable.hpp"

namespace penstock::codec {
namespace {

constexpr std::size_t copy_bytes = 32;

/// The decoder of one block; see Kernels::lz4_decode for what may be read and written.
template <typename Ops>
class Lz4Decoder {
 public:
  Lz4Decoder(const Lz4Block& block, std::byte* to, std::size_t bytes, std::byte* next)
      : from_(block.begin),
        end_(block.end),
        readable_end_(block.readable_end),
        begin_(to),
        to_(to),
        to_end_(to + bytes),
        next_(next) {}

  /// False if the block is damaged or does not give exactly the bytes asked for.
  bool run() {
    while (from_ < end_) {
      const auto token = static_cast<unsigned>(*from_++);
      std::size_t literals = token >> 4;
      if (literals == 15 && !add_length(literals)) return false;
      if (!take_literals(literals)) return false;
      // Only the last sequence has no match.
      if (from_ == end_) return to_ == to_end_;
      if (!take_match(token & 15)) return false;
    }
    return false;
  }

 private:
  std::size_t input_left() const { return static_cast<std::size_t>(end_ - from_); }
  std::size_t room() const { return static_cast<std::size_t>(to_end_ - to_); }

  bool add_length(std::size_t& length) {
    while (from_ < end_) {
      const auto more = static_cast<std::size_t>(*from_++);
      length += more;
      if (more != 255) return true;
    }
    return false;
  }

  bool take_literals(std::size_t bytes) {
    if (bytes > input_left() || bytes > room()) return false;
    if (bytes <= copy_bytes && readable_end_ - from_ >= static_cast<std::ptrdiff_t>(copy_bytes)) {
      std::memcpy(to_, from_, copy_bytes);
    } else if (bytes != 0) {
      prefetch();
      std::memcpy(to_, from_, bytes);
    }
    to_ += bytes;
    from_ += bytes;
    return true;
  }

  bool take_match(std::size_t bytes) {
    if (input_left() < 2) return false;
    std::uint16_t offset;
    std::memcpy(&offset, from_, sizeof offset);
    from_ += sizeof offset;
    if (bytes == 15 && !add_length(bytes)) return false;
    bytes += 4;
    if (offset == 0 || offset > to_ - begin_ || bytes > room()) return false;
    prefetch();
    if (offset >= copy_bytes) {
      copy_far(offset, bytes);
    } else {
      copy_near(offset, bytes);
    }
    to_ += bytes;
    return true;
  }

  void copy_far(std::size_t offset, std::size_t bytes) {
    const std::byte* const match = to_ - offset;
    std::memcpy(to_, match, copy_bytes);
    for (std::size_t at = copy_bytes; at < bytes; at += copy_bytes) {
      prefetch(at);
      std::memcpy(to_ + at, match + at, copy_bytes);
    }
  }

  /// The match overlaps what it gives: the last `offset` bytes again and again.
  void copy_near(std::size_t offset, std::size_t bytes) {
    if (offset < 16) {
      const typename Ops::Pattern pattern(to_, offset);
      for (std::size_t at = 0; at < bytes; at += pattern.period()) {
        prefetch(at);
        pattern.store(to_ + at);
      }
    } else {
      for (std::size_t at = 0; at < bytes; at += 16) std::memcpy(to_ + at, to_ + at - offset, 16);
    }
  }

  void prefetch(std::size_t at = 0) const { __builtin_prefetch(next_ + (to_ - begin_) + at, 1); }

  const std::byte* from_;
  const std::byte* const end_;
  const std::byte* const readable_end_;
  std::byte* const begin_;
  std::byte* to_;
  std::byte* const to_end_;
  std::byte* const next_;  ///< what will be written after this block is decoded
};

template <typename Ops>
bool lz4_decode_with(const Lz4Block& block, std::byte* to, std::size_t bytes, std::byte* next) {
  return Lz4Decoder<Ops>(block, to, bytes, next).run();
}

}  // namespace
}  // namespace penstock::codec
