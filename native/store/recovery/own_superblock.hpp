/// HDF5's superblock as Penstock's files have it: version 3 at the start of the file, with a checksum.
#pragma once

#include <cstdint>
#include <optional>

#include "base/files/env.hpp"

namespace penstock::store {

constexpr std::uint64_t own_superblock_bytes = 48;  // with addresses of 8 bytes

struct OwnSuperblock {
  bool open_for_writing = false;  ///< marked so. It is the last that is written when a file is closed, and the first
                                  ///< when one is opened, by whatever program
  std::uint64_t end_of_file = 0;  ///< where HDF5's structures end
};

/// Nothing where it is not whole.
std::optional<OwnSuperblock> decode_own_superblock(Bytes block);
Result<std::optional<OwnSuperblock>> read_own_superblock(File& file);
/// Whether another process may write this file though lock() succeeded: its file system has no locks, and it is marked
/// as open for writing.
Result<bool> may_be_in_use(File& file);

}  // namespace penstock::store
