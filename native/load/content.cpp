#include "load/content.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/random.hpp"

namespace penstock::load {
namespace {

// What the random numbers are for: equal names would be equal numbers.
constexpr std::uint64_t of_the_pattern = 1;
constexpr std::uint64_t of_the_stamps = 2;

}  // namespace

Result<Memory> Memory::allocate(std::size_t bytes) {
  const auto size = align_up(std::max<std::size_t>(bytes, 1), page_bytes);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(page_bytes, size));
  if (data == nullptr) return make_error(Errc::out_of_memory, "{} bytes of memory for a block are not to be had", size);
  return Memory(data, size);
}

Result<void> check_memory(std::uint64_t bytes) {
  const auto pages = ::sysconf(_SC_PHYS_PAGES);
  const auto memory = pages > 0 ? static_cast<std::uint64_t>(pages * ::sysconf(_SC_PAGESIZE)) : bytes * 2;
  if (bytes <= memory / 2) return {};
  return make_error(Errc::out_of_memory,
                    "the threads' blocks take {} bytes together, more than half of this machine's {}; fewer threads or "
                    "smaller blocks need less",
                    bytes, memory);
}

void Content::lay(MutableBytes block) const {
  if (kind_ == ContentKind::zeros) {
    std::fill(block.begin(), block.end(), std::byte{0});
    return;
  }
  RandomStream random(key_of({seed_, of_the_pattern}));
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= block.size(); at += sizeof(std::uint64_t))
    store_le(block.data() + at, random.next());
  for (; at < block.size(); ++at) block[at] = static_cast<std::byte>(random.next());
}

void Content::stamp(MutableBytes block, std::uint64_t file, std::uint64_t offset) const {
  if (kind_ == ContentKind::zeros) return;
  const auto key = key_of({seed_, of_the_stamps, file});
  const auto first = offset / sector_bytes;
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= block.size(); at += sector_bytes)
    store_le(block.data() + at, random_at(key, first + at / sector_bytes));
}

std::optional<std::size_t> first_difference(Bytes one, Bytes other) {
  // Nearly always they are equal, and this is as fast as memory.
  if (one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size()) == 0) return std::nullopt;
  const auto places = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
  return static_cast<std::size_t>(places.first - one.begin());
}

}  // namespace penstock::load
