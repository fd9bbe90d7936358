#include "detector/images/npy_images.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "frame/npy.hpp"

namespace penstock::detector {
namespace {

constexpr std::uint64_t array_bytes_max = std::uint64_t{1} << 46;

}  // namespace

Result<std::shared_ptr<const NpyImages>> NpyImages::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return errno_error(errno, fmt::format("open {}", path));
  struct stat status {};
  const int failed = ::fstat(descriptor, &status) != 0 ? errno : 0;
  const auto size = static_cast<std::size_t>(std::max<off_t>(status.st_size, 0));
  void* address = MAP_FAILED;
  if (failed == 0 && size > 0) address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  const int map_failed = address == MAP_FAILED ? errno : 0;
  if (address == MAP_FAILED) ::close(descriptor);
  if (failed != 0) return errno_error(failed, fmt::format("stat {}", path));
  if (size == 0) return make_error(Errc::truncated, "{} is empty", path);
  if (map_failed != 0) return errno_error(map_failed, fmt::format("map {}", path));

  std::shared_ptr<NpyImages> images(new NpyImages(descriptor, Bytes(static_cast<const std::byte*>(address), size)));
  PEN_ASSIGN(const auto header, parse_npy_header(images->mapping_), "{}", path);
  if (header.array.shape.size() != 3)
    return make_error(Errc::mismatch, "{}: the array has {} dimensions, expected (frames, rows, columns)", path,
                      header.array.shape.size());
  PEN_ASSIGN(const auto bytes, header.array.bytes(array_bytes_max), "{}", path);
  if (bytes != size - header.data_offset)
    return make_error(Errc::truncated, "{}: the header announces {} bytes of pixels, the file has {}", path, bytes,
                      size - header.data_offset);
  images->count_ = header.array.shape[0];
  images->frame_ = {header.array.type, {header.array.shape[1], header.array.shape[2]}};
  images->frame_bytes_ = bytes / images->count_;
  images->offset_ = header.data_offset;
  return std::shared_ptr<const NpyImages>(std::move(images));
}

NpyImages::~NpyImages() {
  ::munmap(const_cast<std::byte*>(mapping_.data()), mapping_.size());
  ::close(descriptor_);
}

}  // namespace penstock::detector
