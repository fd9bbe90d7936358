/// Bytes that storage can neither compress nor find again, made cheaply, and known to whoever reads them.
///
/// A ground of random bytes is laid out once, of 16 MiB or a block, whichever is more. The block at a place of a file
/// is a piece of it, and the next one in the file the next piece, so that nothing repeats within the ground's size:
/// farther than any storage looks back that compresses. Before each write the sectors of 512 bytes in it are stamped,
/// where they lie: their first 8 bytes become random numbers of the seed, the file and the place in it. So no two
/// sectors of a run are equal, and a write costs an eighth of the cache lines instead of all bytes. What is not
/// defeated is storage that looks for blocks that are merely similar, and stores how they differ.
///
/// The ground of compressible content has zeros behind the first random bytes of each page; that of a file has the
/// file's first bytes, again and again where it is shorter. Both are stamped like any other, so they are as unlike each
/// other, and as surely verified.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "load/plan.hpp"

namespace penstock::load {

constexpr std::size_t sector_bytes = 512;
/// zstd looks back over 8 MiB at its level 19, file systems over a record of at most 16 MiB.
constexpr std::uint64_t ground_bytes_least = std::uint64_t{16} << 20;

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

/// Returns an error if blocks of this size together would take more than half of this machine's memory: they are
/// touched, and the kernel gives what it does not have.
Result<void> check_memory(std::uint64_t bytes);

/// Of a ground for blocks of one size, `blocks` of which there are at most.
std::uint64_t ground_bytes(ContentKind kind, std::uint64_t block_bytes, std::uint64_t blocks);

/// Number of random bytes in each page of compressible content, and the rest are zeros: with what the stamps of
/// sectors cost, LZ4, zstd and deflate make of it what the ratio says.
std::size_t random_bytes_of_page(double ratio);

/// Safe from several threads, once it is open.
class Content {
 public:
  /// Of blocks that begin at multiples of their size. Whoever writes and whoever reads say the same.
  Content(ContentKind kind, std::uint64_t seed, std::uint64_t block_bytes, std::uint64_t blocks)
      : kind_(kind), seed_(seed), block_bytes_(block_bytes), ground_(load::ground_bytes(kind, block_bytes, blocks)) {}

  /// That of a plan, of all its blocks.
  Content(const LoadPlan& plan, std::uint64_t block_bytes, std::uint64_t blocks);

  /// Reads what it takes of the user's file; before anything is laid.
  Result<void> open();
  std::uint64_t ground_bytes() const { return ground_; }
  /// What all grounds of this size have in common. Also of a block that lies alone.
  void lay(MutableBytes ground) const;
  /// Where in the ground the block at `offset` of a file lies; the file is named by its number.
  std::uint64_t place(std::uint64_t file, std::uint64_t offset) const;
  /// Makes a piece of the ground, which is that of its place, the block at `offset` of a file.
  void stamp(MutableBytes block, std::uint64_t file, std::uint64_t offset) const;
  /// Both, in a ground that was laid.
  MutableBytes block(MutableBytes ground, std::uint64_t file, std::uint64_t offset) const;
  /// Whether these bytes are that block. `ground` was laid; stamps in it do not matter.
  bool is_block(Bytes bytes, Bytes ground, std::uint64_t file, std::uint64_t offset) const;

 private:
  std::uint64_t stamps_of(std::uint64_t file) const;
  void lay_random(MutableBytes ground, std::size_t of_each_page) const;
  void lay_file(MutableBytes ground) const;

  ContentKind kind_;
  std::uint64_t seed_;
  std::uint64_t block_bytes_;
  std::uint64_t ground_;
  double ratio_ = 1;
  std::string path_;
  std::vector<std::byte> sample_;  ///< of that file
};

/// Where two blocks of one size begin to differ.
std::optional<std::size_t> first_difference(Bytes one, Bytes other);

}  // namespace penstock::load
