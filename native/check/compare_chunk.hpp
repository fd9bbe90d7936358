/// Compares an expanded chunk with the frames that it covers.
#pragma once

#include <vector>

#include "check/findings.hpp"
#include "check/reference.hpp"
#include "check/subject.hpp"

namespace penstock::check {

/// Memory of one thread.
struct CompareScratch {
  std::vector<std::byte> frame;
};

/// Compares chunk `number` of `subject` (prepared for comparison), expanded to `raw`; marks the
/// frames that it covers and reports those that differ. Of a chunk with several frames `there` says which of them it
/// holds (bit i is the ith, up to 32; the others count as held). Fails where the reference does.
Result<void> compare_with_reference(Subject& subject, std::uint64_t number, std::uint32_t there, Bytes raw,
                                    const Reference& reference, CompareScratch& scratch, Findings& findings);

}  // namespace penstock::check
