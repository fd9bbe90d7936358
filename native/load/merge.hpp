/// The documents of a job's ranks as one.
#pragma once

#include <vector>

#include "base/fields.hpp"

namespace penstock::load {

/// `parts`: {document, rank, problem} of each rank, in the order of ranks, null where there is none; the first one that
/// there is gives what all have in common. Counts are added, times are those of all ranks, and frames have the order in
/// which they were due. An object without "document" where no rank has one.
Json merge(const std::vector<Json>& parts);

}  // namespace penstock::load
