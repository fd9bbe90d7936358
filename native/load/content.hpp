/// Bytes that storage can neither compress nor find again, made cheaply, and known to whoever reads them.
///
/// A block is laid out once with random bytes of the seed. Before each write its sectors of 512 bytes are stamped:
/// their first 8 bytes become random numbers of the seed, the file and the place in it. So no two sectors of a run are
/// equal, and a block costs an eighth of its cache lines instead of all its bytes. What is not defeated is storage that
/// looks for blocks that are merely similar, and stores how they differ.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "load/plan.hpp"

namespace penstock::load {

constexpr std::size_t sector_bytes = 512;

/// Page-aligned memory that its owner alone uses.
class Memory {
 public:
  /// `bytes` is rounded up to whole pages.
  static Result<Memory> allocate(std::size_t bytes);
  MutableBytes bytes() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  Memory(std::byte* data, std::size_t size) : data_(data), size_(size) {}

  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_;
};

/// An error where blocks of so many bytes together would take more than half of this machine's memory: they are
/// touched, and the kernel gives what it does not have.
Result<void> check_memory(std::uint64_t bytes);

/// Safe from several threads.
class Content {
 public:
  Content(ContentKind kind, std::uint64_t seed) : kind_(kind), seed_(seed) {}

  /// What all blocks of this size have in common.
  void lay(MutableBytes block) const;
  /// Makes a block that was laid the one at `offset` of a file, which is named by its number.
  void stamp(MutableBytes block, std::uint64_t file, std::uint64_t offset) const;

 private:
  ContentKind kind_;
  std::uint64_t seed_;
};

/// Where two blocks of one size begin to differ.
std::optional<std::size_t> first_difference(Bytes one, Bytes other);

}  // namespace penstock::load
