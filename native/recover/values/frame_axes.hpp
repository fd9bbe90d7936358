/// The values along the frames that a recorder writes when a series ends, in a recovered file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/files/env.hpp"
#include "check/structures/index_process.hpp"
#include "store/format/description.hpp"
#include "store/store.hpp"

namespace penstock::recover {

/// What the recovery knows of the file as it will be.
struct RecoveredFile {
  const check::Tree& tree;  ///< as it was left; empty if the structures are rebuilt
  const store::format::Description& description;
  bool was_completed = false;    ///< by its recorder, or an earlier recovery
  std::uint64_t frames = 0;      ///< that the file has room for
  std::uint64_t frames_end = 0;  ///< one past the last of which anything is known
  std::function<bool(const std::string&)> has_object;
};

/// Adds what the description lists (store/frame_axes.hpp), unless a completed file has it in the right length. Files
/// of earlier versions list nothing.
void add_frame_axes(File& file, const RecoveredFile& recovered, store::FinalValues& values);

}  // namespace penstock::recover
