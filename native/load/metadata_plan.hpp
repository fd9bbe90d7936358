/// Names instead of bytes: folders and files that are made, found, read, renamed and removed.
#pragma once

#include <cstdint>

#include "base/fields.hpp"
#include "base/result.hpp"

namespace penstock::load {

/// A tree of folders, `depth` levels below its top with `branch` folders in each, and items in every folder of it.
struct MetadataPlan {
  unsigned threads = 1;
  std::uint64_t items = 0;  ///< folders, and as many files, that a thread makes in each folder of its tree
  unsigned depth = 0;
  unsigned branch = 1;
  bool shared = false;  ///< one tree for all threads instead of one each
  unsigned shift = 0;   ///< threads find, read, rename and remove what the thread so many further made
  unsigned iterations = 1;
  bool folders = true;  ///< items that are folders
  bool files = true;    ///< items that are files
  std::uint64_t file_bytes = 0;
  bool rename = false;
  bool remove = true;  ///< else items and trees stay

  /// Of one tree; its top is one of them.
  std::uint64_t tree_folders() const;
  unsigned trees() const { return shared ? 1 : threads; }
  std::uint64_t files_made() const { return files ? iterations * tree_folders() * threads * items : 0; }
  /// All that a run makes: tree folders, and items.
  std::uint64_t names_made() const;

  static Result<MetadataPlan> read(Fields& fields);
  Json to_json() const;
};

}  // namespace penstock::load
