#include "stream/messages/cbor.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace penstock::stream {
namespace {

constexpr std::uint8_t major_unsigned = 0;
constexpr std::uint8_t major_negative = 1;
constexpr std::uint8_t major_bytes = 2;
constexpr std::uint8_t major_text = 3;
constexpr std::uint8_t major_array = 4;
constexpr std::uint8_t major_map = 5;
constexpr std::uint8_t major_tag = 6;
constexpr std::uint8_t major_other = 7;

constexpr std::uint8_t detail_false = 20;
constexpr std::uint8_t detail_true = 21;
constexpr std::uint8_t detail_null = 22;
constexpr std::uint8_t detail_undefined = 23;
constexpr std::uint8_t detail_half = 25;
constexpr std::uint8_t detail_single = 26;
constexpr std::uint8_t detail_double = 27;
constexpr std::uint8_t detail_indefinite = 31;
constexpr auto stop_byte = std::byte{0xff};

double from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  double magnitude = 0;
  if (exponent == 0)
    magnitude = std::ldexp(fraction, -24);
  else if (exponent < 31)
    magnitude = std::ldexp(fraction + 1024, exponent - 25);
  else
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

/// Length of the UTF-8 sequence that starts at `at`, 0 if there is none: no overlong forms, no
/// surrogates, nothing beyond U+10FFFF (RFC 3629).
std::size_t utf8_sequence(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() - at < size) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  const unsigned second = byte(at + 1);
  if (first == 0xe0 && second < 0xa0) return 0;
  if (first == 0xed && second >= 0xa0) return 0;
  if (first == 0xf0 && second < 0x90) return 0;
  if (first == 0xf4 && second >= 0x90) return 0;
  return size;
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto size = utf8_sequence(text, at);
    if (size == 0) return false;
    at += size;
  }
  return true;
}

}  // namespace

std::string_view name(CborKind kind) {
  constexpr std::array<std::string_view, 13> names{"an unsigned integer",
                                                   "a negative integer",
                                                   "a byte string",
                                                   "text",
                                                   "an array",
                                                   "a map",
                                                   "a tag",
                                                   "a boolean",
                                                   "null",
                                                   "a float",
                                                   "a simple value",
                                                   "a break",
                                                   "the end"};
  return names[static_cast<std::size_t>(kind)];
}

CborKind CborReader::peek() const {
  if (at_end()) return CborKind::end;
  const auto first = std::to_integer<std::uint8_t>(input_[offset_]);
  const auto major = static_cast<std::uint8_t>(first >> 5);
  if (major < major_other) return static_cast<CborKind>(major);
  switch (first & 0x1f) {
    case detail_false:
    case detail_true: return CborKind::boolean;
    case detail_null:
    case detail_undefined: return CborKind::null;
    case detail_half:
    case detail_single:
    case detail_double: return CborKind::floating;
    case detail_indefinite: return CborKind::stop;
    default: return CborKind::simple;
  }
}

Error CborReader::wrong_kind(std::string_view wanted) const {
  const auto found = peek();
  if (found == CborKind::end)
    return make_error(Errc::truncated, "at byte {}: the message ends where {} is expected", offset_, wanted);
  return make_error(Errc::malformed, "at byte {}: expected {}, found {}", offset_, wanted, name(found));
}

Result<Bytes> CborReader::take(std::uint64_t size, std::string_view what) {
  if (size > input_.size() - offset_)
    return make_error(Errc::truncated, "at byte {}: {} of {} bytes, but only {} bytes are left", offset_, what, size,
                      input_.size() - offset_);
  const auto taken = input_.subspan(offset_, size);
  offset_ += size;
  return taken;
}

Result<CborReader::Head> CborReader::take_head() {
  PEN_ASSIGN(const auto first, take(1, "an item"));
  const auto initial = std::to_integer<std::uint8_t>(first[0]);
  Head head{static_cast<std::uint8_t>(initial >> 5), static_cast<std::uint8_t>(initial & 0x1f), 0};
  if (head.detail < 24) {
    head.argument = head.detail;
  } else if (head.detail <= 27) {
    const auto size = std::size_t{1} << (head.detail - 24);
    PEN_ASSIGN(const auto argument, take(size, "an item's head"));
    for (const auto byte : argument) head.argument = head.argument << 8 | std::to_integer<std::uint64_t>(byte);
  } else if (head.detail < 31 || head.major < major_bytes || head.major == major_tag) {
    return make_error(Errc::malformed, "at byte {}: 0x{:02x} does not start a CBOR item", offset_ - 1, initial);
  }
  return head;
}

Result<CborReader::Head> CborReader::expect(std::uint8_t major, std::string_view wanted) {
  if (at_end() || std::to_integer<std::uint8_t>(input_[offset_]) >> 5 != major) return wrong_kind(wanted);
  return take_head();
}

Result<std::uint64_t> CborReader::unsigned_integer() {
  PEN_ASSIGN(const auto head, expect(major_unsigned, name(CborKind::unsigned_integer)));
  return head.argument;
}

Result<std::int64_t> CborReader::integer() {
  const auto kind = peek();
  if (kind != CborKind::unsigned_integer && kind != CborKind::negative_integer) return wrong_kind("an integer");
  const auto at = offset_;
  PEN_ASSIGN(const auto head, take_head());
  if (head.argument > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return make_error(Errc::malformed, "at byte {}: an integer beyond 64 bits signed", at);
  const auto magnitude = static_cast<std::int64_t>(head.argument);
  return head.major == major_negative ? -1 - magnitude : magnitude;
}

Result<double> CborReader::number() {
  const auto kind = peek();
  if (kind != CborKind::unsigned_integer && kind != CborKind::negative_integer && kind != CborKind::floating)
    return wrong_kind("a number");
  PEN_ASSIGN(const auto head, take_head());
  if (head.major == major_unsigned) return static_cast<double>(head.argument);
  if (head.major == major_negative) return -1.0 - static_cast<double>(head.argument);
  if (head.detail == detail_half) return from_half(static_cast<std::uint16_t>(head.argument));
  if (head.detail == detail_single)
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(head.argument)));
  return std::bit_cast<double>(head.argument);
}

Result<bool> CborReader::boolean() {
  if (peek() != CborKind::boolean) return wrong_kind(name(CborKind::boolean));
  PEN_ASSIGN(const auto head, take_head());
  return head.detail == detail_true;
}

Result<void> CborReader::null() {
  if (peek() != CborKind::null) return wrong_kind(name(CborKind::null));
  PEN_ASSIGN([[maybe_unused]] const auto head, take_head());
  return {};
}

Result<std::uint64_t> CborReader::tag() {
  PEN_ASSIGN(const auto head, expect(major_tag, name(CborKind::tag)));
  return head.argument;
}

Result<Bytes> CborReader::bytes() {
  const auto at = offset_;
  PEN_ASSIGN(const auto head, expect(major_bytes, name(CborKind::bytes)));
  if (head.indefinite())
    return make_error(Errc::unsupported, "at byte {}: a byte string in pieces (indefinite length)", at);
  return take(head.argument, name(CborKind::bytes));
}

Result<std::string_view> CborReader::text(std::string& scratch) {
  const auto at = offset_;
  PEN_ASSIGN(const auto head, expect(major_text, name(CborKind::text)));
  std::string_view whole;
  if (!head.indefinite()) {
    PEN_ASSIGN(const auto taken, take(head.argument, name(CborKind::text)));
    whole = as_text(taken);
  } else {
    scratch.clear();
    while (peek() != CborKind::stop) {
      PEN_ASSIGN(const auto piece, expect(major_text, "a piece of text"));
      if (piece.indefinite()) return make_error(Errc::malformed, "at byte {}: text in pieces within a piece", at);
      PEN_ASSIGN(const auto taken, take(piece.argument, "a piece of text"));
      scratch += as_text(taken);
    }
    ++offset_;
    whole = scratch;
  }
  if (!is_utf8(whole)) return make_error(Errc::malformed, "at byte {}: text that is not UTF-8", at);
  return whole;
}

Result<CborContainer> CborReader::enter(std::uint8_t major, std::string_view wanted) {
  const auto at = offset_;
  PEN_ASSIGN(const auto head, expect(major, wanted));
  if (nesting_left_ == 0) return make_error(Errc::too_large, "at byte {}: nested too deep", at);
  --nesting_left_;
  if (head.indefinite()) return CborContainer{};
  // Every item takes a byte at least: a count beyond what is left is a lie, told before it is followed.
  if (head.argument > input_.size() - offset_)
    return make_error(Errc::truncated, "at byte {}: {} with {} items, but only {} bytes are left", at, wanted,
                      head.argument, input_.size() - offset_);
  return CborContainer{head.argument};
}

Result<CborContainer> CborReader::enter_array() { return enter(major_array, name(CborKind::array)); }
Result<CborContainer> CborReader::enter_map() { return enter(major_map, name(CborKind::map)); }

Result<bool> CborReader::more(CborContainer& container) {
  if (container.left) {
    if (*container.left == 0) {
      ++nesting_left_;
      return false;
    }
    --*container.left;
    return true;
  }
  if (at_end()) return make_error(Errc::truncated, "at byte {}: the message ends within an array or map", offset_);
  if (input_[offset_] != stop_byte) return true;
  ++offset_;
  ++nesting_left_;
  return false;
}

Result<void> CborReader::skip_string() {
  PEN_ASSIGN(const auto head, take_head());
  if (!head.indefinite()) {
    PEN_ASSIGN([[maybe_unused]] const auto taken, take(head.argument, "a string"));
    return {};
  }
  while (peek() != CborKind::stop) {
    PEN_ASSIGN(const auto piece, expect(head.major, "a piece of a string"));
    if (piece.indefinite())
      return make_error(Errc::malformed, "at byte {}: a string in pieces within a piece", offset_);
    PEN_ASSIGN([[maybe_unused]] const auto taken, take(piece.argument, "a piece of a string"));
  }
  ++offset_;
  return {};
}

Result<void> CborReader::skip() {
  while (peek() == CborKind::tag) PEN_TRY(tag());
  switch (peek()) {
    case CborKind::bytes:
    case CborKind::text: return skip_string();
    case CborKind::array: {
      PEN_ASSIGN(auto array, enter_array());
      for (;;) {
        PEN_ASSIGN(const bool another, more(array));
        if (!another) return {};
        PEN_TRY(skip());
      }
    }
    case CborKind::map: {
      PEN_ASSIGN(auto map, enter_map());
      for (;;) {
        PEN_ASSIGN(const bool another, more(map));
        if (!another) return {};
        PEN_TRY(skip());
        PEN_TRY(skip());
      }
    }
    case CborKind::stop:
    case CborKind::end: return wrong_kind("an item");
    default: {
      PEN_ASSIGN([[maybe_unused]] const auto head, take_head());
      return {};
    }
  }
}

void CborWriter::head(std::uint8_t major, std::uint64_t argument) {
  const auto initial = [&](std::uint8_t detail) { return static_cast<std::byte>(major << 5 | detail); };
  if (argument < 24) {
    into_.push_back(initial(static_cast<std::uint8_t>(argument)));
    return;
  }
  const int width_log2 = argument <= 0xff ? 0 : argument <= 0xffff ? 1 : argument <= 0xffffffff ? 2 : 3;
  into_.push_back(initial(static_cast<std::uint8_t>(24 + width_log2)));
  for (int shift = (8 << width_log2) - 8; shift >= 0; shift -= 8)
    into_.push_back(static_cast<std::byte>(argument >> shift));
}

void CborWriter::integer(std::int64_t value) {
  if (value >= 0)
    head(major_unsigned, static_cast<std::uint64_t>(value));
  else
    head(major_negative, static_cast<std::uint64_t>(-1 - value));
}

void CborWriter::floating(double value) {
  into_.push_back(static_cast<std::byte>(major_other << 5 | detail_double));
  std::array<std::byte, 8> big_endian;
  store_be(big_endian.data(), std::bit_cast<std::uint64_t>(value));
  raw(big_endian);
}

void CborWriter::boolean(bool value) {
  into_.push_back(static_cast<std::byte>(major_other << 5 | (value ? detail_true : detail_false)));
}

void CborWriter::null() { into_.push_back(static_cast<std::byte>(major_other << 5 | detail_null)); }

void CborWriter::text(std::string_view value) {
  head(major_text, value.size());
  raw(as_bytes(value));
}

void CborWriter::bytes(Bytes value) {
  head(major_bytes, value.size());
  raw(value);
}

}  // namespace penstock::stream
