/// Files that have the names of a master's members before the master is made.
///
/// A name proves nothing: a file goes only if its description says that it is a member of this master.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files/env.hpp"
#include "store/format/description.hpp"
#include "store/layout.hpp"

namespace penstock::store {

/// The number in a member's name; nullopt for other names.
std::optional<std::uint64_t> member_number(const std::string& name, const Members& members);

/// Reads the description of the series from one of its members, the file at `path`; an error if it is not a member.
Result<format::Description> description_of_member(Env& env, const std::string& path);

/// Paths of the files that say that they are members of the master at path `master`.
Result<std::vector<std::string>> member_paths(Env& env, const std::string& master, const Members& members);

/// Whether the master at path `master` may be made: no file has a name that a member may get, or, where
/// `members.overwrite` says so, those that do are members of it and not in use. Changes nothing. Errors:
/// `already_exists` and `locked`, each with the file's name.
Result<void> check_member_names(Env& env, const std::string& master, const Members& members);

/// Removes the members of the master at path `master`, each after it was looked at again. Errors as above.
Result<void> remove_members(Env& env, const std::string& master, const Members& members);

}  // namespace penstock::store
