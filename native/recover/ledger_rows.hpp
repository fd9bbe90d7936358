/// What a recovered file says of its frames: the states that follow from the chunks that are there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "check/structures/index_process.hpp"
#include "store/format/description.hpp"
#include "store/hdf5/index_file.hpp"

namespace penstock::recover {

/// What became of the chunks of one dataset; numbers ascending.
struct Frames {
  std::vector<std::uint64_t> whole;    ///< every channel has its chunk
  std::vector<std::uint64_t> damaged;  ///< a segment names a chunk of it whose bytes are not right
  std::vector<std::uint64_t> begun;    ///< a channel has its chunk, or a part of them
};

/// What HDF5's structures said of the series before they are completed or made anew.
struct FramesBefore {
  std::vector<std::byte> states;  ///< one a frame; empty if they are not known
  bool assumed = false;           ///< … as many received as were cut off at most, since no state of them is left
  std::uint64_t count = 0;        ///< of frames for which a dataset or a column has room
  std::string ended_by = {};      ///< why the series ended; empty if that is not known
};
FramesBefore frames_before(const check::Tree& tree, const store::format::Description& description,
                           std::uint64_t file_bytes);

/// Missing frames by their state.
struct StateCounts {
  std::uint64_t damaged = 0;
  std::uint64_t dropped = 0;
  std::uint64_t lost = 0;
  std::uint64_t partial = 0;
};
/// As the recovered file has them; `before` and `standing` as for write_rows().
StateCounts count_states(const Frames& frames, Bytes before, Bytes standing);

/// How many frames were received before, or damaged, and are lost now.
std::uint64_t newly_lost(const Frames& frames, Bytes before);

struct ReceivedTime {
  std::uint64_t frame = 0;
  std::int64_t ns = 0;  ///< realtime
};

/// When a frame came, realtime.
inline constexpr const char* received_path = "/entry/penstock/timing/received";

/// When the last frame came: of the column of the file as it was left, and of what is recovered. 0 where neither knows.
/// Times to come are not believed: no checksum guards the column.
std::int64_t last_received_ns(const check::Tree& tree, const std::vector<ReceivedTime>& times);

struct FramePlace {
  std::uint64_t frame = 0;
  std::uint64_t place = 0;  ///< in a scan
};

/// Writes the states that changed and the times of what was recovered, by rising frame, and returns the
/// counts as attributes of the column of states. `before` is what is known of the frames, and `standing` what the file
/// has: nothing if its structures are new. Both one a frame.
Result<std::vector<std::pair<std::string, store::Attribute>>> write_rows(
    store::hdf5::IndexFile& index, const std::vector<store::ColumnNode>& columns, const Frames& frames, Bytes before,
    Bytes standing, const std::vector<ReceivedTime>& times, std::uint64_t frame_count);

/// Writes places of a scan, by rising frame.
Result<void> write_places(store::hdf5::IndexFile& index, const std::vector<store::ColumnNode>& columns,
                          const std::vector<FramePlace>& places);

}  // namespace penstock::recover
