/// Words for errno, which do not depend on the C library or the language of the system.
#pragma once

#include <string>

namespace penstock {

/// The kernel's own ENOTSUPP, which some file systems let through; the C library has no name for it.
constexpr int errno_not_supported = 524;

/// Returns why a system call failed: "no space left on the storage". Names the number of rare errors only.
std::string reason_of_errno(int errnum);

}  // namespace penstock
