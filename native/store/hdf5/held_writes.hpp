/// Writes that wait in memory, in the order in which they came, and as a reader sees them. A block that is written
/// again is held twice: readers of the file depend on the order of all writes, so that neither of the two can be left
/// out.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "store/recovery/journal.hpp"

namespace penstock::store::hdf5 {

class HeldWrites {
 public:
  HeldWrites() = default;
  HeldWrites(const HeldWrites&) = delete;
  HeldWrites& operator=(const HeldWrites&) = delete;
  ~HeldWrites() { clear(); }

  /// Memory of all that is held, of all files in this process.
  static std::uint64_t all_bytes();

  /// With `joined` a write that goes on where the last one ended becomes a part of it.
  void add(std::uint64_t address, Bytes bytes, bool joined = true);
  /// What is held of these bytes of the file replaces them; of two writes the later one counts.
  void lay_over(MutableBytes bytes, std::uint64_t address) const;
  bool overlap(std::uint64_t address, std::uint64_t size) const;
  const std::deque<Change>& in_order() const { return writes_; }
  /// What they come to: rising stretches that do not touch, address and size.
  std::map<std::uint64_t, std::uint64_t> stretches() const;
  /// Memory: a write takes more than its bytes.
  std::uint64_t bytes() const { return bytes_; }
  bool empty() const { return writes_.empty(); }
  void clear();

 private:
  void count(std::uint64_t bytes);
  void note_pages(std::size_t number, std::uint64_t from, std::uint64_t to);

  std::deque<Change> writes_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> pages_;  ///< the writes that reach into each page, by age
  std::uint64_t bytes_ = 0;
};

/// Parts of the file that nothing refers to which is in place.
class FreshSpace {
 public:
  void add(std::uint64_t address, std::uint64_t size);
  void clear() { stretches_.clear(); }

  struct Part {
    std::uint64_t size = 0;
    bool fresh = false;
  };
  /// How many of `size` bytes from `address` on are alike, and how.
  Part part_at(std::uint64_t address, std::uint64_t size) const;

 private:
  std::map<std::uint64_t, std::uint64_t> stretches_;  ///< address and end
};

}  // namespace penstock::store::hdf5
