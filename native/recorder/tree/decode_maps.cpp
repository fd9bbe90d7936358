#include "recorder/tree/decode_maps.hpp"

#include <algorithm>

#include "codec/codec.hpp"
#include "recorder/tree/expand.hpp"

namespace penstock::recorder {

void decode_maps(Series& series, std::uint64_t budget_bytes, std::uint64_t used_bytes,
                 const std::function<void(const Error& what)>& note) {
  CodecScratch scratch;
  auto left = budget_bytes - std::min(budget_bytes, used_bytes);
  const auto plain = [&](NamedArray& array, std::string_view field) {
    const bool is_plain = array.encoding == Encoding::none && array.form.plain();
    const auto size = is_plain ? Result<std::uint64_t>(array.data.size()) : array.spec.bytes(budget_bytes);
    if (!size.ok() || *size > left) {
      const auto needed = size.ok() ? fmt::format("{} bytes", *size) : size.error().message();
      note(make_error(
          Errc::too_large,
          "series \"{}\": {} of channel \"{}\" is left out: {}; {} of the {} bytes of tables_bytes remain; increase "
          "tables_bytes",
          series.unique_id, field, array.channel, needed, left, budget_bytes));
      return false;
    }
    left -= *size;
    if (is_plain) return true;
    std::vector<std::byte> raw(*size);
    const auto decoded = expand({array.encoding, array.form}, array.spec, array.data, raw, scratch);
    if (!decoded.ok()) {
      left += *size;
      note(decoded.error().with_context(fmt::format("{} of channel {}", field, array.channel)));
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
