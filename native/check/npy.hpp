/// Reads frames from a .npy file (NumPy's array format, versions 1 to 3).
#pragma once

#include <memory>
#include <string>

#include "base/env.hpp"
#include "frame/array.hpp"

namespace penstock::check {

struct NpyArray {
  std::shared_ptr<File> file;
  ArraySpec spec;  ///< little-endian, in C order
  std::uint64_t data_at = 0;
};

/// `malformed`, `unsupported` or `truncated`, naming what is wrong, for anything that is not a whole
/// C-ordered little-endian array.
Result<NpyArray> open_npy(Env& env, const std::string& path);

}  // namespace penstock::check
