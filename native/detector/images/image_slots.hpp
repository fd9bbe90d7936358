/// Images in memory, in as many places as frames are on their way at once.
///
/// An image is prepared once and sent many times. What differs from one sending to the next, the
/// number stamped into the pixels and the message's head right before them, may only be written while
/// no earlier frame in that place is still on its way. So there are more slots than images where that
/// takes long; large ones are copy-on-write views, and cost the few pages that are written.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "detector/images/npy_images.hpp"

namespace penstock::detector {

/// Pages of memory, given back with the object.
class Pages {
 public:
  /// Zero, in huge pages where the system has them.
  static Result<std::unique_ptr<Pages>> allocate(std::size_t bytes);
  /// A private view of `bytes` of a file from `offset`, and `before_bytes` of memory in front of it.
  /// Writes stay within the view. The file must not get shorter.
  static Result<std::unique_ptr<Pages>> view(int descriptor, std::uint64_t offset, std::size_t bytes,
                                             std::size_t before_bytes);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  MutableBytes bytes() { return bytes_; }
  /// Memory in front of bytes().
  MutableBytes before() { return before_; }

 private:
  Pages(void* address, std::size_t mapped_bytes) : address_(address), mapped_bytes_(mapped_bytes) {}

  void* address_;
  std::size_t mapped_bytes_;
  MutableBytes bytes_, before_;
};

/// Slot k holds image k mod the number of images, and there are a multiple of those. One thread takes
/// slots; any thread gives them back.
class ImageSlots : public std::enable_shared_from_this<ImageSlots> {
 public:
  struct Needs {
    std::uint64_t slots = 1;         ///< at least, as far as memory allows
    std::size_t headroom_bytes = 0;  ///< before each slot's pixels
  };
  struct Slot {
    MutableBytes pixels;
    MutableBytes headroom;  ///< right before them
  };
  using Image = std::function<MutableBytes(std::uint64_t index)>;
  /// Writes every image; may use several threads.
  using Fill = std::function<Result<void>(const Image& image)>;

  static Result<std::shared_ptr<ImageSlots>> make(const std::vector<std::size_t>& sizes, const Needs& needs,
                                                  const Fill& fill);
  /// Views of the images in a file, which need no memory of their own; null where there are too many.
  static std::shared_ptr<ImageSlots> views_of(const NpyImages& images, const Needs& needs);

  std::uint64_t count() const { return slots_.size(); }
  const Slot& slot(std::uint64_t index) const { return slots_[index]; }
  /// What gives the slot back when its last copy goes; null while an earlier one is held.
  std::shared_ptr<const void> take(std::uint64_t index);

 private:
  using Offsets = std::vector<std::uint64_t>;

  Result<void> add_copies(const std::vector<std::size_t>& sizes, const Needs& needs, const Fill& fill);
  /// Leaves no slot where the system has no memory files or no room for this many views.
  Result<void> add_memory_file(const std::vector<std::size_t>& sizes, const Needs& needs, const Fill& fill);
  void add_views(int descriptor, const Offsets& offsets, const std::vector<std::size_t>& sizes, const Needs& needs);

  std::vector<std::unique_ptr<Pages>> pages_;
  std::vector<Slot> slots_;
  std::vector<std::atomic<bool>> held_;
};

}  // namespace penstock::detector
