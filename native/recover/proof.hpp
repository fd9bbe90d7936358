/// Whether the chunks that segments name are in the file, byte for byte.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "recover/candidates.hpp"

namespace penstock::recover {

enum class Proof : std::uint8_t {
  not_asked,
  whole,
  damaged,    ///< its bytes have another checksum
  cut_short,  ///< … because its recorder died while it wrote them, or the file ends before
  unreadable  ///< the storage gives an error
};

struct ProofOptions {
  unsigned threads = 4;  ///< number of concurrent reads
  std::function<bool()> cancelled;
  std::function<void(std::uint64_t bytes)> advance;  ///< called by several threads
};

/// Reads those of `candidates` that `wanted` names by position, neighbours together, and compares their checksums.
/// One result for each candidate. `cancelled` in between. Memory: 8 MiB a thread.
Result<std::vector<Proof>> prove(File& file, std::span<const Candidate> candidates, std::vector<std::size_t> wanted,
                                 const ProofOptions& options);

}  // namespace penstock::recover
