#include "detector/feed.hpp"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "codec/codec.hpp"
#include "detector/images/image_slots.hpp"

namespace penstock::detector {
namespace {

/// What a message's head needs; larger ones are sent with a copy of the pixels.
constexpr std::size_t headroom_bytes = page_bytes;
/// Smaller frames are copied in any case.
constexpr std::size_t headroom_frame_bytes_min = 64 << 10;
/// Frames within ZeroMQ: those that wait for a receiver, and those it works on.
constexpr std::uint64_t slots_with_headroom = 8;
constexpr std::uint64_t held_frames_max = 1 << 16;

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

Result<void> check_memory(std::uint64_t bytes, std::uint64_t images, const FeedOptions& options) {
  if (bytes > options.memory_bytes_max)
    return make_error(Errc::too_large,
                      "{} images need {} bytes of memory, which exceeds the maximum of {}; use fewer images", images,
                      bytes, options.memory_bytes_max);
  return {};
}

ImageSlots::Needs needs_of(std::size_t frame_bytes, const FeedOptions& options) {
  ImageSlots::Needs needs;
  const auto frames_max = options.frames > 0 ? std::min(options.frames, held_frames_max) : held_frames_max;
  if (options.stamp) needs.slots = std::min(options.held_bytes / frame_bytes + 1, frames_max);
  if (!options.headroom || frame_bytes < headroom_frame_bytes_min) return needs;
  needs.slots = std::max(needs.slots, slots_with_headroom);
  needs.headroom_bytes = headroom_bytes;
  return needs;
}

FeedOptions without_stamp(const FeedOptions& options) {
  auto without = options;
  without.stamp = false;
  return without;
}

/// Average of the raw size over the stored size.
template <typename Sizes>
double ratio_of(const ArraySpec& spec, const Sizes& stored_sizes) {
  double raw = static_cast<double>(size_of(spec.type)), stored = 0;
  for (const auto extent : spec.shape) raw *= static_cast<double>(extent);
  for (const auto size : stored_sizes) stored += static_cast<double>(size);
  return raw * static_cast<double>(stored_sizes.size()) / stored;
}

/// Images of a file that is too long for slots of their own.
class FileFeed : public Feed {
 public:
  explicit FileFeed(std::shared_ptr<const NpyImages> images) : images_(std::move(images)) {}

  Frame frame(std::uint64_t number) override {
    Frame frame;
    frame.number = FrameNumber{number};
    frame.spec = images_->frame();
    frame.payload = images_->image(number % images_->count());
    frame.owner = images_;
    return frame;
  }
  const ArraySpec& spec() const override { return images_->frame(); }
  double ratio() const override { return 1.0; }

 private:
  const std::shared_ptr<const NpyImages> images_;
};

/// Raw or encoded images in slots. What is written for one frame, its stamp and the head of its
/// message, is written only while nobody holds the slot. While somebody does, a copy is stamped in its
/// stead, and a frame without a stamp goes without headroom.
class SlotFeed : public Feed {
 public:
  SlotFeed(ArraySpec spec, Encoding encoding, bool stamp, double ratio, std::shared_ptr<ImageSlots> slots)
      : spec_(std::move(spec)), encoding_(encoding), stamp_(stamp), ratio_(ratio), slots_(std::move(slots)) {}

  Frame frame(std::uint64_t number) override {
    Frame frame;
    frame.number = FrameNumber{number};
    frame.spec = spec_;
    frame.encoding = encoding_;
    const auto index = number % slots_->count();
    const auto& slot = slots_->slot(index);
    frame.payload = slot.pixels;
    frame.owner = slots_;
    if (!stamp_ && slot.headroom.empty()) return frame;
    if (auto held = slots_->take(index)) {
      frame.owner = std::move(held);
      frame.headroom = slot.headroom;
      if (stamp_) stamp_frame(number, slot.pixels);
    } else if (stamp_) {
      auto copy = std::make_shared<std::vector<std::byte>>(slot.pixels.begin(), slot.pixels.end());
      stamp_frame(number, *copy);
      frame.payload = *copy;
      frame.owner = std::move(copy);
    }
    return frame;
  }
  const ArraySpec& spec() const override { return spec_; }
  double ratio() const override { return ratio_; }

 private:
  const ArraySpec spec_;
  const Encoding encoding_;
  const bool stamp_;
  const double ratio_;
  const std::shared_ptr<ImageSlots> slots_;
};

/// Encodes `count` images, each once.
template <typename Image>
Result<std::unique_ptr<Feed>> encoded_feed(const ArraySpec& spec, std::size_t frame_bytes, std::uint64_t count,
                                           const FeedOptions& options, Image image) {
  std::vector<std::vector<std::byte>> stored(count);
  const CodecSpec codec{options.encoding, 0, 0};
  PEN_TRY(for_all(count, options, [&](std::uint64_t index) -> Result<void> {
    CodecScratch scratch;
    std::vector<std::byte> encoded(encoded_bound(codec, frame_bytes, size_of(spec.type)));
    std::vector<std::byte> raw;
    PEN_ASSIGN(const auto size, encode(codec, image(index, raw), size_of(spec.type), encoded, scratch));
    stored[index].assign(encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(size));
    return {};
  }));
  std::vector<std::size_t> sizes;
  sizes.reserve(stored.size());
  for (const auto& each : stored) sizes.push_back(each.size());
  PEN_TRY(check_memory(std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}), count, options));
  const auto needs = needs_of(std::ranges::min(sizes), options);
  PEN_ASSIGN(auto slots, ImageSlots::make(sizes, needs, [&](const ImageSlots::Image& into) -> Result<void> {
               for (std::uint64_t index = 0; index < count; ++index)
                 std::ranges::copy(stored[index], into(index).begin());
               return {};
             }));
  return std::unique_ptr<Feed>(
      std::make_unique<SlotFeed>(spec, options.encoding, false, ratio_of(spec, sizes), std::move(slots)));
}

}  // namespace

Result<std::unique_ptr<Feed>> Feed::simulated(const Simulation& simulation, const FeedOptions& options) {
  const auto& made = simulation.spec();
  const auto make = [&](std::uint64_t index, MutableBytes into) { simulation.make_image(index, into); };
  return of_images(made.frame(), made.distinct_frames, make, options);
}

Result<std::unique_ptr<Feed>> Feed::of_images(const ArraySpec& spec, std::uint64_t count, const MakeImage& make,
                                              const FeedOptions& options) {
  PEN_ASSIGN(const auto frame_bytes, spec.bytes(options.memory_bytes_max));
  if (options.encoding != Encoding::none)
    return encoded_feed(spec, frame_bytes, count, without_stamp(options),
                        [&](std::uint64_t index, std::vector<std::byte>& raw) {
                          raw.resize(frame_bytes);
                          make(index, raw);
                          return Bytes(raw);
                        });
  PEN_TRY(check_memory(frame_bytes * count, count, options));
  const std::vector<std::size_t> sizes(count, frame_bytes);
  PEN_ASSIGN(auto slots, ImageSlots::make(sizes, needs_of(frame_bytes, options), [&](const ImageSlots::Image& image) {
               return for_all(count, options, [&](std::uint64_t index) -> Result<void> {
                 make(index, image(index));
                 return {};
               });
             }));
  return std::unique_ptr<Feed>(std::make_unique<SlotFeed>(spec, Encoding::none, options.stamp, 1.0, std::move(slots)));
}

Result<std::unique_ptr<Feed>> Feed::replayed(std::shared_ptr<const NpyImages> images, const FeedOptions& options) {
  const auto frame_bytes = images->image(0).size();
  const auto unstamped = without_stamp(options);
  if (options.encoding != Encoding::none)
    return encoded_feed(images->frame(), frame_bytes, images->count(), unstamped,
                        [&](std::uint64_t index, std::vector<std::byte>&) { return images->image(index); });
  // Nothing is to be prepared, and whoever waits for it is told so.
  if (options.progress) options.progress(images->count(), images->count());
  const auto needs = needs_of(frame_bytes, unstamped);
  if (needs.headroom_bytes > 0)
    if (auto slots = ImageSlots::views_of(*images, needs))
      return std::unique_ptr<Feed>(
          std::make_unique<SlotFeed>(images->frame(), Encoding::none, false, 1.0, std::move(slots)));
  return std::unique_ptr<Feed>(std::make_unique<FileFeed>(std::move(images)));
}

}  // namespace penstock::detector
