/// Whether every frame of a series is accounted for.
#pragma once

#include <cstdint>
#include <vector>

#include "check/findings.hpp"
#include "check/subject.hpp"

namespace penstock::check {

struct FrameCounts {
  std::uint64_t frames = 0;   ///< that the dataset has room for, or were announced, if more
  std::uint64_t missing = 0;  ///< of these, without all of their data
  std::uint64_t partial = 0;  ///< of the missing ones, with some of it; not counted in a scan
  std::uint64_t damaged = 0;  ///< of the missing ones, came damaged
};

/// Compares the datasets of frames (a chunk is one frame, a part of one, or several) with the column of states and with
/// the number that was announced. `unfinished`: rows may lag behind the frames.
FrameCounts account_for_frames(const Tree& tree, const std::vector<const Subject*>& channels, bool unfinished,
                               Findings& findings);

/// Of a file whose dataset `path` of frames has no row, so that no frame is whole: how many are missing. `channels`
/// are those that have rows.
std::uint64_t account_for_no_frames(const Tree& tree, const std::vector<const Subject*>& channels,
                                    const std::string& path, Findings& findings);

}  // namespace penstock::check
