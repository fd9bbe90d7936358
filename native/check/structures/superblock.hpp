/// The few fields of HDF5's superblock that show how a file was left, read without HDF5.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/files/env.hpp"

namespace penstock::check {

struct Superblock {
  std::uint64_t address = 0;  ///< where it stands: 0 or a power of two from 512
  unsigned version = 0;
  bool open_for_writing = false;  ///< marked so; also after a crash
  bool swmr = false;              ///< readers may open it all the same
  bool rebuilding = false;  ///< a recovery ended while it rebuilt the structures: unfinished_rebuild is in its place
  std::uint64_t end_of_file = ~std::uint64_t{0};  ///< as recorded; all ones if unknown
};

/// What a recovery writes in place of the superblock, and over no more than that, while it rebuilds the structures.
inline constexpr std::string_view unfinished_rebuild = "penstock recover is not finished";

/// Nothing where the file has no HDF5 signature. Does not verify the superblock's own checksum.
Result<std::optional<Superblock>> read_superblock(File& file);

}  // namespace penstock::check
