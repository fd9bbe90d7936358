#include "load/workloads/content.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/random.hpp"

namespace penstock::load {
namespace {

// What the random numbers are for: equal names would be equal numbers.
constexpr std::uint64_t of_the_pattern = 1;
constexpr std::uint64_t of_the_stamps = 2;

constexpr std::size_t huge_page_bytes = 2 << 20;
/// A stamp between zeros: its bytes, and what a compressor needs to say that there are zeros before and behind.
constexpr std::size_t stamp_costs_bytes = sizeof(std::uint64_t) + 4;

}  // namespace

Result<Memory> Memory::allocate(std::size_t bytes) {
  const auto size = align_up(std::max<std::size_t>(bytes, 1), page_bytes);
  // A ground is walked through again and again: in huge pages that costs half as much. A wish, which may be refused.
  const bool huge = size >= huge_page_bytes;
  auto* data = static_cast<std::byte*>(
      std::aligned_alloc(huge ? huge_page_bytes : page_bytes, huge ? align_up(size, huge_page_bytes) : size));
  if (data == nullptr) return make_error(Errc::out_of_memory, "cannot allocate {} bytes of memory for a block", size);
  if (huge) (void)::madvise(data, align_up(size, huge_page_bytes), MADV_HUGEPAGE);
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

std::uint64_t ground_bytes(ContentKind kind, std::uint64_t block_bytes, std::uint64_t blocks) {
  if (kind == ContentKind::zeros || block_bytes == 0) return block_bytes;
  const auto enough = (ground_bytes_least + block_bytes - 1) / block_bytes;
  return std::clamp<std::uint64_t>(blocks, 1, enough) * block_bytes;
}

std::size_t random_bytes_of_page(double ratio) {
  const auto share = static_cast<double>(page_bytes) / ratio;
  std::size_t random = page_bytes;
  for (; random > 0; --random) {
    const auto stamps = (page_bytes - random) / sector_bytes;
    if (static_cast<double>(random + stamps * stamp_costs_bytes) <= share) break;
  }
  return random;
}

Content::Content(const LoadPlan& plan, std::uint64_t block_bytes, std::uint64_t blocks)
    : Content(plan.content, plan.seed, block_bytes, blocks) {
  ratio_ = plan.content_ratio;
  path_ = plan.content_file;
}

Result<void> Content::open() {
  if (kind_ != ContentKind::file) return {};
  std::error_code error;
  // A pipe or a device would be waited for, or have no end.
  if (!std::filesystem::is_regular_file(path_, error))
    return make_error(Errc::invalid_argument, "content_file {} is not a file{}", path_,
                      error ? ": " + error.message() : "");
  std::ifstream stream(path_, std::ios::binary);
  if (!stream) return errno_error(errno, fmt::format("open content_file {}", path_));
  sample_.resize(ground_);
  stream.read(reinterpret_cast<char*>(sample_.data()), static_cast<std::streamsize>(sample_.size()));
  if (stream.bad()) return make_error(Errc::io, "content_file {} cannot be read", path_);
  sample_.resize(static_cast<std::size_t>(stream.gcount()));
  if (sample_.empty()) return make_error(Errc::invalid_argument, "content_file {} is empty", path_);
  return {};
}

void Content::lay(MutableBytes block) const {
  switch (kind_) {
    case ContentKind::zeros: std::fill(block.begin(), block.end(), std::byte{0}); return;
    case ContentKind::random: return lay_random(block, page_bytes);
    case ContentKind::compressible: return lay_random(block, random_bytes_of_page(ratio_));
    case ContentKind::file: return lay_file(block);
  }
}

void Content::lay_random(MutableBytes ground, std::size_t of_each_page) const {
  RandomStream random(key_of({seed_, of_the_pattern}));
  const auto fill = [&random](MutableBytes bytes) {
    std::size_t at = 0;
    for (; at + sizeof(std::uint64_t) <= bytes.size(); at += sizeof(std::uint64_t))
      store_le(bytes.data() + at, random.next());
    for (; at < bytes.size(); ++at) bytes[at] = static_cast<std::byte>(random.next());
  };
  for (std::size_t page = 0; page < ground.size(); page += page_bytes) {
    const auto bytes = ground.subspan(page, std::min(page_bytes, ground.size() - page));
    const auto filled = std::min(of_each_page, bytes.size());
    fill(bytes.first(filled));
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(filled), bytes.end(), std::byte{0});
  }
}

void Content::lay_file(MutableBytes ground) const {
  for (std::size_t at = 0; at < ground.size();) {
    const auto size = std::min(sample_.size(), ground.size() - at);
    std::memcpy(ground.data() + at, sample_.data(), size);
    at += size;
  }
}

std::uint64_t Content::place(std::uint64_t file, std::uint64_t offset) const {
  if (block_bytes_ == 0) return 0;
  // Files that have one block each do not begin with the same one.
  return (offset / block_bytes_ + file) % (ground_ / block_bytes_) * block_bytes_;
}

std::uint64_t Content::stamps_of(std::uint64_t file) const { return key_of({seed_, of_the_stamps, file}); }

void Content::stamp(MutableBytes block, std::uint64_t file, std::uint64_t offset) const {
  if (kind_ == ContentKind::zeros) return;
  const auto key = stamps_of(file);
  const auto first = offset / sector_bytes;
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= block.size(); at += sector_bytes)
    store_le(block.data() + at, random_at(key, first + at / sector_bytes));
}

MutableBytes Content::block(MutableBytes ground, std::uint64_t file, std::uint64_t offset) const {
  const auto block = ground.subspan(place(file, offset), block_bytes_);
  stamp(block, file, offset);
  return block;
}

bool Content::is_block(Bytes bytes, Bytes ground, std::uint64_t file, std::uint64_t offset) const {
  const auto expected = ground.subspan(place(file, offset), block_bytes_);
  if (bytes.size() != expected.size()) return false;
  if (kind_ == ContentKind::zeros) return std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0;
  const auto key = stamps_of(file);
  const auto first = offset / sector_bytes;
  // Nearly always it is: nothing is asked before the end, and both are walked through once, as fast as memory is.
  std::uint64_t wrong_stamps = 0;
  bool wrong_bytes = false;
  for (std::size_t at = 0; at < bytes.size(); at += sector_bytes) {
    const auto size = std::min(sector_bytes, bytes.size() - at);
    const bool stamped = size >= sizeof(std::uint64_t);
    const std::size_t skip = stamped ? sizeof(std::uint64_t) : 0;
    if (stamped) wrong_stamps |= load_le<std::uint64_t>(bytes.data() + at) ^ random_at(key, first + at / sector_bytes);
    wrong_bytes |= std::memcmp(bytes.data() + at + skip, expected.data() + at + skip, size - skip) != 0;
  }
  return wrong_stamps == 0 && !wrong_bytes;
}

std::optional<std::size_t> first_difference(Bytes one, Bytes other) {
  // Nearly always they are equal, and this is as fast as memory.
  if (one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size()) == 0) return std::nullopt;
  const auto places = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
  return static_cast<std::size_t>(places.first - one.begin());
}

}  // namespace penstock::load
