#include "load/packed_pixels.hpp"

#include <array>

#include "load/content.hpp"

namespace penstock::load {
namespace {

constexpr std::size_t byte_values = 256;
constexpr std::uint32_t byte_mask = 0xFF;
constexpr std::uint32_t nibble_mask = 0xF;
constexpr int nibble_bits = 4;
constexpr int byte_bits = 8;
constexpr std::size_t stamp_bytes = sizeof(std::uint64_t);
constexpr std::uint32_t crc32_polynomial = 0xEDB88320;  // of gzip, its bits turned round

using CrcTable = std::array<std::uint32_t, byte_values>;

constexpr CrcTable make_crc_table() {
  CrcTable table{};
  for (std::uint32_t value = 0; value < byte_values; ++value) {
    auto crc = value;
    for (int bit = 0; bit < byte_bits; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? crc32_polynomial : 0);
    table[value] = crc;
  }
  return table;
}

constexpr CrcTable crc_table = make_crc_table();

constexpr std::uint32_t with_byte(std::uint32_t crc, std::uint32_t byte) {
  return crc_table[(crc ^ byte) & byte_mask] ^ (crc >> static_cast<unsigned>(byte_bits));
}

std::uint32_t with_zeros(std::uint32_t crc, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) crc = with_byte(crc, 0);
  return crc;
}

/// The byte that a code stands for: codes come with their first bit lowest, and mean 0 to 7, then -7 to -1.
constexpr std::uint32_t difference_of(std::uint32_t nibble) {
  std::uint32_t code = 0;
  for (int bit = 0; bit < nibble_bits; ++bit) code = (code << 1U) | ((nibble >> static_cast<unsigned>(bit)) & 1U);
  constexpr std::uint32_t first_negative_code = 8;
  constexpr std::uint32_t first_negative_byte = 0xF9;
  return code < first_negative_code ? code : code - first_negative_code + first_negative_byte;
}

constexpr std::array<std::uint8_t, 1 << nibble_bits> make_differences() {
  std::array<std::uint8_t, 1 << nibble_bits> table{};
  for (std::uint32_t nibble = 0; nibble < table.size(); ++nibble)
    table[nibble] = static_cast<std::uint8_t>(difference_of(nibble));
  return table;
}

constexpr auto differences = make_differences();

std::uint32_t with_codes(std::uint32_t crc, Bytes packed) {
  for (const auto each : packed) {
    const auto byte = std::to_integer<std::uint32_t>(each);
    crc = with_byte(crc, differences[byte & nibble_mask]);
    crc = with_byte(crc, differences[byte >> static_cast<unsigned>(nibble_bits)]);
  }
  return crc;
}

/// As `with_zeros` of one count, in four looks: what becomes of each byte of a checksum, since these add up.
class Jump {
 public:
  explicit Jump(std::uint64_t zeros) {
    for (std::size_t place = 0; place < tables_.size(); ++place)
      for (std::uint32_t value = 0; value < byte_values; ++value)
        tables_[place][value] = with_zeros(value << static_cast<unsigned>(byte_bits * place), zeros);
  }

  std::uint32_t operator()(std::uint32_t crc) const {
    std::uint32_t found = 0;
    for (std::size_t place = 0; place < tables_.size(); ++place)
      found ^= tables_[place][(crc >> static_cast<unsigned>(byte_bits * place)) & byte_mask];
    return found;
  }

 private:
  std::array<CrcTable, sizeof(std::uint32_t)> tables_{};
};

}  // namespace

void make_codes(MutableBytes packed) {
  constexpr std::uint32_t high_nibble = nibble_mask << static_cast<unsigned>(nibble_bits);
  for (auto& each : packed) {
    auto byte = std::to_integer<std::uint32_t>(each);
    if ((byte & nibble_mask) == nibble_mask) byte &= ~1U;
    if ((byte & high_nibble) == high_nibble) byte &= ~(1U << static_cast<unsigned>(nibble_bits));
    each = static_cast<std::byte>(byte);
  }
}

std::uint32_t crc_of_codes(Bytes packed, std::uint64_t bytes_after) {
  return with_zeros(with_codes(0, packed), bytes_after);
}

std::uint32_t crc_of_stamps(Bytes packed, std::uint64_t bytes_after) {
  static const Jump to_next_stamp(2 * (sector_bytes - stamp_bytes));
  std::uint32_t crc = 0;
  std::size_t at = 0;
  for (; at + sector_bytes <= packed.size(); at += sector_bytes)
    crc = to_next_stamp(with_codes(crc, packed.subspan(at, stamp_bytes)));
  const auto rest = packed.subspan(at);
  const auto stamped = rest.size() >= stamp_bytes ? stamp_bytes : 0;
  return with_zeros(with_codes(crc, rest.first(stamped)), 2 * (rest.size() - stamped) + bytes_after);
}

}  // namespace penstock::load
