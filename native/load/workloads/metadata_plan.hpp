/// Names instead of bytes: folders and files that are made, found, read, renamed and removed.
#pragma once

#include <cstdint>

#include "base/archive.hpp"

namespace penstock::load {

/// A tree of folders, `depth` levels below its top with `branch` folders in each, and items in every folder of it.
struct MetadataPlan {
  static constexpr const char* kind = "metadata";
  unsigned threads = 1;     ///< of each rank; those of all ranks are numbered one after the other
  std::uint64_t items = 0;  ///< folders, and as many files, that a thread makes in each folder of its tree
  unsigned depth = 0;
  unsigned branch = 1;
  bool shared = false;  ///< one tree for all threads instead of one each
  /// Threads find, read, rename and remove what the thread this many positions further made: with the threads of a
  /// rank, or more, that of another rank.
  unsigned shift = 0;
  unsigned iterations = 1;
  bool folders = true;  ///< items that are folders
  bool files = true;    ///< items that are files
  std::uint64_t file_bytes = 0;
  bool rename = false;
  bool remove = true;  ///< else items and trees stay

  /// Of one tree; its top is one of them.
  std::uint64_t tree_folders() const;
  std::uint64_t threads_of(unsigned ranks) const { return std::uint64_t{ranks} * threads; }
  std::uint64_t trees(unsigned ranks) const { return shared ? 1 : threads_of(ranks); }
  std::uint64_t files_made(unsigned ranks) const {
    return files ? iterations * tree_folders() * threads_of(ranks) * items : 0;
  }
  /// All that a run makes: tree folders, and items.
  std::uint64_t names_made(unsigned ranks) const;
  /// An error that names the field if the number of ranks is too large or too small.
  Result<void> check(unsigned ranks) const;
};

void fields(Archive& archive, MetadataPlan& plan);

}  // namespace penstock::load
