/// What the segments of a file say, and whether HDF5's structures say the same.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/env.hpp"
#include "check/findings.hpp"
#include "check/structures/index_process.hpp"
#include "check/subject.hpp"
#include "check/verifier.hpp"
#include "store/format/description.hpp"
#include "store/format/segment.hpp"

namespace penstock::check {

struct SegmentedFile {
  File& file;
  std::string path;
  const Tree& tree;
  const std::vector<std::unique_ptr<Subject>>& subjects;
  std::optional<store::format::FileId> id;  ///< as HDF5's structures name it
  bool is_hdf5 = false;
  bool unfinished = false;
  bool truncated = false;
};

struct FoundSegments {
  std::optional<store::format::Description> description;  ///< the first that is whole
  std::vector<Subject*> by_record;                        ///< the datasets of it; null where the file lacks one
  std::optional<store::format::SegmentHeader> seal;       ///< the last one
  std::string channel_without_rows;  ///< a dataset; then no frame is whole, whatever the segments hold
};

/// Gives the chunks of all segments to the verifier, which may still work on them at the end. What is damaged or
/// missing becomes a finding. Memory: one header region.
FoundSegments verify_segments(const SegmentedFile& segmented, Verifier& verifier, Findings& findings,
                              const std::function<bool()>& cancelled);

/// Of any file: a sign of Penstock where neither HDF5 nor the file's start shows one. Looks at the first 64 MiB.
std::optional<store::format::SegmentHeader> first_segment(File& file, const std::function<bool()>& cancelled);

}  // namespace penstock::check
