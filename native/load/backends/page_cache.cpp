#include "load/backends/page_cache.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/bytes.hpp"

namespace penstock::load {
namespace {

constexpr std::uint64_t window_bytes = std::uint64_t{1} << 30;

/// Of one stretch; it is mapped, and none of it read.
std::optional<std::uint64_t> cached_in(int fd, std::uint64_t offset, std::uint64_t bytes) {
  void* window = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (window == MAP_FAILED) return std::nullopt;
  std::vector<unsigned char> pages(align_up(bytes, page_bytes) / page_bytes);
  const bool told = ::mincore(window, bytes, pages.data()) == 0;
  ::munmap(window, bytes);
  if (!told) return std::nullopt;
  const auto cached = std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
  return page_bytes * static_cast<std::uint64_t>(cached);
}

std::optional<std::uint64_t> cached_of(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return std::nullopt;
  const auto size = static_cast<std::uint64_t>(info.st_size);
  (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  std::uint64_t cached = 0;
  for (std::uint64_t offset = 0; offset < size; offset += window_bytes) {
    const auto here = cached_in(fd, offset, std::min(window_bytes, size - offset));
    if (!here) return std::nullopt;
    cached += *here;
  }
  return cached;
}

}  // namespace

std::optional<std::uint64_t> cached_bytes_after_forgetting(OwnFolder& folder, const std::string& name) {
  const auto in = folder.descriptor();
  if (!in.ok()) return std::nullopt;
  const int fd = ::openat(*in, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return std::nullopt;
  const auto cached = cached_of(fd);
  ::close(fd);
  return cached;
}

}  // namespace penstock::load
