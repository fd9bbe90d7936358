#include "recorder/config/filters.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>

namespace penstock::recorder {
namespace {

/// The one that names the channel, else the one that names none.
const FilterConfig& filter_for(const std::vector<FilterConfig>& configured, const std::string& channel) {
  const auto own =
      std::find_if(configured.begin(), configured.end(), [&](const auto& each) { return each.channel == channel; });
  return own != configured.end() ? *own : configured.front();
}

}  // namespace

Result<std::vector<ChannelFilter>> settle_filters(const std::vector<FilterConfig>& configured, const Series& series,
                                                  const std::vector<std::uint64_t>& chunk_shape) {
  std::vector<ChannelFilter> filters;
  if (configured.empty()) return filters;
  PEN_ASSIGN(const auto raw_bytes, (ArraySpec{series.frame.type, chunk_shape}.bytes(SIZE_MAX)), "chunk");
  for (const auto& channel : series.channels) {
    const auto& filter = filter_for(configured, channel);
    PEN_ASSIGN(auto spec, filter.plugin->settle(filter.values, series.frame.type, chunk_shape));
    const bool tried = std::any_of(filters.begin(), filters.end(), [&](const auto& other) {
      return other.spec.id == spec.id && other.spec.values == spec.values;
    });
    if (!tried) PEN_TRY(filter.plugin->try_out(spec, raw_bytes));
    filters.push_back({filter.plugin, std::move(spec)});
  }
  for (const auto& filter : configured)
    if (!filter.channel.empty() &&
        std::find(series.channels.begin(), series.channels.end(), filter.channel) == series.channels.end())
      spdlog::warn("series \"{}\" lacks the channel \"{}\", which has a filter", series.unique_id, filter.channel);
  return filters;
}

DatasetFilters declared_filters(const CodecSpec& codec, const std::vector<ChannelFilter>& filters,
                                const Series& series) {
  if (codec.encoding != Encoding::none || filters.empty())
    return DatasetFilters(series.channels.size(), filters_of(codec, size_of(series.frame.type)));
  DatasetFilters declared;
  for (const auto& filter : filters) declared.push_back({filter.spec});
  return declared;
}

}  // namespace penstock::recorder
