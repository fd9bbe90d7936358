/// The filter plug-ins of a series: one for each of its datasets, with its parameters complete.
#pragma once

#include <memory>
#include <vector>

#include "codec/codec.hpp"
#include "frame/series.hpp"
#include "recorder/config/config.hpp"
#include "store/hdf5/plugins/filter_plugin.hpp"

namespace penstock::recorder {

struct ChannelFilter {
  std::shared_ptr<const store::FilterPlugin> plugin;
  FilterSpec spec;
};

/// What each dataset declares, by channel.
using DatasetFilters = std::vector<std::vector<FilterSpec>>;

/// By channel, for chunks of `chunk_shape` in all dimensions of a dataset; empty where the configuration has no filter.
/// `invalid_argument` where a plug-in refuses its parameters, or chunks of this type and shape.
Result<std::vector<ChannelFilter>> settle_filters(const std::vector<FilterConfig>& configured, const Series& series,
                                                  const std::vector<std::uint64_t>& chunk_shape);

/// What the datasets of a series declare whose frames come plain and are stored under `codec`, or, where that has no
/// encoding, go through `filters`.
DatasetFilters declared_filters(const CodecSpec& codec, const std::vector<ChannelFilter>& filters,
                                const Series& series);

}  // namespace penstock::recorder
