/// What went wrong with a series' file. All calls are safe from several threads.
#pragma once

#include <mutex>
#include <string>
#include <utility>

#include "base/result.hpp"

namespace penstock::recorder {

class Failures {
 public:
  /// `path` is for the log.
  explicit Failures(std::string path) : path_(std::move(path)) {}

  /// Frames were not written. A full storage leaves no trace once they have come again; after any other failure,
  /// HDF5's own writes may have failed as well, unnoticed.
  void fail(const Error& why) { note(why, why.code() != Errc::no_space); }
  /// The file lacks something that does not come again.
  void spoil(const Error& why) { note(why, true); }
  /// Logs the first failure, and the first one `for_good`.
  void note(const Error& why, bool for_good);

  /// A failure that no frame which comes again repairs.
  bool is_spoiled() const;
  /// The first failure, or the first for good; empty: none.
  std::string first() const;
  /// The newest failure.
  Error last() const;

 private:
  const std::string path_;
  mutable std::mutex mutex_;
  // guarded by mutex_
  std::string first_;
  bool spoiled_ = false;
  Error last_{Errc::io, ""};
};

}  // namespace penstock::recorder
