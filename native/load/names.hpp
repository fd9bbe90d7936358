/// Calls that are about names: files that are made, found, renamed and removed whole, and folders.
///
/// Paths are relative to the folder of the plan, without a link at their end. Nothing that is there is overwritten.
/// Each call is a system call, or as few as the operation needs: what a workload measures is the storage, so nothing is
/// asked that a program of users would not ask.
#pragma once

#include <memory>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "load/plan.hpp"

namespace penstock::load {

/// Safe from several threads. An error names the path.
class Names {
 public:
  virtual ~Names() = default;
  virtual Result<void> make_folder(const char* path) = 0;
  /// Only an empty one.
  virtual Result<void> remove_folder(const char* path) = 0;
  /// Looks a name up, as `stat` does.
  virtual Result<void> look_up(const char* path) = 0;
  /// A new file with these bytes, closed; forced to storage before with `sync`. `made` is set as soon as the file
  /// exists because of this call, whatever fails afterwards.
  virtual Result<void> create(const char* path, Bytes bytes, bool sync, bool& made) = 0;
  /// Opens, reads and closes it. Fewer bytes than `into` takes where the file has no more.
  virtual Result<std::size_t> read(const char* path, MutableBytes into) = 0;
  /// An error where the new name is taken.
  virtual Result<void> rename(const char* from, const char* to) = 0;
  virtual Result<void> remove(const char* path) = 0;
};

/// Opens a folder once: no link that takes its place later leads elsewhere. An error where it is a link itself.
Result<int> open_folder(const std::string& folder);
/// In an open folder, which it takes over.
std::unique_ptr<Names> make_posix_names(int folder);

}  // namespace penstock::load
