/// Groups, values, attributes and links of a description as JSON. Only for files in this folder.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "store/format/description.hpp"

namespace penstock::store::format {

nlohmann::json tree_json(const FileLayout& layout);
/// Fills groups, values and links.
Result<void> parse_tree(const nlohmann::json& tree, Description& description);

/// As the member `attributes` of `object`, where there are any.
void put_attributes(nlohmann::json& object, const std::vector<Attribute>& attributes);
Result<std::vector<Attribute>> attributes_in(const nlohmann::json& object);

}  // namespace penstock::store::format
