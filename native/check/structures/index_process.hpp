/// Reads a file's HDF5 tree in a process of its own.
///
/// HDF5 may crash, hang or ask for absurd memory when the metadata of a file is damaged. Here that
/// ends a child process, and what the child had reported by then is kept.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/env.hpp"
#include "base/result.hpp"
#include "store/hdf5/reading/reader.hpp"

namespace penstock::check {

struct TreeGroup {
  std::string path;
  std::vector<store::Attribute> attributes;
};

struct TreeDataset {
  store::DatasetInfo info;
  std::vector<store::IndexedChunk> chunks;  ///< by rising number
  std::optional<store::Value> value;
};

struct Unreadable {
  std::string path;
  std::string why;
};

struct Tree {
  std::vector<TreeGroup> groups;
  std::vector<TreeDataset> datasets;
  std::vector<Unreadable> unreadable;
  /// Why the tree ends here: HDF5 did not open the file, crashed, or hung. Empty when it is complete.
  std::string failure;
  /// What could not be read may be whole all the same: the storage failed or hung, a limit ended the reading, or the
  /// reading process was killed.
  bool undecided = false;

  /// By any of its paths; null if there is none.
  const TreeDataset* find(std::string_view path) const;
  /// An attribute of the root group; null if there is none.
  const store::Value* root_attribute(std::string_view name) const;
};

struct IndexProcessOptions {
  store::ReadTreeOptions read;
  /// The child is ended after this many seconds without progress.
  std::chrono::milliseconds stall{120'000};
  std::function<bool()> cancelled;
};

/// A tree that is being read, while the caller does something else. Given up, it ends its process.
class TreeReading {
 public:
  /// Forks; call it while no other thread of the process holds locks that the child would need.
  static Result<TreeReading> begin(Env& env, const std::string& path, IndexProcessOptions options);

  /// Waits for the end. Once.
  Result<Tree> finish();

 private:
  struct Running;
  struct GiveUp {
    void operator()(Running* running) const;
  };
  std::unique_ptr<Running, GiveUp> running_;
};

/// Reads it at once; forks as TreeReading::begin() does.
Result<Tree> read_tree_in_process(Env& env, const std::string& path, const IndexProcessOptions& options);

}  // namespace penstock::check
