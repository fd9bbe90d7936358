/// Whether what HDF5 can read of a file is enough to complete it.
#pragma once

#include <string>

#include "check/findings.hpp"
#include "check/structures/index_process.hpp"
#include "recover/candidates.hpp"

namespace penstock::recover {

/// The first dataset or column of the description that is not there, or not as described; empty if there is none.
std::string missing_part(const check::Tree& tree, const Segments& segments);

/// Whether every one of them is there and as described, and HDF5 could read everything.
bool is_usable(const check::Tree& tree, const Segments& segments);

/// Which bytes that the tree names lie beyond the end of the file, in words; empty if all are there.
std::string beyond_end(const check::Tree& tree, std::uint64_t file_bytes);

/// Whether some of them are chunks. A chunk is written before the index names it, so a recorder's death does not leave
/// this, but an incomplete copy or a loss of power.
bool names_chunks_beyond_end(const check::Tree& tree, std::uint64_t file_bytes);

/// Of a tree that is not whole, and a file that may be: masks and geometry are not to be given away.
Error undecided(const check::Tree& tree, const std::string& file);

/// Of a finished file that HDF5 can read, and that lacks a part. It is not rebuilt unasked: what other programs added
/// to it would be lost.
Error changed_by_another(const std::string& missing, const std::string& file);

/// Of a file without the mark that it is open, which it has until it is complete. A program that removed the mark may
/// have opened the file for writing.
void report_removed_mark(const check::Tree& tree, const Segments& segments, const std::string& file,
                         check::Findings& findings);

/// Of structures that name another id than the segments have, which only a rebuild corrects.
void report_damaged_id(const check::Tree& tree, const Segments& segments, check::Findings& findings);

}  // namespace penstock::recover
