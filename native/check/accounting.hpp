/// Whether every frame of a series is accounted for.
#pragma once

#include <cstdint>
#include <vector>

#include "check/findings.hpp"
#include "check/subject.hpp"

namespace penstock::check {

struct FrameCounts {
  std::uint64_t frames = 0;   ///< that the dataset has room for, or were announced, if more
  std::uint64_t missing = 0;  ///< of these, without data
};

/// Compares the datasets of frames (a chunk is one frame, a part of one, or several) with the column of states and with
/// the number that was announced. `unfinished`: rows may lag behind the frames.
FrameCounts account_for_frames(const Tree& tree, const std::vector<const Subject*>& channels, bool unfinished,
                               Findings& findings);

}  // namespace penstock::check
