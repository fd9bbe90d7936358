/// Compares an expanded chunk with the frames that it covers.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "check/compare/reference.hpp"
#include "check/findings.hpp"
#include "check/subject.hpp"

namespace penstock::check {

/// Expected frames, of one thread: a frame that is cut into chunks is asked for again with the next of them, one in
/// chunks of several after all others of the chunk. The latest are kept, of `kept_bytes_max` together, one at least.
class CompareScratch {
 public:
  Result<Bytes> frame(const Reference& reference, std::uint64_t number);

 private:
  static constexpr std::uint64_t kept_bytes_max = std::uint64_t{256} << 20;
  std::map<std::uint64_t, std::vector<std::byte>> frames_;
  std::deque<std::uint64_t> order_;
  std::uint64_t bytes_ = 0;
};

/// Compares chunk `number` of `subject` (prepared for comparison), expanded to `raw`; marks the
/// frames that it covers and reports those that differ. Of a chunk with several frames `there` says which of them it
/// holds (bit i is the ith, up to 32; the others count as held). Fails where the reference does.
Result<void> compare_with_reference(Subject& subject, std::uint64_t number, std::uint32_t there, Bytes raw,
                                    const Reference& reference, CompareScratch& scratch, Findings& findings);

}  // namespace penstock::check
