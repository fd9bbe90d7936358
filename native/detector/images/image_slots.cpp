#include "detector/images/image_slots.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace penstock::detector {
namespace {

/// Smaller images are copied: a view would cost as many pages as the image has.
constexpr std::size_t view_bytes_min = 64 << 10;
/// A process may have some 65,000 mappings, and a view is two of them.
constexpr std::uint64_t views_max = 8192;
/// Of slots that are copies. Where a sender holds on to more, each further frame costs a copy.
constexpr std::uint64_t copies_bytes_max = std::uint64_t{288} << 20;

/// From one image to the next: no two share a cache line, large ones begin on a page.
std::size_t alignment_of(std::size_t bytes) { return bytes >= 16 * page_bytes ? page_bytes : 64; }

/// Where each of `count` slots has its pixels, behind its headroom, and at last where they all end.
std::vector<std::uint64_t> layout(const std::vector<std::size_t>& sizes, std::uint64_t count,
                                  std::size_t headroom_bytes) {
  std::vector<std::uint64_t> offsets;
  std::uint64_t end = 0;
  for (std::uint64_t slot = 0; slot < count; ++slot) {
    const auto size = sizes[slot % sizes.size()];
    offsets.push_back(align_up(end + headroom_bytes, alignment_of(size)));
    end = offsets.back() + size;
  }
  offsets.push_back(end);
  return offsets;
}

std::uint64_t round_up(std::uint64_t slots, std::uint64_t images) { return (slots + images - 1) / images * images; }

/// The one descriptor of a memory file, which views do not need any more.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("penstock images", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {}
  ~MemoryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const { return descriptor_; }
  bool resize(std::uint64_t bytes) {
    return descriptor_ >= 0 && ::ftruncate(descriptor_, static_cast<off_t>(bytes)) == 0;
  }
  /// From here on the images cannot change under the views.
  void seal() { (void)::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW); }

 private:
  int descriptor_;
};

/// A mapping through which a memory file is filled.
class Filling {
 public:
  Filling(int descriptor, std::size_t bytes)
      : address_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)), bytes_(bytes) {}
  ~Filling() {
    if (ok()) ::munmap(address_, bytes_);
  }
  Filling(const Filling&) = delete;
  Filling& operator=(const Filling&) = delete;

  bool ok() const { return address_ != MAP_FAILED; }
  MutableBytes range(std::uint64_t offset, std::size_t size) const {
    return {static_cast<std::byte*>(address_) + offset, size};
  }

 private:
  void* address_;
  std::size_t bytes_;
};

}  // namespace

Result<std::unique_ptr<Pages>> Pages::allocate(std::size_t bytes) {
  void* const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return errno_error(errno, fmt::format("{} bytes of memory for images", bytes));
  ::madvise(address, bytes, MADV_HUGEPAGE);  // fewer page faults where the system has huge pages
  std::unique_ptr<Pages> pages(new Pages(address, bytes));
  pages->bytes_ = {static_cast<std::byte*>(address), bytes};
  return pages;
}

Result<std::unique_ptr<Pages>> Pages::view(int descriptor, std::uint64_t offset, std::size_t bytes,
                                           std::size_t before_bytes) {
  const auto file_offset = offset / page_bytes * page_bytes;
  const auto front = static_cast<std::size_t>(align_up(before_bytes, page_bytes));
  const auto within = front + static_cast<std::size_t>(offset - file_offset);
  const auto total = within + bytes;
  constexpr int access = PROT_READ | PROT_WRITE;
  void* const address = ::mmap(nullptr, total, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return errno_error(errno, fmt::format("{} bytes for a view of an image", total));
  std::unique_ptr<Pages> pages(new Pages(address, total));
  auto* const first = static_cast<std::byte*>(address);
  if (::mmap(first + front, total - front, access, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, descriptor,
             static_cast<off_t>(file_offset)) == MAP_FAILED)
    return errno_error(errno, fmt::format("view of {} bytes of an image", bytes));
  pages->before_ = {first, within};
  pages->bytes_ = {first + within, bytes};
  return pages;
}

Pages::~Pages() { ::munmap(address_, mapped_bytes_); }

Result<std::shared_ptr<ImageSlots>> ImageSlots::make(const std::vector<std::size_t>& sizes, const Needs& needs,
                                                     const Fill& fill) {
  std::shared_ptr<ImageSlots> slots(new ImageSlots);
  if (needs.slots > sizes.size() && std::ranges::min(sizes) >= view_bytes_min)
    PEN_TRY(slots->add_memory_file(sizes, needs, fill));
  if (slots->slots_.empty()) PEN_TRY(slots->add_copies(sizes, needs, fill));
  slots->held_ = std::vector<std::atomic<bool>>(slots->slots_.size());
  return slots;
}

std::shared_ptr<ImageSlots> ImageSlots::views_of(const NpyImages& images, const Needs& needs) {
  std::shared_ptr<ImageSlots> slots(new ImageSlots);
  const std::vector<std::size_t> sizes(images.count(), images.image(0).size());
  Offsets offsets;
  for (std::uint64_t index = 0; index < images.count(); ++index) offsets.push_back(images.file_offset(index));
  slots->add_views(images.descriptor(), offsets, sizes, needs);
  if (slots->slots_.empty()) return nullptr;
  slots->held_ = std::vector<std::atomic<bool>>(slots->slots_.size());
  return slots;
}

Result<void> ImageSlots::add_copies(const std::vector<std::size_t>& sizes, const Needs& needs, const Fill& fill) {
  const auto images = sizes.size();
  const auto affordable = copies_bytes_max / std::ranges::max(sizes);
  const auto count = round_up(std::max<std::uint64_t>(1, std::min<std::uint64_t>(needs.slots, affordable)), images);
  const auto offsets = layout(sizes, count, needs.headroom_bytes);
  PEN_ASSIGN(auto pages, Pages::allocate(offsets.back()));
  for (std::uint64_t slot = 0; slot < count; ++slot)
    slots_.push_back({pages->bytes().subspan(offsets[slot], sizes[slot % images]),
                      pages->bytes().subspan(offsets[slot] - needs.headroom_bytes, needs.headroom_bytes)});
  pages_.push_back(std::move(pages));
  PEN_TRY(fill([this](std::uint64_t index) { return slots_[index].pixels; }));
  for (auto slot = images; slot < count; ++slot)
    std::ranges::copy(slots_[slot % images].pixels, slots_[slot].pixels.begin());
  return {};
}

Result<void> ImageSlots::add_memory_file(const std::vector<std::size_t>& sizes, const Needs& needs, const Fill& fill) {
  const auto offsets = layout(sizes, sizes.size(), 0);
  MemoryFile file;
  if (!file.resize(offsets.back())) return {};
  {
    const Filling filling(file.descriptor(), offsets.back());
    if (!filling.ok()) return {};
    PEN_TRY(fill([&](std::uint64_t index) { return filling.range(offsets[index], sizes[index]); }));
  }
  file.seal();
  add_views(file.descriptor(), offsets, sizes, needs);
  return {};
}

void ImageSlots::add_views(int descriptor, const Offsets& offsets, const std::vector<std::size_t>& sizes,
                           const Needs& needs) {
  const auto images = sizes.size();
  const auto wanted = std::min(round_up(needs.slots, images), views_max);
  for (std::uint64_t slot = 0; slot < wanted; ++slot) {
    auto pages = Pages::view(descriptor, offsets[slot % images], sizes[slot % images], needs.headroom_bytes);
    if (!pages) break;
    slots_.push_back({(*pages)->bytes(), (*pages)->before()});
    pages_.push_back(std::move(pages).value());
  }
  slots_.resize(slots_.size() / images * images);
}

std::shared_ptr<const void> ImageSlots::take(std::uint64_t index) {
  auto& held = held_[index];
  if (held.load(std::memory_order_acquire)) return nullptr;
  held.store(true, std::memory_order_relaxed);
  return {slots_[index].pixels.data(),
          [keep = shared_from_this(), &held](const void*) { held.store(false, std::memory_order_release); }};
}

}  // namespace penstock::detector
