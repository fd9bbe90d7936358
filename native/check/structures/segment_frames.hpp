/// The frames that the segments of a file hold, whatever HDF5's index says: those that a recovery makes readable.
#pragma once

#include <cstdint>
#include <vector>

#include "base/mutex.hpp"
#include "store/format/segment.hpp"
#include "store/layout.hpp"

namespace penstock::check {

/// All calls are safe from several threads. Memory: 24 bytes for each chunk.
class SegmentFrames {
 public:
  /// Of a record in the segments: `dataset` is its position in the description.
  void add(const store::format::ChunkRecord& record) {
    add(record.dataset, record.chunk_index, record.frame, record.size);
  }
  void add(std::uint16_t dataset, std::uint64_t chunk, std::uint32_t frames, std::uint32_t bytes);
  /// Those of a member, whose row 0 is frame `first_frame` of the series.
  void take(const SegmentFrames& member, const std::vector<store::ChunkedNode>& datasets, std::uint64_t first_frame);

  struct Counts {
    std::vector<std::uint64_t> whole;  ///< frames with all of their chunks in every dataset, rising; in a scan places
    std::uint64_t bytes = 0;           ///< stored, of all chunks
  };
  Counts count(const std::vector<store::ChunkedNode>& datasets) const;
  /// With any of their chunks, rising; of datasets whose chunks have one frame at most.
  std::vector<std::uint64_t> begun(const std::vector<store::ChunkedNode>& datasets) const;

 private:
  struct Chunk {
    std::uint64_t number = 0;
    std::uint32_t frames = 0;  ///< of a chunk of several: bit i is the ith
    std::uint32_t bytes = 0;
    std::uint16_t dataset = 0;
  };
  std::vector<Chunk> sorted() const;

  mutable Mutex mutex_;
  std::vector<Chunk> chunks_ PEN_GUARDED_BY(mutex_);
};

}  // namespace penstock::check
