/// What start messages bring along: masks, flat fields and tables.

#include <algorithm>

#include "recorder/expand.hpp"
#include "recorder/recorder.hpp"

namespace penstock::recorder {

/// Masks and tables may come compressed; the file holds them plain. Those of a detector's elements are kept until the
/// series is closed: `used_bytes` of others are there already.
void Recorder::decode_maps(Series& series, std::uint64_t used_bytes) {
  CodecScratch scratch;
  const auto budget = config_.pool_bytes / 4;  // they live as long as the series does
  auto left = budget - std::min(budget, used_bytes);
  const auto plain = [&](NamedArray& array, std::string_view field) {
    if (array.encoding == Encoding::none && array.form.plain()) {
      const bool fits = !series.element || array.data.size() <= left;
      if (!fits)
        note("start",
             make_error(Errc::too_large, "{} of channel {} has {} bytes; masks and tables of all elements may have {}",
                        field, array.channel, array.data.size(), budget));
      else if (series.element)
        left -= array.data.size();
      return fits;
    }
    auto bytes = array.spec.bytes(config_.frame_bytes_max);
    Result<void> decoded = bytes.ok() ? Result<void>{} : Result<void>(bytes.error());
    if (bytes.ok() && *bytes > left)
      decoded = make_error(Errc::too_large, "{} bytes decoded; masks and tables of a series may have {} together",
                           *bytes, budget);
    if (!decoded.ok()) bytes = std::uint64_t{0};
    left -= *bytes;
    std::vector<std::byte> raw(*bytes);
    if (decoded.ok()) decoded = expand({array.encoding, array.form}, array.spec, array.data, raw, scratch);
    if (!decoded.ok()) {
      note("start", decoded.error().with_context(fmt::format("{} of channel {}", field, array.channel)));
      return false;
    }
    array.data = std::move(raw);
    array.encoding = Encoding::none;
    array.form = {};
    return true;
  };
  const auto foreign = [&](const NamedArray& array) {
    return std::find(series.channels.begin(), series.channels.end(), array.channel) == series.channels.end();
  };
  std::erase_if(series.pixel_mask, foreign);
  std::erase_if(series.flatfield, foreign);
  std::erase_if(series.pixel_mask, [&](auto& array) { return !plain(array, "pixel_mask"); });
  std::erase_if(series.flatfield, [&](auto& array) { return !plain(array, "flatfield"); });
  if (series.countrate_correction_table &&
      !plain(*series.countrate_correction_table, "countrate_correction_lookup_table"))
    series.countrate_correction_table.reset();
}

}  // namespace penstock::recorder
