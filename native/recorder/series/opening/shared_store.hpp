/// The store of a series' file, and its number among the ranks.
///
/// Opened and dropped by one thread at a time (StoreOpener, then SeriesFile::close()). Other threads may use the store
/// once is_ready() returns true, which it does until the series is destroyed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "recorder/team/team.hpp"
#include "store/store.hpp"

namespace penstock::recorder {

class SharedStore {
 public:
  /// `team` outlives it.
  explicit SharedStore(Team& team) : team_(team) {}
  ~SharedStore() { drop(); }
  SharedStore(const SharedStore&) = delete;
  SharedStore& operator=(const SharedStore&) = delete;

  /// The coordinator's: takes a number for a new file.
  Result<store::Share> begin_file();
  /// The other ranks': the coordinator's number, and the base of its counter.
  store::Share join_file(std::uint64_t number, std::uint64_t base);
  /// From now on it receives other ranks' messages for its file.
  void enter(std::unique_ptr<store::Store> store);
  /// No message arrives any more.
  void leave();
  /// Destroys the store, whose listener has to be alive. Its writers have been destroyed before.
  void drop();

  explicit operator bool() const { return store_ != nullptr; }
  store::Store& operator*() const { return *store_; }
  store::Store* operator->() const { return store_.get(); }
  std::uint64_t number() const { return number_; }
  std::uint64_t base() const { return base_; }

  /// The first frame has settled what the file is made for: frames may be encoded into it.
  void set_ready() { ready_.store(true, std::memory_order_release); }
  bool is_ready() const { return ready_.load(std::memory_order_acquire); }

 private:
  Team& team_;
  std::unique_ptr<store::Store> store_;
  std::uint64_t number_ = 0;  ///< among the ranks' files, while entered_
  std::uint64_t base_ = 0;    ///< of its counter
  bool entered_ = false;
  std::atomic<bool> ready_{false};
};

}  // namespace penstock::recorder
