/// The seal of a closed file: checksums of everything in it that no segment's own checksums guard.
/// HDF5's structures, that is, with all texts, columns and small values.
///
/// It is the file's last segment, behind the end that HDF5 knows: a program that opens the file for writing through
/// HDF5 cuts it off, or writes over it, so that what is changed on purpose is not taken for damage.
#pragma once

#include <optional>
#include <vector>

#include "base/files/env.hpp"
#include "store/format/segment.hpp"
#include "store/layout.hpp"

namespace penstock::store {

struct Extent {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;

  std::uint64_t end() const { return address + bytes; }
};

/// What of [0, end) is in none of `guarded`, which may overlap. Holes of the file, which read as zeros, are left out.
std::vector<Extent> outside(File& file, std::vector<Extent> guarded, std::uint64_t end);

/// The places of slots where any may be written.
std::vector<Extent> fixed_extents(File& file, const std::vector<ChunkedNode>& datasets, std::uint64_t end);

/// What of a segment needs no seal. Whoever looks for segments passes over one whose header is damaged: of chunks the
/// index misses it, and the description knows its large values. Nobody misses another one.
Extent guarded_part(const format::SegmentHeader& header);

/// Reads `extents` back, and writes their checksums behind `end`, where the file ends. Extents may overlap, and reach
/// beyond the end. Sync the file before: a loss of power may leave the seal and not what it covers.
Result<void> write_seal(File& file, const format::FileId& id, std::vector<Extent> extents, std::uint64_t end);

/// The seal that ends the file, if one does.
Result<std::optional<format::SegmentHeader>> find_seal(File& file, const format::FileId& id);
/// Whether it has one, and that is whole.
Result<bool> is_sealed(File& file, const format::FileId& id);

/// What a seal says that is cut off or damaged. Memory: the seal.
struct LeftOfSeal {
  std::uint64_t agree = 0;   ///< checksums that can be read, and are those of the file
  std::uint64_t differ = 0;  ///< others: of a part that changed, or changed themselves
};
Result<LeftOfSeal> compare_with_left_seal(File& file, const format::SegmentHeader& seal);

/// A file that is going to be changed.
struct FileBefore {
  std::uint64_t end = 0;                     ///< of the file, and of segments that were cut off with its end
  std::vector<Extent> sealed;                ///< what a seal covers
  std::vector<format::SegmentHeader> seals;  ///< also what is left of one
};
Result<FileBefore> look_before(File& file, const format::FileId& id);
/// The file is going to be changed: from here on it has none, also after a loss of power.
Result<void> remove_seals(File& file, std::span<const format::SegmentHeader> seals);

}  // namespace penstock::store
