/// What the page cache holds of a file.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/bytes.hpp"

namespace penstock::testing {

/// For each page of the file, whether it is in the page cache.
inline std::vector<bool> cached_pages(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  EXPECT_EQ(::fstat(fd, &info), 0);
  const auto bytes = static_cast<std::size_t>(info.st_size);
  std::vector<unsigned char> pages((bytes + page_bytes - 1) / page_bytes);
  void* seen = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  EXPECT_EQ(::mincore(seen, bytes, pages.data()), 0);
  ::munmap(seen, bytes);
  ::close(fd);
  std::vector<bool> cached;
  for (const auto page : pages) cached.push_back((page & 1) != 0);
  return cached;
}

/// Whether what lies in the folder is in memory and nowhere else.
inline bool is_in_memory(const std::string& folder) {
  struct statfs info {};
  return ::statfs(folder.c_str(), &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

}  // namespace penstock::testing
