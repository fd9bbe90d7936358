/// An encoder of LZ4 blocks for bit planes.
///
/// Planes are of three kinds: long runs, noise, and few set bits among zeros. So comparing is done
/// in whole vectors, noise is recognised by how seldom a byte equals the one before it and is then
/// only sampled, and everything else is searched byte by byte through a table of the last place of
/// each four-byte word. A wrongly predicted branch costs as much as a dozen comparisons, so lengths
/// are computed rather than counted in loops. `Ops` has the vector operations of the processor.
/// Everything has internal linkage: the including files are compiled for different processors.
#pragma once

#include "codec/kernels.hpp"
#include "codec/transpose_portable.hpp"

namespace penstock::codec {
namespace {

// Rules of the block format: the last five bytes are literals, the last match starts at least
// twelve bytes before the end, a match has at least four bytes.
constexpr std::size_t last_literals_bytes = 5;
constexpr std::size_t match_margin_bytes = 12;
constexpr std::size_t match_bytes_min = 4;

// A block is searched in stretches of this many bytes for what kind it is.
constexpr std::size_t stretch_bytes = 64;
// So many bytes of a stretch equal to the one before, at most, make it noise: with eight independent
// bits a byte, a match of four bytes is then to be expected once in some hundred places at best.
constexpr unsigned noise_repeats_max = 5;
// In noise only every nth position is looked up, to find long repeats.
constexpr std::size_t noise_step = 16;
// After this many positions without a match the kind of the range is determined again.
constexpr unsigned misses_max = 16;

inline std::uint32_t load_word(const std::byte* from) {
  std::uint32_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

inline std::size_t table_slot(std::uint32_t word) { return (word * 2654435761u) >> (32 - Lz4Table::bits); }

/// What is beyond 15 in a token's half: 255s and a rest.
inline std::byte* put_length(std::byte* to, std::size_t rest) {
  for (; rest >= 255; rest -= 255) *to++ = std::byte{255};
  *to++ = static_cast<std::byte>(rest);
  return to;
}

/// Literals with the token before them; copies in pieces of 32 bytes.
inline std::byte* put_literals(std::byte* to, std::byte*& token, const std::byte* from, std::size_t bytes) {
  token = to++;
  if (bytes < 15) {
    *token = static_cast<std::byte>(bytes << 4);
    std::memcpy(to, from, 16);
    return to + bytes;
  }
  *token = std::byte{0xf0};
  to = put_length(to, bytes - 15);
  for (std::size_t at = 0; at < bytes; at += 32) std::memcpy(to + at, from + at, 32);
  return to + bytes;
}

inline std::byte* put_match(std::byte* to, std::byte* token, std::size_t offset, std::size_t bytes) {
  const auto distance = static_cast<std::uint16_t>(offset);
  std::memcpy(to, &distance, sizeof distance);
  to += sizeof distance;
  const std::size_t rest = bytes - match_bytes_min;
  *token |= static_cast<std::byte>(rest < 15 ? rest : 15);
  if (rest >= 15 + 255) return put_length(to, rest - 15);
  // Written always and counted where it belongs there: no branch for the usual lengths.
  *to = static_cast<std::byte>(rest - 15);
  return to + (rest >= 15);
}

/// The encoder of one block; see Kernels::lz4_encode for what may be read and written.
template <typename Ops>
class Lz4Encoder {
 public:
  Lz4Encoder(const std::byte* from, std::size_t bytes, std::byte* to, Lz4Table& table, const std::byte* next)
      : from_(from), bytes_(bytes), to_(to), table_(table), next_(next) {}

  std::size_t run() {
    std::byte* const begin = to_;
    if (bytes_ > match_margin_bytes) {
      std::memset(table_.position, 0, sizeof table_.position);
      const std::size_t last_start = bytes_ - match_margin_bytes;
      std::size_t at = 1;
      while ((at = find(at, last_start)) <= last_start) at = take(at);
    }
    std::byte* token;
    to_ = put_literals(to_, token, from_ + anchor_, bytes_ - anchor_);
    return static_cast<std::size_t>(to_ - begin);
  }

 private:
  /// Enters the word at `at` into the table; true if the place that was there before has the same.
  bool look_up(std::size_t at) {
    const std::uint32_t word = load_word(from_ + at);
    std::uint16_t& slot = table_.position[table_slot(word)];
    candidate_ = slot;
    slot = static_cast<std::uint16_t>(at);
    return load_word(from_ + candidate_) == word;
  }

  /// The first place from `at` on with a match, kept in candidate_, or one beyond `last`.
  std::size_t find(std::size_t at, std::size_t last) {
    unsigned misses = at == 1 ? misses_max : 0;
    for (; at <= last; ++at) {
      if (misses >= misses_max) {
        misses = 0;
        while (at <= last && Ops::repeats(from_ + at) <= noise_repeats_max) {
          prefetch(at);
          const std::size_t end = at + stretch_bytes;
          for (; at < end && at <= last; at += noise_step)
            if (look_up(at)) return at;
        }
        if (at > last) break;
      }
      if (look_up(at)) return at;
      ++misses;
    }
    return at;
  }

  /// Writes the match at `at` with the literals before it; returns the place after it.
  std::size_t take(std::size_t at) {
    prefetch(at);
    const std::size_t room = at - anchor_ < candidate_ ? at - anchor_ : candidate_;
    const std::size_t equal = Ops::equal_bytes_before(from_ + at, from_ + candidate_);
    const std::size_t back = equal < room ? equal : room;
    const std::size_t offset = at - candidate_;
    std::byte* token;
    to_ = put_literals(to_, token, from_ + anchor_, at - back - anchor_);
    const std::size_t end = match_end(at, offset);
    to_ = put_match(to_, token, offset, end - at + back);
    anchor_ = end;
    look_up(end - 2);
    return end;
  }

  /// Where the bytes from `at` on cease to equal those at `offset` before.
  std::size_t match_end(std::size_t at, std::size_t offset) {
    const std::size_t limit = bytes_ - last_literals_bytes;
    for (; at < limit; at += Ops::width) {
      const std::size_t equal = Ops::equal_bytes(from_ + at, from_ + at - offset);
      // A branch, not an addition of `equal`: the next comparison must not wait for this one.
      if (equal != Ops::width) {
        at += equal;
        break;
      }
      prefetch(at);
    }
    return at < limit ? at : limit;
  }

  void prefetch(std::size_t at) { __builtin_prefetch(next_ + at); }

  const std::byte* const from_;
  const std::size_t bytes_;
  std::byte* to_;
  Lz4Table& table_;
  const std::byte* const next_;  ///< what will be read after this block
  std::size_t anchor_ = 0;       ///< first byte that is not written yet
  std::size_t candidate_ = 0;
};

template <typename Ops>
std::size_t lz4_encode_with(const std::byte* from, std::size_t bytes, std::byte* to, Lz4Table& table,
                            const std::byte* next) {
  return Lz4Encoder<Ops>(from, bytes, to, table, next).run();
}

}  // namespace
}  // namespace penstock::codec
