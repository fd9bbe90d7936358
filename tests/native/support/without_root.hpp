/// Files that root alone may open, in tests that root runs.
#pragma once

#include <unistd.h>

namespace penstock::testing {

/// While it exists the process is nobody, if it was root: permissions count.
class WithoutRoot {
 public:
  WithoutRoot() : was_root_(::geteuid() == 0) {
    constexpr uid_t nobody = 65534;
    if (was_root_) was_root_ = ::seteuid(nobody) == 0;
  }
  WithoutRoot(const WithoutRoot&) = delete;
  WithoutRoot& operator=(const WithoutRoot&) = delete;
  ~WithoutRoot() {
    if (was_root_) (void)!::seteuid(0);
  }

 private:
  bool was_root_;
};

}  // namespace penstock::testing
