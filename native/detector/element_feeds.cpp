#include "detector/element_feeds.hpp"

#include "frame/tiling.hpp"

namespace penstock::detector {
namespace {

using WholeImage = std::function<Bytes(std::uint64_t index)>;

Result<Tiling> elements_of(const ArraySpec& frame, const ElementPlace& grid) {
  if (frame.shape[0] % grid.rows != 0 || frame.shape[1] % grid.columns != 0)
    return make_error(
        Errc::invalid_argument,
        "elements: [{}, {}], and frames of {} × {} pixels: they do not come out equal; choose numbers that "
        "divide both",
        grid.rows, grid.columns, frame.shape[0], frame.shape[1]);
  return Tiling::of(frame, {frame.shape[0] / grid.rows, frame.shape[1] / grid.columns});
}

Result<std::vector<std::unique_ptr<Feed>>> feeds_of(const ArraySpec& frame, std::uint64_t count,
                                                    const ElementPlace& grid, const FeedOptions& options,
                                                    const WholeImage& image) {
  PEN_ASSIGN(const auto elements, elements_of(frame, grid));
  const ArraySpec spec{frame.type, elements.tile_shape()};
  std::vector<std::unique_ptr<Feed>> feeds;
  for (std::uint32_t number = 0; number < grid.count(); ++number) {
    auto of_element = options;
    of_element.stamp = options.stamp && number == 0;
    of_element.held_bytes = options.held_bytes / grid.count();
    of_element.memory_bytes_max = options.memory_bytes_max / grid.count();
    if (options.progress)
      of_element.progress = [&, number](std::uint64_t done, std::uint64_t total) {
        options.progress(number * total + done, grid.count() * total);
      };
    const auto cut = [&](std::uint64_t index, MutableBytes into) { elements.copy(image(index), number, {}, into); };
    PEN_ASSIGN(feeds.emplace_back(), Feed::of_images(spec, count, cut, of_element), "element {}", number);
  }
  return feeds;
}

}  // namespace

Result<std::vector<std::unique_ptr<Feed>>> simulated_elements(const Simulation& simulation, const ElementPlace& grid,
                                                              const FeedOptions& options) {
  const auto& made = simulation.spec();
  const auto frame_bytes = made.frame_bytes();
  // Whole images, and their parts beside them.
  const auto bytes = 2 * frame_bytes * made.distinct_frames;
  if (bytes > options.memory_bytes_max)
    return make_error(Errc::too_large,
                      "{} images need {} bytes of memory, which exceeds the maximum of {}; use fewer images",
                      made.distinct_frames, bytes, options.memory_bytes_max);
  std::vector<std::byte> images(frame_bytes * made.distinct_frames);
  const auto image = [&](std::uint64_t index) {
    return MutableBytes(images).subspan(index * frame_bytes, frame_bytes);
  };
  for (std::uint64_t index = 0; index < made.distinct_frames; ++index) {
    if (options.stop != nullptr && *options.stop)
      return make_error(Errc::cancelled, "stopped while images were prepared");
    simulation.make_image(index, image(index));
  }
  return feeds_of(made.frame(), made.distinct_frames, grid, options, image);
}

Result<std::vector<std::unique_ptr<Feed>>> replayed_elements(const NpyImages& images, const ElementPlace& grid,
                                                             const FeedOptions& options) {
  auto unstamped = options;
  unstamped.stamp = false;
  return feeds_of(images.frame(), images.count(), grid, unstamped,
                  [&](std::uint64_t index) { return images.image(index); });
}

}  // namespace penstock::detector
