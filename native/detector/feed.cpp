#include "detector/feed.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "codec/codec.hpp"

namespace penstock::detector {
namespace {

/// Page-aligned memory straight from the system; zero where it was never written.
class Memory {
 public:
  static Result<std::shared_ptr<Memory>> allocate(std::size_t bytes) {
    void* const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) return errno_error(errno, fmt::format("{} bytes of memory for images", bytes));
    ::madvise(address, bytes, MADV_HUGEPAGE);  // fewer page faults where the system has huge pages
    return std::shared_ptr<Memory>(new Memory(address, bytes));
  }
  ~Memory() { ::munmap(address_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  MutableBytes range(std::size_t offset, std::size_t size) {
    return {static_cast<std::byte*>(address_) + offset, size};
  }

 private:
  Memory(void* address, std::size_t bytes) : address_(address), bytes_(bytes) {}
  void* address_;
  std::size_t bytes_;
};

/// Runs task(index) for each index below `total` in several threads; the first error ends it.
template <typename Task>
Result<void> for_all(std::uint64_t total, const FeedOptions& options, Task task) {
  std::atomic<std::uint64_t> next{0};
  std::mutex mutex;
  std::uint64_t done = 0;        // guarded by mutex
  std::optional<Error> problem;  // guarded by mutex
  const auto work = [&] {
    for (;;) {
      const auto index = next.fetch_add(1);
      if (index >= total) return;
      auto result = options.stop != nullptr && options.stop->load()
                        ? Result<void>(make_error(Errc::cancelled, "stopped while images were prepared"))
                        : task(index);
      std::lock_guard lock(mutex);
      if (!result) {
        if (!problem) problem = std::move(result).error();
        next = total;
        return;
      }
      ++done;
      if (options.progress) options.progress(done, total);
    }
  };
  std::vector<std::jthread> threads;
  for (std::uint64_t n = 1; n < std::min<std::uint64_t>(options.threads, total); ++n) threads.emplace_back(work);
  work();
  threads.clear();
  if (problem) return *problem;
  return {};
}

/// From one image to the next in memory: no two share a cache line, large ones begin on a page.
std::size_t stride_of(std::size_t frame_bytes) {
  return align_up(frame_bytes, frame_bytes >= 16 * page_bytes ? page_bytes : 64);
}

Result<void> check_memory(std::uint64_t bytes, std::uint64_t images, const FeedOptions& options) {
  if (bytes > options.memory_bytes_max)
    return make_error(Errc::too_large, "{} images need {} bytes of memory, at most {} are taken; ask for fewer", images,
                      bytes, options.memory_bytes_max);
  return {};
}

/// Images that never change, raw or encoded.
class FixedFeed : public Feed {
 public:
  FixedFeed(ArraySpec spec, Encoding encoding, std::vector<Bytes> images, std::shared_ptr<const void> owner)
      : spec_(std::move(spec)), encoding_(encoding), images_(std::move(images)), owner_(std::move(owner)) {}

  Frame frame(std::uint64_t number) override {
    Frame frame;
    frame.number = FrameNumber{number};
    frame.spec = spec_;
    frame.encoding = encoding_;
    frame.payload = images_[number % images_.size()];
    frame.owner = owner_;
    return frame;
  }
  const ArraySpec& spec() const override { return spec_; }
  double ratio() const override {
    double raw = static_cast<double>(size_of(spec_.type)), stored = 0;
    for (const auto extent : spec_.shape) raw *= static_cast<double>(extent);
    for (const auto image : images_) stored += static_cast<double>(image.size());
    return raw * static_cast<double>(images_.size()) / stored;
  }

 private:
  const ArraySpec spec_;
  const Encoding encoding_;
  const std::vector<Bytes> images_;
  const std::shared_ptr<const void> owner_;
};

/// Raw images in slots; the frame number is written into a slot when its turn comes. Slot k holds
/// image k mod images. A slot whose last frame is still held by the sender is left alone, and a copy
/// sent in its stead.
class StampedFeed : public Feed {
 public:
  StampedFeed(ArraySpec spec, std::shared_ptr<Memory> memory, std::size_t slots, std::size_t frame_bytes)
      : spec_(std::move(spec)), slots_(std::make_shared<Slots>(slots)), frame_bytes_(frame_bytes) {
    slots_->memory = std::move(memory);
  }

  Frame frame(std::uint64_t number) override {
    Frame frame;
    frame.number = FrameNumber{number};
    frame.spec = spec_;
    const auto slot = static_cast<std::size_t>(number % slots_->busy.size());
    const auto pixels = slots_->memory->range(slot * stride_of(frame_bytes_), frame_bytes_);
    auto& busy = slots_->busy[slot];
    if (!busy.load(std::memory_order_acquire)) {
      busy.store(true, std::memory_order_relaxed);
      stamp_frame(number, pixels);
      frame.payload = pixels;
      // The slot is free again when the last copy of this owner goes.
      frame.owner = std::shared_ptr<const void>(pixels.data(), [keep = slots_, slot](const void*) {
        keep->busy[slot].store(false, std::memory_order_release);
      });
    } else {
      auto copy = std::make_shared<std::vector<std::byte>>(pixels.begin(), pixels.end());
      stamp_frame(number, *copy);
      frame.payload = *copy;
      frame.owner = std::move(copy);
    }
    return frame;
  }
  const ArraySpec& spec() const override { return spec_; }
  double ratio() const override { return 1.0; }

 private:
  struct Slots {
    explicit Slots(std::size_t count) : busy(count) {}
    std::shared_ptr<Memory> memory;
    std::vector<std::atomic<bool>> busy;
  };

  const ArraySpec spec_;
  const std::shared_ptr<Slots> slots_;
  const std::size_t frame_bytes_;
};

/// Encodes `count` images, each in a buffer of its own size.
template <typename Image>
Result<std::unique_ptr<Feed>> encoded_feed(const ArraySpec& spec, std::size_t frame_bytes, std::uint64_t count,
                                           const FeedOptions& options, Image image) {
  auto stored = std::make_shared<std::vector<std::vector<std::byte>>>(count);
  const CodecSpec codec{options.encoding, 0, 0};
  PEN_TRY(for_all(count, options, [&](std::uint64_t index) -> Result<void> {
    CodecScratch scratch;
    std::vector<std::byte> encoded(encoded_bound(codec, frame_bytes, size_of(spec.type)));
    std::vector<std::byte> raw;
    PEN_ASSIGN(const auto size, encode(codec, image(index, raw), size_of(spec.type), encoded, scratch));
    (*stored)[index].assign(encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(size));
    return {};
  }));
  std::uint64_t total = 0;
  for (const auto& each : *stored) total += each.size();
  PEN_TRY(check_memory(total, count, options));
  std::vector<Bytes> views(stored->begin(), stored->end());
  return std::unique_ptr<Feed>(std::make_unique<FixedFeed>(spec, options.encoding, std::move(views), stored));
}

}  // namespace

Result<std::unique_ptr<Feed>> Feed::simulated(const Simulation& simulation, const FeedOptions& options) {
  const auto& made = simulation.spec();
  const auto frame_bytes = made.frame_bytes();
  const auto images = made.distinct_frames;
  if (options.encoding != Encoding::none)
    return encoded_feed(made.frame(), frame_bytes, images, options,
                        [&](std::uint64_t index, std::vector<std::byte>& raw) {
                          raw.resize(frame_bytes);
                          simulation.make_image(index, raw);
                          return Bytes(raw);
                        });
  PEN_TRY(check_memory(frame_bytes * images, images, options));
  auto slots = images;
  if (options.stamp) {
    const auto held = std::min<std::uint64_t>(options.held_bytes / frame_bytes, 1 << 16);
    slots = images * std::max<std::uint64_t>(1, (held + images - 1) / images);
  }
  PEN_ASSIGN(auto memory, Memory::allocate(slots * stride_of(frame_bytes)));
  const auto range = [&](std::uint64_t slot) { return memory->range(slot * stride_of(frame_bytes), frame_bytes); };
  PEN_TRY(for_all(images, options, [&](std::uint64_t index) -> Result<void> {
    simulation.make_image(index, range(index));
    for (auto slot = index + images; slot < slots; slot += images) std::ranges::copy(range(index), range(slot).begin());
    return {};
  }));
  if (options.stamp)
    return std::unique_ptr<Feed>(
        std::make_unique<StampedFeed>(made.frame(), std::move(memory), slots, static_cast<std::size_t>(frame_bytes)));
  std::vector<Bytes> views;
  for (std::uint64_t index = 0; index < images; ++index) views.push_back(range(index));
  return std::unique_ptr<Feed>(
      std::make_unique<FixedFeed>(made.frame(), Encoding::none, std::move(views), std::move(memory)));
}

Result<std::unique_ptr<Feed>> Feed::replayed(std::shared_ptr<const NpyImages> images, const FeedOptions& options) {
  if (options.encoding != Encoding::none)
    return encoded_feed(images->frame(), images->image(0).size(), images->count(), options,
                        [&](std::uint64_t index, std::vector<std::byte>&) { return images->image(index); });
  std::vector<Bytes> views;
  for (std::uint64_t index = 0; index < images->count(); ++index) views.push_back(images->image(index));
  const auto spec = images->frame();
  return std::unique_ptr<Feed>(std::make_unique<FixedFeed>(spec, Encoding::none, std::move(views), std::move(images)));
}

}  // namespace penstock::detector
