/// A file that a recorder left at the place where a series is to go: whether it is the series', and what is in it.
///
/// docs/explanation/decisions/0017-a-series-goes-on-in-its-file.md says when a recorder goes on in one. Nothing
/// here keeps the file open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files/env.hpp"
#include "frame/series.hpp"
#include "recorder/config/config.hpp"
#include "recorder/config/filters.hpp"
#include "recorder/tree/metadata.hpp"
#include "store/store.hpp"

namespace penstock::recorder {

/// What the file was made for, by its description segment.
struct LeftFile {
  CodecSpec codec;
  std::vector<MetaColumn> columns;
  store::SharedFile shared;
  bool blank = false;  ///< not even a description is in it: its recorder was killed in the first moment
};

/// Reads no more than the start of the file, and nothing with HDF5. Nothing where no file is there.
/// `already_exists` where it can not be the series' file, with what differs. `filters` are the configured ones.
Result<std::optional<LeftFile>> find_left_file(Env& env, const std::string& path, const Config& config,
                                               const Series& series, const std::vector<ChannelFilter>& filters);

struct LeftContents {
  struct Run {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };
  std::vector<std::vector<Run>> datasets;  ///< by channel: the frames that are there, rising
  std::uint64_t stored_bytes = 0;
  std::uint64_t last_sequence = 0;    ///< of its segments
  std::int64_t last_received_ns = 0;  ///< realtime, when the last frame came; 0: not known
  std::uint64_t damaged = 0;          ///< frames that are not there, by the state that the file gives them
  std::uint64_t dropped = 0;
  std::uint64_t lost = 0;
  bool empty = false;  ///< no chunk is in it, and nothing that could have been one
};

/// Completes the file's index (penstock-recover, as a child of this process) and returns what is in it. With `finished`
/// also of a file that was finished. `already_exists` for another series, and for a finished file that is not wanted;
/// `corrupt` where HDF5's structures are not usable; else as that program fails.
Result<LeftContents> complete_left_file(const std::string& path, const Series& series, bool finished);

}  // namespace penstock::recorder
