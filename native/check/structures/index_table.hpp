/// The chunks that an index names, and which of them a segment vouches for.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "store/hdf5/reading/reader.hpp"

namespace penstock::check {

/// Constant after construction but for the marks, which threads may set at once.
class IndexTable {
 public:
  /// `chunks` by rising number.
  explicit IndexTable(const std::vector<store::IndexedChunk>& chunks)
      : chunks_(chunks), vouched_(std::make_unique<std::atomic<std::uint8_t>[]>(chunks.size())) {}

  const std::vector<store::IndexedChunk>& chunks() const { return chunks_; }
  /// Null where the index names no chunk.
  const store::IndexedChunk* find(std::uint64_t number) const;
  /// Notes that a record says the same; false where one did before.
  bool vouch(const store::IndexedChunk& chunk) {
    return vouched_[position_of(chunk)].exchange(1, std::memory_order_relaxed) == 0;
  }
  std::size_t position_of(const store::IndexedChunk& chunk) const {
    return static_cast<std::size_t>(&chunk - chunks_.data());
  }
  bool vouched(std::size_t position) const { return vouched_[position].load(std::memory_order_relaxed) != 0; }

 private:
  const std::vector<store::IndexedChunk>& chunks_;
  std::unique_ptr<std::atomic<std::uint8_t>[]> vouched_;
};

}  // namespace penstock::check
