/// The NeXus tree of a series: NXmx, with the frames at /entry/data/data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frame/frame.hpp"
#include "frame/series.hpp"
#include "recorder/config/filters.hpp"
#include "recorder/config/scan.hpp"
#include "recorder/series/accounting/ledger.hpp"
#include "recorder/tree/metadata.hpp"
#include "recorder/tree/nexus/nexus_names.hpp"
#include "store/layout.hpp"
#include "store/store.hpp"

namespace penstock::recorder {

/// Columns that every file has, at these positions of FileLayout::columns; metadata follows.
/// Times are nanoseconds: exposure_* since the series' arm date as the source sent them (-1: not
/// sent), the others since 1970-01-01 UTC by the recorder's clock.
enum class Column : std::uint16_t {
  state,
  exposure_start,
  exposure_stop,
  exposure_real,
  received,  ///< the last byte of the frame had come from the network
  encoded,   ///< compressed, and laid into its segment
  written,   ///< its segment was on storage
};
constexpr std::size_t fixed_columns = 7;
inline constexpr const char* state_path = "/entry/penstock/frame_state";
/// The title of the plot of the frames.
inline constexpr const char* title_path = "/entry/data/title";

/// What the dataset of a channel's frames is called.
std::string frames_name(const Series& series, std::size_t channel);

/// Where the default layout has the column of what frames bring along under that name.
std::string metadata_column_path(const std::string& name);

/// How the frames lie in their datasets.
struct Arrangement {
  std::vector<std::uint64_t> tile_shape;  ///< of a frame in one chunk; empty is the whole frame
  ScanConfig scan;
  std::uint64_t frames_a_chunk = 1;
};

/// A chunk's extent in all dimensions of a dataset.
std::vector<std::uint64_t> chunk_shape(const Series& series, const Arrangement& arrangement);

/// Everything that is known at the start. Dataset i is channel i of the series, with the filters at i; `fill` is one
/// element of the fill value, as are the bytes of missing frames. With a scan there is one column more, behind
/// those of `columns`: the frames' places in it.
store::FileLayout nexus_layout(const Series& series, const DatasetFilters& filters,
                               const std::vector<MetaColumn>& columns, const Arrangement& arrangement = {},
                               const NexusNames& names = {});

/// A mask or a flat field (`name`) of a channel, where it belongs; `count` channels have one.
store::ValueNode map_value(const Series& series, const char* name, NamedArray array, std::size_t count);

/// What is known at the end. `end_ns` is the time of the last frame.
store::FinalValues final_values(const Series& series, const LedgerCounts& counts, std::uint64_t frames,
                                std::int64_t end_ns);

/// The value of a frame that never came: the highest one of unsigned types (which detectors use for
/// pixels without data), -1 of signed ones, NaN of floating point.
std::vector<std::byte> fill_value(ElementType type);

}  // namespace penstock::recorder
