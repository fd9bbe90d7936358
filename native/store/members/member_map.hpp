/// Which rank's member holds each frame of a master file, and how few stretches say so.
///
/// Knows no HDF5 and performs no I/O. One thread at a time. Memory: two bytes a frame and dataset, in pages, so that a
/// frame with an absurd number costs no more than a page of 8 KiB; when 512 MiB are full of such, no more are taken.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "store/layout.hpp"

namespace penstock::store {

/// Frames `first`, `first + stride`, …, `count` of them, lie in a member at rows that differ as they do.
struct MemberRun {
  std::uint64_t first = 0;
  std::uint64_t stride = 1;
  std::uint64_t count = 0;
  std::uint64_t member = 0;
  std::uint64_t row = 0;  ///< of `first`

  bool operator==(const MemberRun&) const = default;
};

class MemberMap {
 public:
  /// So many pages may be nearly empty.
  MemberMap(std::size_t datasets, Members members, std::uint64_t sparse_pages_max = 65536);

  /// Whether the chunk was not there yet, in a dataset that is; the first member that has one keeps it. `too_large`
  /// where the frames lie too far apart.
  Result<bool> note(std::size_t dataset, std::uint64_t frame, unsigned rank);

  /// By rising first frame of each stretch. Frames that no member holds may be within a run: the row they lead to is
  /// empty. No run ends beyond the last row that its member has.
  std::vector<MemberRun> runs(std::size_t dataset) const;
  /// Numbers of the members that hold chunks, rising.
  std::vector<std::uint64_t> members() const;
  /// One past the last frame that any dataset has.
  std::uint64_t end() const;

 private:
  static constexpr std::uint16_t nobody = 0xFFFF;
  static constexpr std::uint64_t page_frames = 4096;
  /// Number of chunks that pages beyond the sparse ones must have, per page, or their memory would outgrow the file's
  /// records.
  static constexpr std::uint64_t chunks_a_page_min = 64;
  using Owners = std::vector<std::uint16_t>;  ///< ranks
  /// Owners of the frames from `base` on, without a page between them that has none.
  struct Piece {
    std::uint64_t base = 0;
    Owners owners;
  };
  /// Positions in a piece.
  struct Stretch {
    std::uint64_t end;
    std::uint64_t period;
  };

  std::vector<Piece> pieces(std::size_t dataset) const;
  std::uint64_t block_end(std::uint64_t frame) const;
  Stretch longest(const Piece& piece, std::uint64_t first) const;
  void add_runs(const Piece& piece, std::uint64_t first, const Stretch& stretch, std::vector<MemberRun>& runs) const;

  const Members members_;
  const std::uint64_t sparse_pages_max_;
  std::vector<std::map<std::uint64_t, Owners>> pages_;  ///< by dataset and number of the page
  std::uint64_t page_count_ = 0;
  std::uint64_t chunk_count_ = 0;
};

}  // namespace penstock::store
