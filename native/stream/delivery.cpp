#include "stream/delivery.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

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

std::size_t readable_from(Bytes payload, Bytes readable) {
  const std::less_equal<const std::byte*> no_later;
  const auto* end = readable.data() + readable.size();
  const bool inside = no_later(readable.data(), payload.data()) && no_later(payload.data() + payload.size(), end);
  return inside ? static_cast<std::size_t>(end - payload.data()) : payload.size();
}

}  // namespace

Result<std::vector<Frame>> frames_of(ImageMessage image, const std::vector<std::string>* channels,
                                     const std::shared_ptr<const void>& owner, Bytes readable) {
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
    frame.series_date = image.series_date;
    frame.spec = std::move(channel.spec);
    frame.encoding = channel.encoding;
    frame.form = channel.form;
    frame.payload = channel.payload;
    frame.capacity = readable_from(channel.payload, readable);
    frame.owner = owner;
    frame.exposure_start_ns = image.start_ns;
    frame.exposure_stop_ns = image.stop_ns;
    frame.exposure_real_ns = image.real_ns;
    frame.received_ns = received_ns;
  }
  return frames;
}

void account(Bytes message, Fate fate, const MessageLimits& limits, FrameSink& sink, const ElementOf& element_of) {
  const auto image = name_of_image(message, limits);
  if (!image) return;
  const FrameNumber number{image->image_id};
  if (fate == Fate::dropped)
    sink.drop(image->series_unique_id, number);
  else
    sink.damage(image->series_unique_id, number,
                element_of ? element_of(image->series_unique_id) : std::optional<std::uint32_t>());
}

}  // namespace penstock::stream
