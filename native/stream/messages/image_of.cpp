#include "stream/messages/image_of.hpp"

namespace penstock::stream {

Result<void> fill_image(const Frame& frame, const Series& series, ImageMessage& image) {
  if (frame.channel >= series.channels.size())
    return make_error(Errc::invalid_argument, "channel {} of a series with {} channels", frame.channel,
                      series.channels.size());
  if (frame.encoding == Encoding::zstd || frame.encoding == Encoding::deflate)
    return make_error(Errc::unsupported, "Stream V2 does not define the encoding {}", name(frame.encoding));
  image.series_id = series.id;
  image.series_unique_id = series.unique_id;
  image.image_id = value(frame.number);
  image.series_date = series.arm_date;
  image.start_ns = frame.exposure_start_ns;
  image.stop_ns = frame.exposure_stop_ns;
  image.real_ns = frame.exposure_real_ns;
  image.metadata = frame.metadata;
  image.channels.resize(1);
  auto& channel = image.channels.front();
  channel.channel = series.channels[frame.channel];
  channel.spec = frame.spec;
  channel.encoding = frame.encoding;
  channel.form = frame.form;
  channel.payload = frame.payload;
  return {};
}

}  // namespace penstock::stream
