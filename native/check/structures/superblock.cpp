#include "check/structures/superblock.hpp"

#include <array>

namespace penstock::check {
namespace {

constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
constexpr std::uint64_t furthest_address = std::uint64_t{1} << 30;

/// An address of `size` bytes; all ones where it is undefined.
std::uint64_t address_at(Bytes bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size && at + i < bytes.size(); ++i)
    value |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
  return value;
}

Superblock parse(Bytes bytes, std::uint64_t address) {
  Superblock block;
  block.address = address;
  if (bytes.size() < 64) return block;
  block.version = std::to_integer<unsigned>(bytes[8]);
  if (block.version <= 1) {
    const auto size = std::to_integer<std::size_t>(bytes[13]);
    const std::size_t base = block.version == 0 ? 24 : 28;
    if (size > 8) return block;
    block.end_of_file = address_at(bytes, base + 2 * size, size);
    return block;
  }
  const auto size = std::to_integer<std::size_t>(bytes[9]);
  const auto flags = std::to_integer<unsigned>(bytes[11]);
  if (size > 8) return block;
  block.open_for_writing = block.version >= 3 && (flags & 1U) != 0;
  block.swmr = block.version >= 3 && (flags & 4U) != 0;
  block.end_of_file = address_at(bytes, 12 + 2 * size, size);
  return block;
}

}  // namespace

Result<std::optional<Superblock>> read_superblock(File& file) {
  PEN_ASSIGN(const auto size, file.size());
  for (std::uint64_t address = 0; address < size && address <= furthest_address;
       address = address == 0 ? 512 : address * 2) {
    std::array<std::byte, 96> bytes;
    PEN_ASSIGN(const auto count, file.read_at(bytes, address));
    if (count < signature.size()) break;
    if (as_text(Bytes(bytes).first(signature.size())) == signature)
      return std::optional(parse(Bytes(bytes).first(count), address));
    if (address == 0 && as_text(Bytes(bytes).first(count)).starts_with(unfinished_rebuild))
      return std::optional(Superblock{.open_for_writing = true, .rebuilding = true});
  }
  return std::optional<Superblock>();
}

}  // namespace penstock::check
