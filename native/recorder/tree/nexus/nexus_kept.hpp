/// Fields of a start message that no definition has a place for, as values with their types.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "recorder/tree/nexus/nexus_tree.hpp"

namespace penstock::recorder {

/// Which of an item's values go into the file.
enum class KeptValues { all, arrays };

/// Adds each item of CBOR below `folder` under its name: numbers, truth values and text as such; arrays and byte
/// strings as arrays, expanded; lists of one kind of number or of text as arrays of those, other lists as JSON text;
/// maps as groups. Nothing is there for null. What cannot be read, or is too much (of all together 1024 values and 64
/// MiB), is left out with a line in the log.
void add_kept(Tree& tree, const std::string& folder, const std::map<std::string, std::vector<std::byte>>& items,
              KeptValues which = KeptValues::all);

}  // namespace penstock::recorder
