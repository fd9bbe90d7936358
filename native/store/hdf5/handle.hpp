/// An HDF5 identifier that closes itself, and HDF5's error stack as text.
#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

#include "base/result.hpp"

namespace penstock::store {

class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      id_ = std::exchange(other.id_, H5I_INVALID_HID);
      close_ = other.close_;
    }
    return *this;
  }

  hid_t get() const { return id_; }
  bool ok() const { return id_ >= 0; }

 private:
  void reset() {
    if (id_ >= 0) close_(id_);
    id_ = H5I_INVALID_HID;
  }

  hid_t id_;
  Close close_;
};

/// What went wrong, in HDF5's words: the innermost message of its error stack.
inline std::string last_hdf5_error() {
  std::string text;
  const auto keep_first = [](unsigned, const H5E_error2_t* error, void* into) -> herr_t {
    auto& message = *static_cast<std::string*>(into);
    if (message.empty() && error->desc != nullptr) message = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &text);
  return text.empty() ? "no reason given" : text;
}

}  // namespace penstock::store
