/// A virtual file driver that lets HDF5 index chunks which are on storage already.
///
/// While a placement is armed, an allocation of raw data answers with the address that the chunk
/// has, and writes of raw data are dropped. Everything else HDF5 allocates comes from `Space`, and
/// goes to the file as it is. What differs between versions of HDF5 is in driver.cpp alone.
///
/// The driver does not lock the file: the store holds the lock from before the file is truncated
/// until it is closed.
#pragma once

#include <memory>
#include <optional>

#include "base/env.hpp"
#include "store/hdf5/handles.hpp"
#include "store/space/space.hpp"

namespace penstock::store::hdf5 {

/// Shared by a store and its open HDF5 file, which it outlives.
struct DriverContext {
  std::shared_ptr<File> file;  ///< buffered
  Space& space;

  struct Placement {
    std::uint64_t address;
    std::uint64_t bytes;
    bool taken;  ///< HDF5 has asked for the address
  };
  std::optional<Placement> placement;

  /// Why the last callback failed; HDF5 itself only knows that it did.
  std::optional<Error> failure;

  /// The reason of a failed HDF5 call: the callback's where one failed, HDF5's otherwise.
  Error explain(Error from_library) {
    if (!failure) return from_library;
    auto why = failure->with_context(from_library.message());
    failure.reset();
    return why;
  }
};

/// Registers the driver for one store.
Result<Handle> register_driver();

/// Makes `access` (a file access property list) open files through the driver. `context` outlives
/// every file opened with it.
Result<void> use_driver(hid_t access, hid_t driver, DriverContext& context);

}  // namespace penstock::store::hdf5
