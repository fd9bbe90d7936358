/// A run of any length in a fixed space: its newest files stay, older ones are removed while it goes on.
///
/// A separate thread removes them, so that no write waits for it. If it falls behind, a thread that completes a file
/// removes one as well: the space stays within the limit even on slow storage.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "load/crew.hpp"
#include "load/made/made.hpp"
#include "load/names.hpp"

namespace penstock::load {

/// Safe from several threads. Its thread keeps it alive, and may hang in the storage.
class Ring : public std::enable_shared_from_this<Ring> {
 public:
  /// `kept` complete files stay, and at most a quarter of them more while they wait for their removal. What is removed
  /// leaves `made`.
  Ring(const LoadPlan& plan, std::uint64_t kept, std::unique_ptr<Names> names, std::shared_ptr<Made> made);

  /// An error where the system gives no further thread.
  Result<void> start();
  /// A file that is complete, by its number, after those before it.
  Result<void> add(std::uint64_t number);
  /// Nothing is removed from now on.
  void close();

 private:
  void remove_on();
  /// The oldest one, if more than `kept` are there.
  Result<bool> remove_one(std::uint64_t kept);

  const LoadPlan plan_;
  const std::uint64_t kept_;
  const std::unique_ptr<Names> names_;
  const std::shared_ptr<Made> made_;
  Mutex mutex_;
  CondVar told_;
  std::deque<std::uint64_t> files_ PEN_GUARDED_BY(mutex_);
  bool closed_ PEN_GUARDED_BY(mutex_) = false;
  std::optional<Error> failed_ PEN_GUARDED_BY(mutex_);  ///< of the thread; the next add() returns it
  Crew crew_;
};

}  // namespace penstock::load
