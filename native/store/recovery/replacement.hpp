/// A file that is made in place of another one has a name of its own until it is complete.
#pragma once

#include <string>

#include "base/files/env.hpp"

namespace penstock::store {

/// Where the file that will replace the one at `path` is made: next to it, hidden.
std::string replacement_path(const std::string& path);

/// Removes what a recorder left there that was killed while it made one. Nothing happens if another process has it, or
/// may have it, or if it is not Penstock's, or has frames.
void remove_left_replacement(Env& env, const std::string& path);

}  // namespace penstock::store
