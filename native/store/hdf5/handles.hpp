/// HDF5's identifiers as owned objects, and its errors as ours. Only for files in this folder.
///
/// The library need not be built for threads, and a process may have several stores: whoever calls
/// HDF5 holds a `LibraryLock`. None of the classes here takes it by itself.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string_view>
#include <utility>

#include "base/result.hpp"
#include "frame/array.hpp"

namespace penstock::store::hdf5 {

/// Held during every call of HDF5 in this process. The first one sets the library up: errors are
/// not printed, and no filter plug-in is loaded (a loaded one would rewrite a filter's parameters).
class LibraryLock {
 public:
  LibraryLock();

 private:
  std::unique_lock<std::mutex> lock_;
};

/// Owns one identifier; negative is none.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close closer) : id_(id), close_(closer) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() { (void)close(); }

  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }
  /// Closes now; false where HDF5 reports an error. The destructor ignores it.
  bool close() { return id_ < 0 || close_(std::exchange(id_, -1)) >= 0; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// The error stack of the last failed call as an Error; empties it.
Error library_error(std::string_view what);

/// Takes ownership of what a creating call returned: `owned(H5Fcreate(…), H5Fclose, "create {}")`.
inline Result<Handle> owned(hid_t id, Handle::Close close, std::string_view what) {
  if (id < 0) return library_error(what);
  return Handle(id, close);
}

inline Result<void> done(herr_t status, std::string_view what) {
  if (status < 0) return library_error(what);
  return {};
}

/// The library's own little-endian type; not to be closed.
hid_t type_of(ElementType type);

}  // namespace penstock::store::hdf5
