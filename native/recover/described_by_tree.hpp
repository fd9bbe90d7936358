/// The description of a file whose copies are all lost, as far as HDF5's structures and the other segments say it.
#pragma once

#include "check/findings.hpp"
#include "check/structures/index_process.hpp"
#include "recover/candidates.hpp"

namespace penstock::recover {

/// Completes segments that have no description. A dataset has the number in the description that the records have which
/// name its chunks' addresses; where it has no chunk yet, the number that is left if only one is. What cannot be proved
/// becomes a warning among the findings. `malformed` where HDF5's structures are not whole, or do not show which
/// dataset a record means; `mismatch` where segments and structures are of two files; `unsupported` for a master, whose
/// frames are in other files.
Result<void> describe_by_tree(File& file, const check::Tree& tree, Segments& segments, check::Findings& findings);

/// As the store writes it into a file.
store::FileLayout layout_of(const store::format::Description& description);

}  // namespace penstock::recover
