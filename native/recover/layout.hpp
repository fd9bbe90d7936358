/// What a recovery makes of the tree that the description has, and what it cannot bring back.
#pragma once

#include "check/findings.hpp"
#include "check/structures/index_process.hpp"
#include "recover/candidates.hpp"
#include "store/store.hpp"

namespace penstock::recover {

/// The tree for structures that are made anew, as its recorder made it; of a file of before, whose description has no
/// tree, enough for readers to find the frames. `master` is of a member, otherwise null. What cannot be brought back
/// becomes an error among the findings.
store::FileLayout rebuilt_layout(File& file, const Segments& segments, const Segments* master,
                                 check::Findings& findings);

/// What the description has and the tree of an unfinished file lacks, to be made in it.
void add_missing_parts(File& file, const check::Tree& tree, const Segments& segments, check::Findings& findings,
                       store::FinalValues& values);

/// Reads the data of a value of the description, if they lie outside it.
Result<void> load_value(File& file, store::ValueNode& node);

/// The text of a small value of the description; null if there is none at the path.
const std::string* described_text(const store::format::Description& description, std::string_view path);

}  // namespace penstock::recover
