/// Who may write where: hands out stretches of one file, each once.
///
/// One counter, the end of the file, is advanced by extents; segments and HDF5's own metadata take
/// their space one after another from the extent. Where nobody else advances the counter, extents follow
/// one another and nothing leased lies unused in the middle. What `end()` covers has been handed out, and
/// the file is at least that long: `File::reserve` comes before an address is given.
///
/// All calls are safe from several threads at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/files/env.hpp"
#include "base/mutex.hpp"

namespace penstock::store {

struct SpaceOptions {
  std::uint64_t extent_bytes = 128 << 20;
  std::uint64_t alignment_bytes = 4096;  ///< of segments; a power of two
};

/// Where a file's leased part ends: the one number that all who write into the file share.
class EndOfFile {
 public:
  virtual ~EndOfFile() = default;
  /// Moves the end on by `bytes` and gives where it was. Safe from several threads.
  virtual Result<std::uint64_t> advance(std::uint64_t bytes) = 0;
};

class Space {
 public:
  /// `shared_end` is of a file that other processes write to as well; null where this one is alone.
  Space(std::shared_ptr<File> file, SpaceOptions options, std::shared_ptr<EndOfFile> shared_end = nullptr);

  /// Of a file that has `used_bytes` already: everything is taken from behind them, but the first
  /// `front_bytes` of metadata, which go to the file's start. A `shared_end` stands behind them too.
  Space(std::shared_ptr<File> file, SpaceOptions options, std::uint64_t used_bytes, std::uint64_t front_bytes,
        std::shared_ptr<EndOfFile> shared_end = nullptr);

  /// An aligned address with `bytes` behind it for a segment. `no_space` where the disk is full;
  /// a later call may succeed again.
  Result<std::uint64_t> take_segment(std::uint64_t bytes);
  /// Takes back a segment's space that was never written, for a later one.
  void give_back(std::uint64_t address, std::uint64_t bytes);

  /// An address, a multiple of 8, for HDF5's own structures. The first call gives 0. No block ends
  /// at `end()`: HDF5 would take the space behind it for free and grow the block by itself.
  Result<std::uint64_t> take_metadata(std::uint64_t bytes);
  /// The same where the disk is full: nothing is reserved, so that writes there may fail until there is room, and
  /// the file may end before it until they have been done.
  Result<std::uint64_t> take_metadata_unbacked(std::uint64_t bytes);

  /// Keeps the file's first bytes for HDF5's superblock, of a file that is empty: before anything else is taken.
  Result<void> lease_front();

  /// The end of everything handed out, and of what was covered.
  std::uint64_t end() const;
  /// Somebody else wrote up to `end`. Does not wait: a lease that is on its way may need the caller.
  void cover(std::uint64_t end);

  struct Extent {
    std::uint64_t address;
    std::uint64_t bytes;
  };
  /// All that was leased for HDF5's own structures; what of it lies beyond end() was never handed out.
  std::vector<Extent> metadata_extents() const;

  /// Gives back to the file system what was reserved and not handed out; whether the file ends there is not
  /// looked at. Nothing can be taken from it any more.
  void release_unused();

 private:
  struct Hole {
    std::uint64_t address;
    std::uint64_t bytes;
  };

  Result<std::uint64_t> take(std::uint64_t bytes, std::uint64_t alignment) PEN_REQUIRES(mutex_);
  Result<void> lease_extent(std::uint64_t bytes, std::uint64_t alignment) PEN_REQUIRES(mutex_);
  Result<void> reserve_to(std::uint64_t end) PEN_REQUIRES(mutex_);
  std::uint64_t hand_out_metadata(std::uint64_t bytes) PEN_REQUIRES(mutex_);
  bool has_metadata(std::uint64_t bytes) PEN_REQUIRES(mutex_);
  void use_for_metadata(Hole hole) PEN_REQUIRES(mutex_);
  Result<void> lease_metadata(std::uint64_t bytes, std::uint64_t least) PEN_REQUIRES(mutex_);
  Result<void> back_with_zeros(std::uint64_t address, std::uint64_t bytes) PEN_REQUIRES(mutex_);

  const std::shared_ptr<File> file_;
  const SpaceOptions options_;
  const std::shared_ptr<EndOfFile> end_of_file_;
  std::atomic<std::uint64_t> covered_{0};

  mutable Mutex mutex_;
  // next_ ≤ extent_end_, reserved_end_ ≤ extent_end_, metadata_next_ ≤ metadata_end_
  std::uint64_t next_ PEN_GUARDED_BY(mutex_) = 0;
  std::uint64_t reserved_end_ PEN_GUARDED_BY(mutex_) = 0;  ///< of the extent, what the file system has put by
  std::uint64_t extent_end_ PEN_GUARDED_BY(mutex_) = 0;
  std::uint64_t metadata_next_ PEN_GUARDED_BY(mutex_) = 0;
  std::uint64_t metadata_end_ PEN_GUARDED_BY(mutex_) = 0;
  std::uint64_t metadata_leased_ PEN_GUARDED_BY(mutex_) = 0;
  std::uint64_t end_ PEN_GUARDED_BY(mutex_) = 0;
  std::vector<Hole> holes_ PEN_GUARDED_BY(mutex_);
  std::vector<Extent> metadata_extents_ PEN_GUARDED_BY(mutex_);
  Hole kept_ PEN_GUARDED_BY(mutex_){0, 0};  ///< for metadata, once the disk is full
  Hole rest_ PEN_GUARDED_BY(mutex_){0, 0};  ///< of a lease of metadata, behind the journal's pages
};

}  // namespace penstock::store
