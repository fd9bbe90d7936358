/// Byte views, byte order and alignment.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace penstock {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

inline Bytes as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

inline bool is_zero(Bytes bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

template <typename T>
constexpr T byteswap(T value) {
  static_assert(std::is_unsigned_v<T>);
  if constexpr (sizeof(T) == 1) return value;
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
}

static_assert(std::endian::native == std::endian::little, "Penstock runs on little-endian machines only");

template <typename T>
T load_le(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
T load_be(const std::byte* from) {
  return byteswap(load_le<T>(from));
}

template <typename T>
void store_le(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

template <typename T>
void store_be(std::byte* to, T value) {
  store_le(to, byteswap(value));
}

/// Rounds up to a multiple of `alignment`, a power of two. The caller bounds `value`: no overflow check.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

constexpr std::uint64_t page_bytes = 4096;

}  // namespace penstock
