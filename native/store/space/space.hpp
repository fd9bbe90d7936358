/// Who may write where: hands out stretches of one file, each once.
///
/// One counter, the end of the file, is advanced by extents; segments and HDF5's own metadata take
/// their space one after another from the extent, so that nothing leased lies unused in the middle.
/// Space below `end()` has been handed out, and the file is at least that long: `File::reserve`
/// comes before the counter moves.
///
/// All calls are safe from several threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/env.hpp"

namespace penstock::store {

struct SpaceOptions {
  std::uint64_t extent_bytes = 128 << 20;
  std::uint64_t alignment_bytes = 4096;  ///< of segments; a power of two
};

class Space {
 public:
  Space(std::shared_ptr<File> file, SpaceOptions options) : file_(std::move(file)), options_(options) {}

  /// Of a file that has `used_bytes` already: everything is taken from behind them, but the first
  /// `front_bytes` of metadata, which go to the file's start.
  Space(std::shared_ptr<File> file, SpaceOptions options, std::uint64_t used_bytes, std::uint64_t front_bytes);

  /// An aligned address with `bytes` behind it for a segment. `no_space` where the disk is full;
  /// a later call may succeed again.
  Result<std::uint64_t> take_segment(std::uint64_t bytes);
  /// Takes back a segment's space that was never written, for a later one.
  void give_back(std::uint64_t address, std::uint64_t bytes);

  /// An address, a multiple of 8, for HDF5's own structures. The first call gives 0. No block ends
  /// at `end()`: HDF5 would take the space behind it for free and grow the block by itself.
  Result<std::uint64_t> take_metadata(std::uint64_t bytes);

  /// The end of everything handed out.
  std::uint64_t end() const;

 private:
  struct Hole {
    std::uint64_t address;
    std::uint64_t bytes;
  };

  Result<std::uint64_t> take(std::uint64_t bytes, std::uint64_t alignment);
  Result<void> lease_extent(std::uint64_t bytes);
  Result<void> lease_metadata(std::uint64_t bytes, std::uint64_t least);
  Result<void> back_with_zeros(std::uint64_t address, std::uint64_t bytes);

  const std::shared_ptr<File> file_;
  const SpaceOptions options_;

  mutable std::mutex mutex_;
  // guarded by mutex_; metadata_next_ ≤ metadata_end_ ≤ next_ ≤ extent_end_
  std::uint64_t next_ = 0;
  std::uint64_t extent_end_ = 0;
  std::uint64_t metadata_next_ = 0;
  std::uint64_t metadata_end_ = 0;
  std::uint64_t metadata_leased_ = 0;
  std::uint64_t end_ = 0;
  std::vector<Hole> holes_;
  Hole kept_{0, 0};  ///< for metadata, once the disk is full
};

}  // namespace penstock::store
