#include "store/recovery/own_superblock.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace penstock::store {
namespace {

/// HDF5's checksum of metadata, Bob Jenkins's lookup3.
std::uint32_t lookup3(Bytes bytes) {
  auto a = 0xdeadbeef + static_cast<std::uint32_t>(bytes.size());
  auto b = a;
  auto c = a;
  while (!bytes.empty()) {
    std::array<std::byte, 12> block{};
    const auto size = std::min(bytes.size(), block.size());
    std::copy_n(bytes.begin(), size, block.begin());
    a += load_le<std::uint32_t>(block.data());
    b += load_le<std::uint32_t>(block.data() + 4);
    c += load_le<std::uint32_t>(block.data() + 8);
    const bool last = bytes.size() <= block.size();
    bytes = bytes.subspan(size);
    const auto rotate = [](std::uint32_t value, int by) { return std::rotl(value, by); };
    if (!last) {
      a = (a - c) ^ rotate(c, 4), c += b;
      b = (b - a) ^ rotate(a, 6), a += c;
      c = (c - b) ^ rotate(b, 8), b += a;
      a = (a - c) ^ rotate(c, 16), c += b;
      b = (b - a) ^ rotate(a, 19), a += c;
      c = (c - b) ^ rotate(b, 4), b += a;
    } else {
      c = (c ^ b) - rotate(b, 14);
      a = (a ^ c) - rotate(c, 11);
      b = (b ^ a) - rotate(a, 25);
      c = (c ^ b) - rotate(b, 16);
      a = (a ^ c) - rotate(c, 4);
      b = (b ^ a) - rotate(a, 14);
      c = (c ^ b) - rotate(b, 24);
    }
  }
  return c;
}

}  // namespace

std::optional<OwnSuperblock> decode_own_superblock(Bytes block) {
  constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
  if (block.size() < own_superblock_bytes || as_text(block.first(signature.size())) != signature) return std::nullopt;
  const auto crc = load_le<std::uint32_t>(block.data() + own_superblock_bytes - 4);
  if (lookup3(block.first(own_superblock_bytes - 4)) != crc) return std::nullopt;
  return OwnSuperblock{(std::to_integer<unsigned>(block[11]) & 1U) != 0, load_le<std::uint64_t>(block.data() + 28)};
}

Result<std::optional<OwnSuperblock>> read_own_superblock(File& file) {
  std::array<std::byte, own_superblock_bytes> block;
  PEN_ASSIGN(const auto count, file.read_at(block, 0));
  return decode_own_superblock(Bytes(block).first(count));
}

Result<bool> may_be_in_use(File& file) {
  if (file.locks()) return false;
  PEN_ASSIGN(const auto superblock, read_own_superblock(file));
  return superblock && superblock->open_for_writing;
}

}  // namespace penstock::store
