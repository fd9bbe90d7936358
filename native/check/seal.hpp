/// Whether what lies outside the chunks of a file is as it was when the file was closed: HDF5's structures, texts,
/// columns and large values.
#pragma once

#include <functional>
#include <optional>

#include "base/files/env.hpp"
#include "check/findings.hpp"
#include "check/progress.hpp"
#include "check/structures/index_process.hpp"
#include "store/format/description.hpp"
#include "store/format/segment.hpp"

namespace penstock::check {

struct SealedFile {
  File& file;
  std::uint64_t file_bytes = 0;
  /// As HDF5's superblock says. A program that changes the file through HDF5 ends it there.
  std::optional<std::uint64_t> structures_end;
  std::string path;
  const Tree& tree;
  const store::format::Description& description;
  std::optional<store::format::SegmentHeader> seal;  ///< the last one that was found
  bool unfinished = false;                           ///< then it has none yet
  bool truncated = false;                            ///< its end is cut off, and the seal with it
};

/// What is damaged becomes an error. A file that was closed with a seal and has none any more was changed on purpose,
/// as far as can be determined, if it ends where HDF5 ends it: that is a warning. Memory: the seal, and a read of a
/// megabyte.
void verify_outside_chunks(const SealedFile& sealed, Findings& findings, Progress& progress,
                           const std::function<bool()>& cancelled);

}  // namespace penstock::check
