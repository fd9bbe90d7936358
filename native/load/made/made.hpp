/// Which files and directories exist because this run created them: only these may be removed.
///
/// A name is in the record from before the storage is asked to create it, because a call that does not return may have
/// created it. It leaves the record when the storage refused to create it, and when the run removes or renames it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/fields.hpp"
#include "base/mutex.hpp"

namespace penstock::load {

/// What one thread did in a phase of a metadata workload. Its items and directories have an order, so two counts name
/// them.
struct NamesHandled {
  std::string operation;        ///< as in the phases of the document
  std::uint64_t tree = 0;       ///< number of the tree
  std::uint64_t thread = 0;     ///< whose items; of trees: unused
  std::uint64_t done = 0;       ///< calls that succeeded
  std::uint64_t attempted = 0;  ///< `done`, and one more if the last call may have created its name
};

/// Safe from several threads.
class Made {
 public:
  enum class Name { complete, partial };

  /// Before the storage is asked to create file `number`; false if the record is closed, and nothing may be created.
  [[nodiscard]] bool ask(std::uint64_t number, Name name = Name::complete);
  /// The storage did not create the file, or it was removed or renamed.
  void gone(std::uint64_t number, Name name = Name::complete);
  void handled(NamesHandled names);

  /// Threads that the run has given up on create nothing afterwards.
  void close();
  /// {files, partial: [[first, last], …], names: [{operation, tree, thread, done, attempted}, …]}
  Json to_json() const;
  /// The same of several ranks; null if one of them has not reported.
  static Json merged(const std::vector<Json>& ranks);

 private:
  using Ranges = std::map<std::uint64_t, std::uint64_t>;  ///< first and last number
  Ranges& of(Name name) PEN_REQUIRES(mutex_) { return name == Name::complete ? files_ : partial_; }

  mutable Mutex mutex_;
  bool closed_ PEN_GUARDED_BY(mutex_) = false;
  Ranges files_ PEN_GUARDED_BY(mutex_);
  Ranges partial_ PEN_GUARDED_BY(mutex_);
  std::vector<NamesHandled> names_ PEN_GUARDED_BY(mutex_);
};

}  // namespace penstock::load
