#include "frame/wire_form.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace penstock {
namespace {

/// IEEE 754 binary16 to binary32, which is exact.
std::uint32_t single_of_half(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  std::uint32_t exponent = (half >> 10) & 0x1f;
  std::uint32_t fraction = half & 0x3ff;
  if (exponent == 0x1f) return sign | 0x7f800000 | fraction << 13;
  if (exponent == 0) {
    if (fraction == 0) return sign;
    // No leading one is implied: shifted until there is one.
    const auto shift = static_cast<std::uint32_t>(std::countl_zero(fraction)) - 21;
    fraction = (fraction << shift) & 0x3ff;
    exponent = 1 - shift;
  }
  return sign | (exponent + 112) << 23 | fraction << 13;
}

template <typename Word, bool swapped>
Word load(const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  if constexpr (swapped && sizeof(Word) == 2) word = __builtin_bswap16(word);
  if constexpr (swapped && sizeof(Word) == 4) word = __builtin_bswap32(word);
  if constexpr (swapped && sizeof(Word) == 8) word = __builtin_bswap64(word);
  return word;
}

/// One element made right.
template <typename Word, bool swapped, bool half>
void move_element(const std::byte* from, std::byte* to) {
  const auto word = load<Word, swapped>(from);
  if constexpr (half) {
    const auto single = single_of_half(word);
    std::memcpy(to, &single, sizeof single);
  } else {
    std::memcpy(to, &word, sizeof word);
  }
}

/// The last two dimensions of an array, from column-major order; in squares, so that both sides stay in the cache.
template <typename Word, bool swapped, bool half>
void turn_plane(const std::byte* from, std::uint64_t row_step, std::uint64_t column_step, std::uint64_t rows,
                std::uint64_t columns, std::byte* to) {
  constexpr std::uint64_t square = 32;
  constexpr std::size_t out_bytes = half ? 4 : sizeof(Word);
  for (std::uint64_t top = 0; top < rows; top += square)
    for (std::uint64_t left = 0; left < columns; left += square)
      for (auto row = top; row < std::min(rows, top + square); ++row)
        for (auto column = left; column < std::min(columns, left + square); ++column)
          move_element<Word, swapped, half>(from + (row * row_step + column * column_step) * sizeof(Word),
                                            to + (row * columns + column) * out_bytes);
}

template <typename Word, bool swapped, bool half>
void turn(const std::vector<std::uint64_t>& shape, const std::byte* from, std::byte* to) {
  constexpr std::size_t out_bytes = half ? 4 : sizeof(Word);
  const auto rows = shape[shape.size() - 2], columns = shape.back();
  std::uint64_t planes = 1;  // also the elements from one row to the next
  for (std::size_t i = 0; i + 2 < shape.size(); ++i) planes *= shape[i];
  for (std::uint64_t plane = 0; plane < planes; ++plane) {
    // Counted with the last of the leading dimensions fastest, and sent with the first of them fastest.
    std::uint64_t offset = 0, rest = plane, step = planes;
    for (auto i = shape.size() - 2; i-- > 0;) {
      step /= shape[i];
      offset += rest % shape[i] * step;
      rest /= shape[i];
    }
    turn_plane<Word, swapped, half>(from + offset * sizeof(Word), planes, planes * rows, rows, columns,
                                    to + plane * rows * columns * out_bytes);
  }
}

template <typename Word, bool swapped, bool half>
void straighten_as(const WireForm& form, const ArraySpec& spec, Bytes sent, MutableBytes into) {
  if (form.column_major && spec.shape.size() > 1)
    return turn<Word, swapped, half>(spec.shape, sent.data(), into.data());
  constexpr std::size_t out_bytes = half ? 4 : sizeof(Word);
  const auto count = sent.size() / sizeof(Word);
  for (std::size_t i = 0; i < count; ++i)
    move_element<Word, swapped, half>(sent.data() + i * sizeof(Word), into.data() + i * out_bytes);
}

template <typename Word, bool half = false>
void straighten_words(const WireForm& form, const ArraySpec& spec, Bytes sent, MutableBytes into) {
  if (form.big_endian)
    straighten_as<Word, true, half>(form, spec, sent, into);
  else
    straighten_as<Word, false, half>(form, spec, sent, into);
}

}  // namespace

void straighten(const WireForm& form, const ArraySpec& spec, Bytes sent, MutableBytes into) {
  if (form.half) return straighten_words<std::uint16_t, true>(form, spec, sent, into);
  switch (size_of(spec.type)) {
    case 1: return straighten_words<std::uint8_t>(form, spec, sent, into);
    case 2: return straighten_words<std::uint16_t>(form, spec, sent, into);
    case 4: return straighten_words<std::uint32_t>(form, spec, sent, into);
    default: return straighten_words<std::uint64_t>(form, spec, sent, into);
  }
}

}  // namespace penstock
