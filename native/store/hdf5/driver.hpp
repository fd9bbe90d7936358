/// A virtual file driver that lets HDF5 index chunks which are on storage already, and keeps what HDF5 changes in one
/// piece.
///
/// While a placement is armed, an allocation of raw data answers with the address that the chunk
/// has, and writes of raw data are dropped. Everything else HDF5 allocates comes from `Space`.
///
/// What HDF5 writes is held in memory until commit(), which is called when HDF5's structures are consistent. Then
/// what stands in new space goes to the file first: nothing refers to it yet. The rest, changes of what was there, goes
/// into the journal, and in place after that in HDF5's order, as readers beside it need. The superblock is the
/// last of it.
///
/// The driver does not lock the file: the store holds the lock from before the file is truncated
/// until it is closed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/files/env.hpp"
#include "base/log_rate_limiter.hpp"
#include "store/hdf5/handles.hpp"
#include "store/hdf5/held_writes.hpp"
#include "store/recovery/journal.hpp"
#include "store/space/space.hpp"

namespace penstock::store::hdf5 {

/// Shared by a store and its open HDF5 file, which it outlives.
struct DriverContext {
  std::shared_ptr<File> file;  ///< buffered; null when the store is gone, and HDF5 could not close the file
  Space& space;                ///< not looked at after a failure

  struct Placement {
    std::uint64_t address;
    std::uint64_t bytes;
    bool taken;  ///< HDF5 has asked for the address
  };
  std::optional<Placement> placement = {};
  /// HDF5 makes a new file only where it finds an empty one: so this one looks until its first
  /// allocation, although segments may lie in it.
  bool looks_empty = false;

  /// Why a callback failed. HDF5 is not informed: after a failed write it can neither go on nor
  /// let go of the file. Instead nothing reaches storage from then on, which keeps what it has as a
  /// crash would leave it, and whoever called HDF5 looks here after each call.
  std::optional<Error> failure = {};
  std::uint64_t discarded_bytes = 0;  ///< allocated since
  unsigned open_files = 0;            ///< that HDF5 has, through this driver

  std::unique_ptr<Journal> journal = {};  ///< null in a file of before: changes are made in place at once
  HeldWrites in_fresh_space = {};
  HeldWrites changes = {};
  FreshSpace fresh = {};  ///< what HDF5 was given since the last commit

  /// If true, a full disk is not an error: HDF5's writes stay in memory until there is room.
  bool waits_for_room = false;
  bool waits = false;  ///< the last commit found no room
  /// If set, what was in the file before stays as it is until settle(), unless very much changes, and until all that
  /// needs space is written. Then this is called, once, and the changes are made.
  std::function<Result<void>()> before_changes = {};
  struct Limiters {
    LogRateLimiter waits{}, room{};
  };
  Limiters limiters = {};

  /// Whether so much is held that it should be committed at the next opportunity: by this file, or by all together.
  bool holds_much() const;
  /// `no_space` while so much waits for room that chunks are to be put later. HDF5 has not been called then, and the
  /// file has not failed.
  Result<void> admit_chunks() const;
  /// Takes what HDF5 writes.
  void hold(Bytes bytes, std::uint64_t address, bool raw);
  void read(MutableBytes bytes, std::uint64_t address) const;
  /// Brings what is held to the file; where it finds no room and may wait, what is held stays. Other errors are the
  /// failure.
  Result<void> commit() { return commit(Moment::consistent); }
  /// Commits, and closes the journal: from here on other programs may change the file.
  Result<void> settle();

  /// The outcome of a call: the failure of a callback goes before what HDF5 says.
  Result<void> outcome(Result<void> of_library) const {
    if (failure) return *failure;
    return of_library;
  }

 private:
  enum class Moment {
    between,     ///< HDF5 is in the middle of something
    consistent,  ///< its structures are
    end,         ///< they are, and the file is closed: nothing can wait
  };
  std::uint64_t held_bytes() const { return changes.bytes() + in_fresh_space.bytes(); }
  Result<void> commit(Moment moment);
  void spill();
  Result<void> write_all(Moment moment);
  Result<void> enter_in_journal(Moment moment);
  Result<void> begin_changes();
  Result<void> write_fresh();
  Result<void> write_changes(Moment moment);
  Result<void> sync_up_to_end(Bytes superblock);
  std::vector<const Change*> ordered() const;
  void take(Result<void> written);
};

/// Registers the driver for one store.
Result<Handle> register_driver();

/// Makes `access` (a file access property list) open files through the driver. `context` outlives
/// every file opened with it.
Result<void> use_driver(hid_t access, hid_t driver, DriverContext& context);

}  // namespace penstock::store::hdf5
