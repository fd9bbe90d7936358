/// The frames of a series in the order in which they are sent, out of a few images in memory.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "detector/images/npy_images.hpp"
#include "detector/simulation.hpp"
#include "frame/frame.hpp"

namespace penstock::detector {

/// Told how many of how many images are ready; called from any thread, one call at a time.
using PrepareProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

struct FeedOptions {
  Encoding encoding = Encoding::none;  ///< images are encoded once, before the series
  bool stamp = false;                  ///< only where frames are sent without an encoding
  unsigned threads = 2;
  std::uint64_t memory_bytes_max = std::uint64_t{8} << 30;  ///< for prepared images
  /// How much the sender may hold on to while later frames are stamped. More than that costs a copy a
  /// frame, never a wrong pixel.
  std::uint64_t held_bytes = std::uint64_t{256} << 20;
  /// Of the series: more cannot be held. 0: not known.
  std::uint64_t frames = 0;
  /// Large frames get room for a message's head (Frame::headroom), unless many are held at once.
  bool headroom = false;
  const std::atomic<bool>* stop = nullptr;  ///< preparing ends early with `cancelled`
  PrepareProgress progress;
};

/// One thread asks for frames; senders may drop them in any thread.
class Feed {
 public:
  virtual ~Feed() = default;
  /// Payload, shape and number are set; `owner` keeps the pixels unchanged until it is dropped.
  virtual Frame frame(std::uint64_t number) = 0;
  virtual const ArraySpec& spec() const = 0;
  /// Average encoded size of an image over its raw size.
  virtual double ratio() const = 0;

  static Result<std::unique_ptr<Feed>> simulated(const Simulation& simulation, const FeedOptions& options);
  /// Of `count` images of `spec`; `make` fills the memory of one, and is called from several threads.
  using MakeImage = std::function<void(std::uint64_t index, MutableBytes into)>;
  static Result<std::unique_ptr<Feed>> of_images(const ArraySpec& spec, std::uint64_t count, const MakeImage& make,
                                                 const FeedOptions& options);
  static Result<std::unique_ptr<Feed>> replayed(std::shared_ptr<const NpyImages> images, const FeedOptions& options);
};

}  // namespace penstock::detector
