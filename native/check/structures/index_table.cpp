#include "check/structures/index_table.hpp"

#include <algorithm>

namespace penstock::check {

const store::IndexedChunk* IndexTable::find(std::uint64_t number) const {
  // Without gaps before it, a chunk stands at its own number.
  if (number < chunks_.size() && chunks_[number].number == number) return &chunks_[number];
  const auto found = std::lower_bound(chunks_.begin(), chunks_.end(), number,
                                      [](const auto& chunk, std::uint64_t wanted) { return chunk.number < wanted; });
  return found != chunks_.end() && found->number == number ? &*found : nullptr;
}

}  // namespace penstock::check
