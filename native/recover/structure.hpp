/// Whether what HDF5 can read of a file is enough to complete it.
#pragma once

#include <string>

#include "check/structures/index_process.hpp"
#include "recover/candidates.hpp"

namespace penstock::recover {

/// Whether every dataset and column that the description names is there, readable and as described.
bool is_usable(const check::Tree& tree, const Segments& segments);

/// Which bytes that the tree names lie beyond the end of the file, in words; empty if all are there.
std::string beyond_end(const check::Tree& tree, std::uint64_t file_bytes);

/// Whether some of them are chunks. A chunk is written before the index names it, so a recorder's death does not leave
/// this, but an incomplete copy or a loss of power.
bool names_chunks_beyond_end(const check::Tree& tree, std::uint64_t file_bytes);

/// Of a tree that is not whole, and a file that may be: masks and geometry are not to be given away.
Error undecided(const check::Tree& tree, const std::string& file);

}  // namespace penstock::recover
