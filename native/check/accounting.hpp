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

/// Compares the datasets of frames (a chunk is one frame, a part of one, or several) with the column of states and with
/// the number that was announced. `unfinished`: rows may lag behind the frames. `recoverable`: of an unfinished series,
/// the frames that its segments hold; the others are missing, whatever the index has.
FrameCounts account_for_frames(const Tree& tree, const std::vector<const Subject*>& channels, bool unfinished,
                               std::optional<std::uint64_t> recoverable, Findings& findings);

/// Of a file whose dataset `path` of frames has no row, so that the index has no whole frame. `channels` are those that
/// have rows; `recoverable` as above.
FrameCounts account_for_no_frames(const Tree& tree, const std::vector<const Subject*>& channels,
                                  const std::string& path, std::optional<std::uint64_t> recoverable,
                                  Findings& findings);

}  // namespace penstock::check
