/// A file that is made has a name of its own until it is complete. Then it takes the name that it is for: a free one,
/// or that of a file which it replaces. Until it is marked as open for writing nothing but a lock shows that a recorder
/// has it, and some file systems have no locks: under its final name another program could take it for one that was
/// left.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/files/env.hpp"

namespace penstock::store {

/// Where the file that will be at `path` is made: next to it, hidden.
std::string replacement_path(const std::string& path);
/// The path that a file at `hidden` would take; nothing if it has no such name.
std::optional<std::string> path_of_replacement(const std::string& hidden);

/// Makes the file that will be at `path`, empty and locked, in place of one that a killed recorder left.
/// `already_exists` if another recorder has it.
Result<std::shared_ptr<File>> make_replacement(Env& env, const std::string& path);

/// What happens to a file of which nobody knows whether another process has it.
enum class WithoutLocks { keep, remove };

/// Removes what a recorder left there that was killed while it made one, and returns whether it did. Nothing happens if
/// another process has it, or if it is not Penstock's, has frames or was closed.
bool remove_left_replacement(Env& env, const std::string& path, WithoutLocks without_locks);

}  // namespace penstock::store
