/// The ChunkWriter of a store: lays chunks one after another into segments.
#pragma once

#include <atomic>

#include "store/pipeline.hpp"

namespace penstock::store {

/// What the writers of a store share; lives until the last of them is gone.
struct WriterShared {
  WriterShared(const StoreOptions& options_of_store, const FileLayout& layout, const Share& share);

  const StoreOptions options;
  BufferPool staging;
  /// By dataset: the size of a chunk that no filter changes, and whether there are filters.
  struct Dataset {
    std::string path;
    std::uint64_t raw_bytes = 0;
    std::size_t filters = 0;
    std::uint64_t chunk_bytes_max = 0;  ///< what its place has room for; 0: any
    std::uint64_t chunks_max = 0;       ///< for which there are places; 0: any
    std::uint64_t frames_a_chunk = 1;
  };
  std::vector<Dataset> datasets;
  bool one_chunk_a_segment = false;       ///< because each has a place of its own
  std::atomic<std::uint32_t> writers{0};  ///< the next one's number, unlike those of other ranks
  std::unique_ptr<Pipeline> pipeline;     ///< set once, before the first writer
};

std::unique_ptr<ChunkWriter> make_chunk_writer(std::shared_ptr<WriterShared> shared);

}  // namespace penstock::store
