#include "stream/delivery.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "base/time/clock.hpp"

namespace penstock::stream {
namespace {

std::size_t readable_from(Bytes payload, Bytes readable) {
  const std::less_equal<const std::byte*> no_later;
  const auto* end = readable.data() + readable.size();
  const bool inside = no_later(readable.data(), payload.data()) && no_later(payload.data() + payload.size(), end);
  return inside ? static_cast<std::size_t>(end - payload.data()) : payload.size();
}

}  // namespace

Result<Delivery> frames_of(ImageMessage image, const std::vector<std::string>* channels,
                           const std::shared_ptr<const void>& owner, Bytes readable) {
  Delivery delivery;
  if (channels != nullptr) {
    const auto is_declared = [&](const ChannelImage& channel) {
      return std::find(channels->begin(), channels->end(), channel.channel) != channels->end();
    };
    const auto foreign = std::find_if_not(image.channels.begin(), image.channels.end(), is_declared);
    if (foreign != image.channels.end()) {
      auto why = make_error(Errc::mismatch, "image: data: channel \"{}\" is not one of the series' channels [{}]",
                            foreign->channel, fmt::join(*channels, ", "));
      std::erase_if(image.channels, [&](const ChannelImage& channel) { return !is_declared(channel); });
      if (image.channels.empty()) return why;
      delivery.remark =
          make_error(why.code(), "{}: it is left out, and the other channels are recorded", why.message());
    }
  }
  const auto received_ns = realtime_ns();
  auto& frames = delivery.frames;
  frames.resize(image.channels.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    auto& frame = frames[i];
    auto& channel = image.channels[i];
    if (channels != nullptr)
      frame.channel = static_cast<std::uint32_t>(std::find(channels->begin(), channels->end(), channel.channel) -
                                                 channels->begin());
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
  return delivery;
}

void tell_lost(const std::string& series_unique_id, FrameNumber number, Fate fate, FrameSink& sink,
               std::optional<std::uint32_t> element) {
  if (fate == Fate::dropped)
    sink.drop(series_unique_id, number);
  else
    sink.damage(series_unique_id, number, element);
}

void account(Bytes message, Fate fate, const MessageLimits& limits, FrameSink& sink, const ElementOf& element_of) {
  if (const auto image = name_of_image(message, limits))
    tell_lost(image->series_unique_id, FrameNumber{image->image_id}, fate, sink,
              element_of ? element_of(image->series_unique_id) : std::optional<std::uint32_t>());
}

}  // namespace penstock::stream
