#include "stream/delivery.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/clock.hpp"

namespace penstock::stream {
namespace {

Result<std::uint32_t> channel_index(const std::string& channel, const std::vector<std::string>* channels) {
  if (channels == nullptr) return std::uint32_t{0};
  const auto found = std::find(channels->begin(), channels->end(), channel);
  if (found == channels->end())
    return make_error(Errc::mismatch, "image: data: channel \"{}\" is none of the series' channels [{}]", channel,
                      fmt::join(*channels, ", "));
  return static_cast<std::uint32_t>(found - channels->begin());
}

}  // namespace

Result<std::vector<Frame>> frames_of(ImageMessage image, const std::vector<std::string>* channels,
                                     const std::shared_ptr<const void>& owner) {
  const auto received_ns = realtime_ns();
  std::vector<Frame> frames(image.channels.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    auto& frame = frames[i];
    auto& channel = image.channels[i];
    PEN_ASSIGN(frame.channel, channel_index(channel.channel, channels));
    const bool last = i + 1 == frames.size();
    frame.series_unique_id = last ? std::move(image.series_unique_id) : image.series_unique_id;
    frame.metadata = last ? std::move(image.metadata) : image.metadata;
    frame.number = FrameNumber{image.image_id};
    frame.spec = std::move(channel.spec);
    frame.encoding = channel.encoding;
    frame.payload = channel.payload;
    frame.owner = owner;
    frame.exposure_start_ns = image.start_ns;
    frame.exposure_stop_ns = image.stop_ns;
    frame.exposure_real_ns = image.real_ns;
    frame.received_ns = received_ns;
  }
  return frames;
}

}  // namespace penstock::stream
