/// A virtual file driver that lets HDF5 index chunks which are on storage already.
///
/// While a placement is armed, an allocation of raw data answers with the address that the chunk
/// has, and writes of raw data are dropped. Everything else HDF5 allocates comes from `Space`, and
/// goes to the file as it is. What differs between versions of HDF5 is in driver.cpp alone.
///
/// The driver does not lock the file: the store holds the lock from before the file is truncated
/// until it is closed.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/env.hpp"
#include "base/now_and_then.hpp"
#include "store/hdf5/handles.hpp"
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

  /// Why a callback failed. HDF5 is not told of it: after a failed write it can neither go on nor
  /// let go of the file. Instead nothing reaches storage from then on, which keeps what it has as a
  /// crash would leave it, and whoever called HDF5 looks here after each call.
  std::optional<Error> failure = {};
  std::uint64_t discarded_bytes = 0;  ///< allocated since
  unsigned open_files = 0;            ///< that HDF5 has, through this driver

  /// Whether a full disk is no failure: what HDF5 writes waits in memory until there is room, and all that it
  /// writes later waits behind it, so that readers, and a recovery, find the writes in HDF5's order.
  bool waits_for_room = false;
  struct WaitingWrite {
    std::uint64_t address;
    std::vector<std::byte> bytes;
  };
  std::deque<WaitingWrite> waiting = {};
  std::uint64_t waiting_bytes = 0;
  NowAndThen waits_told = {}, room_told = {};

  /// Writes what waits as far as there is room. An error but `no_space` is the failure.
  void write_waiting();
  /// `no_space` while something waits.
  Result<void> nothing_waits() const;

  /// The outcome of a call: the failure of a callback goes before what HDF5 says.
  Result<void> outcome(Result<void> of_library) const {
    if (failure) return *failure;
    return of_library;
  }
};

/// Registers the driver for one store.
Result<Handle> register_driver();

/// Makes `access` (a file access property list) open files through the driver. `context` outlives
/// every file opened with it.
Result<void> use_driver(hid_t access, hid_t driver, DriverContext& context);

}  // namespace penstock::store::hdf5
