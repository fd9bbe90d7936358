/// Whether every frame of a series is accounted for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "check/findings.hpp"
#include "check/subject.hpp"

namespace penstock::check {

struct FrameCounts {
  std::uint64_t frames = 0;   ///< that the dataset has room for, or were announced, if more
  std::uint64_t missing = 0;  ///< of these, without all of their data
  std::uint64_t partial = 0;  ///< of the missing ones, with some of it; not counted in a scan
  std::uint64_t damaged = 0;  ///< of the missing ones, by their state
  std::uint64_t dropped = 0;
  std::uint64_t lost = 0;
};

struct SeriesState {
  bool unfinished = false;  ///< the file is open for writing: its rows may lag behind the frames
  bool locked = false;      ///< another process has locked the file: while it is unfinished, its recorder
  bool truncated = false;   ///< the end of a file is lost: its frames are missing for no other reason
  /// Of an unfinished series: the frames that its segments hold, rising; of a scan their places. The others are
  /// missing, whatever the index and the states say, and more may arrive.
  std::optional<std::vector<std::uint64_t>> recoverable;
};

/// Compares the datasets of frames (a chunk is one frame, a part of one, or several) with the column of states and with
/// the number that was announced.
FrameCounts account_for_frames(const Tree& tree, const std::vector<const Subject*>& channels, const SeriesState& series,
                               Findings& findings);

/// Of a file whose dataset `path` of frames has no row, so that the index has no whole frame. `channels` are those that
/// have rows.
FrameCounts account_for_no_frames(const Tree& tree, const std::vector<const Subject*>& channels,
                                  const std::string& path, const SeriesState& series, Findings& findings);

}  // namespace penstock::check
