/// Groups, values, attributes and links of a description as JSON. Only for files in this folder.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "store/format/description.hpp"

namespace penstock::store::format {

constexpr std::size_t nodes_max = 65536;

inline Error malformed(std::string_view what) { return make_error(Errc::malformed, "description: {}", what); }

nlohmann::json tree_json(const FileLayout& layout);
/// Fills groups, values and links.
Result<void> parse_tree(const nlohmann::json& tree, Description& description);

/// As the member `attributes` of `object`, where there are any.
void put_attributes(nlohmann::json& object, const std::vector<Attribute>& attributes);
Result<std::vector<Attribute>> attributes_in(const nlohmann::json& object);

/// Returns each item of the list `key` as `parse` reads it, up to nodes_max.
template <typename Node, typename Parse>
Result<std::vector<Node>> parse_list(const nlohmann::json& document, const char* key, Parse parse) {
  const auto found = document.find(key);
  if (found == document.end() || !found->is_array() || found->size() > nodes_max)
    return make_error(Errc::malformed, "description: '{}' is missing or not a list of up to {}", key, nodes_max);
  std::vector<Node> nodes;
  for (const auto& item : *found) {
    PEN_ASSIGN(auto node, parse(item), "{} {}", key, nodes.size());
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace penstock::store::format
