/// A segment on its way from a ChunkWriter to storage and into the index. Plain data; belongs to
/// whoever holds it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "frame/pool.hpp"
#include "store/format/segment.hpp"
#include "store/store.hpp"

namespace penstock::store {

/// What comes back with a chunk and is not in its record.
struct Companion {
  std::uint64_t cookie = 0;
  std::int64_t encoded_ns = 0;
};

/// Chunks that were put into a segment, in memory that the segment keeps alive.
struct FilledSegment {
  /// The chunks with their padding, in the order of the file; each `iov_base` lies in `staging` or
  /// with one of `owners`.
  std::vector<iovec> pieces;
  std::uint64_t data_bytes = 0;  ///< sum of the pieces

  std::vector<format::ChunkRecord> records;  ///< offsets count from the first piece until it is placed
  std::vector<Companion> companions;         ///< one a record
  std::vector<std::byte> rows;               ///< values of the frames

  /// A chunk that was gathered, whose checksum is still to be made.
  struct Unsummed {
    std::size_t record;
    const std::byte* data;
  };
  std::vector<Unsummed> unsummed;

  BufferRef staging;
  std::vector<std::shared_ptr<const void>> owners;

  std::uint32_t writer = 0;
  std::int64_t oldest_ns = 0;  ///< monotonic, of the first chunk
};

/// What the index needs of a segment that was written, or what is reported of one that was not.
struct WrittenSegment {
  std::vector<PlacedChunk> chunks;
  std::optional<Error> failure;
};

}  // namespace penstock::store
