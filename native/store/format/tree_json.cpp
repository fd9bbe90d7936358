#include "store/format/tree_json.hpp"

#include <nlohmann/json.hpp>

#include "store/format/segment.hpp"

namespace penstock::store::format {
namespace {

using nlohmann::json;

constexpr std::size_t attributes_max = 4096;
constexpr std::size_t dimensions_max = 32;
constexpr std::size_t path_bytes_max = 4096;
constexpr std::uint64_t bytes_max = std::uint64_t{1} << 40;
constexpr const char* text_type = "text";

std::string hex_of(Bytes bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const auto byte : bytes) {
    hex += digits[std::to_integer<unsigned>(byte) >> 4];
    hex += digits[std::to_integer<unsigned>(byte) & 15U];
  }
  return hex;
}

Result<std::vector<std::byte>> bytes_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return malformed(fmt::format("a value has no '{}'", key));
  const auto& hex = found->get_ref<const std::string&>();
  const auto digit = [](char c) {
    return static_cast<unsigned>(c >= '0' && c <= '9' ? c - '0' : (c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16));
  };
  std::vector<std::byte> bytes;
  bytes.reserve(hex.size() / 2);
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    if (digit(hex[i]) > 15 || digit(hex[i + 1]) > 15) break;
    bytes.push_back(static_cast<std::byte>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  }
  if (2 * bytes.size() != hex.size()) return malformed(fmt::format("'{}' of a value is not hexadecimal", key));
  return bytes;
}

/// JSON has text in UTF-8 alone; a detector may send any bytes.
bool is_utf8(const std::string& text) {
  try {
    (void)json(text).dump();
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

json text_json(const std::string& text) {
  return is_utf8(text) ? json(text) : json{{"type", text_type}, {"hex", hex_of(as_bytes(text))}};
}

json array_json(const ArraySpec& spec) { return {{"type", name(spec.type)}, {"shape", spec.shape}}; }

json to_json(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return text_json(*text);
  if (const auto* boolean = std::get_if<Boolean>(&value)) return boolean->value;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    auto list = json::array();
    for (const auto& text : *texts) list.push_back(text_json(text));
    return list;
  }
  const auto& array = std::get<ArrayValue>(value);
  auto object = array_json(array.spec);
  object["hex"] = hex_of(array.data);
  return object;
}

json to_json(const ValueNode& node) {
  json object = {{"path", node.path}};
  put_attributes(object, node.attributes);
  if (!node.place) {
    object["value"] = to_json(node.value);
    return object;
  }
  const auto* array = std::get_if<ArrayValue>(&node.value);
  auto value = array != nullptr ? array_json(array->spec) : json{{"type", text_type}};
  value["address"] = node.place->address;
  value["bytes"] = node.place->bytes;
  value["crc32c"] = node.place->crc;
  object["value"] = std::move(value);
  return object;
}

Result<std::string> path_in(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end() || !found->is_string())
    return malformed(fmt::format("'{}' is missing or not text", key));
  auto path = found->get<std::string>();
  if (path.empty() || path.front() != '/' || path.size() > path_bytes_max)
    return malformed(fmt::format("'{}' is not an absolute path of up to {} bytes", key, path_bytes_max));
  return path;
}

Result<std::uint64_t> number_in(const json& object, const char* key, std::uint64_t most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned() || found->get<std::uint64_t>() > most)
    return malformed(fmt::format("'{}' of a value is missing or not a number up to {}", key, most));
  return found->get<std::uint64_t>();
}

Result<std::string> text_in(const json& item) {
  if (item.is_string()) return item.get<std::string>();
  if (!item.is_object() || item.value("type", json()) != json(text_type)) return malformed("a value is not text");
  PEN_ASSIGN(const auto bytes, bytes_of(item, "hex"));
  return std::string(as_text(bytes));
}

/// An array of no element has no shape that could be multiplied too far: that is looked at first.
Result<ArraySpec> spec_in(const json& object) {
  const auto type = object.find("type"), shape = object.find("shape");
  const auto known =
      type != object.end() && type->is_string() ? element_type_of(type->get<std::string>()) : std::nullopt;
  if (!known) return malformed("the type of a value is missing or unknown");
  if (shape == object.end() || !shape->is_array() || shape->size() > dimensions_max)
    return malformed("the shape of a value is missing or not a list of up to 32 numbers");
  ArraySpec spec{*known, {}};
  std::uint64_t bytes = size_of(*known);
  for (const auto& extent : *shape) {
    if (!extent.is_number_unsigned()) return malformed("the shape of a value holds something other than numbers");
    spec.shape.push_back(extent.get<std::uint64_t>());
    if (__builtin_mul_overflow(bytes, spec.shape.back(), &bytes) || bytes > bytes_max)
      return malformed(fmt::format("a value has more than {} bytes", bytes_max));
  }
  return spec;
}

std::uint64_t bytes_of(const ArraySpec& spec) {
  std::uint64_t bytes = size_of(spec.type);
  for (const auto extent : spec.shape) bytes *= extent;
  return bytes;
}

Result<Value> value_in(const json& item) {
  if (item.is_boolean()) return Value(Boolean{item.get<bool>()});
  if (item.is_array()) {
    std::vector<std::string> texts;
    for (const auto& each : item) {
      PEN_ASSIGN(auto text, text_in(each));
      texts.push_back(std::move(text));
    }
    return Value(std::move(texts));
  }
  if (!item.is_object() || item.value("type", json()) == json(text_type)) {
    PEN_ASSIGN(auto text, text_in(item));
    return Value(std::move(text));
  }
  ArrayValue array;
  PEN_ASSIGN(array.spec, spec_in(item));
  PEN_ASSIGN(array.data, bytes_of(item, "hex"));
  if (array.data.size() != bytes_of(array.spec))
    return malformed(fmt::format("a value has {} bytes instead of {}", array.data.size(), bytes_of(array.spec)));
  return Value(std::move(array));
}

Result<ValueNode> parse_value(const json& object) {
  ValueNode node;
  PEN_ASSIGN(node.path, path_in(object, "path"));
  PEN_ASSIGN(node.attributes, attributes_in(object));
  const auto value = object.find("value");
  if (value == object.end()) return malformed(fmt::format("{} has no value", node.path));
  if (!value->is_object() || !value->contains("address")) {
    PEN_ASSIGN(node.value, value_in(*value), "{}", node.path);
    return node;
  }
  ValuePlace place;
  PEN_ASSIGN(place.address, number_in(*value, "address", address_max));
  PEN_ASSIGN(place.bytes, number_in(*value, "bytes", bytes_max));
  PEN_ASSIGN(const auto crc, number_in(*value, "crc32c", ~std::uint32_t{0}));
  place.crc = static_cast<std::uint32_t>(crc);
  node.place = place;
  if (value->value("type", json()) == json(text_type)) return node;
  ArrayValue array;
  PEN_ASSIGN(array.spec, spec_in(*value));
  if (place.bytes != bytes_of(array.spec) || place.bytes == 0)
    return malformed(fmt::format("{} has {} bytes instead of {}", node.path, place.bytes, bytes_of(array.spec)));
  node.value = std::move(array);
  return node;
}

Result<GroupNode> parse_group(const json& object) {
  GroupNode node;
  PEN_ASSIGN(node.path, path_in(object, "path"));
  PEN_ASSIGN(node.attributes, attributes_in(object));
  return node;
}

Result<LinkNode> parse_link(const json& object) {
  LinkNode node;
  PEN_ASSIGN(node.path, path_in(object, "path"));
  PEN_ASSIGN(node.target, path_in(object, "target"));
  return node;
}

}  // namespace

Bytes large_bytes(const Value& value) {
  Bytes bytes;
  if (const auto* array = std::get_if<ArrayValue>(&value)) bytes = array->data;
  if (const auto* text = std::get_if<std::string>(&value)) bytes = as_bytes(*text);
  return bytes.size() >= large_value_bytes ? bytes : Bytes();
}

void put_attributes(json& object, const std::vector<Attribute>& attributes) {
  if (attributes.empty()) return;
  auto& into = object["attributes"] = json::object();
  for (const auto& attribute : attributes) into[attribute.name] = to_json(attribute.value);
}

Result<std::vector<Attribute>> attributes_in(const json& object) {
  std::vector<Attribute> attributes;
  const auto found = object.find("attributes");
  if (found == object.end()) return attributes;
  if (!found->is_object() || found->size() > attributes_max)
    return malformed(fmt::format("'attributes' is not an object of up to {} members", attributes_max));
  for (const auto& [attribute, value] : found->items()) {
    if (attribute.empty() || attribute.find('\0') != std::string::npos) return malformed("an attribute has no name");
    PEN_ASSIGN(auto parsed, value_in(value), "attribute '{}'", attribute);
    attributes.push_back({attribute, std::move(parsed)});
  }
  return attributes;
}

json tree_json(const FileLayout& layout) {
  auto groups = json::array(), values = json::array(), links = json::array();
  for (const auto& node : layout.groups) {
    json object = {{"path", node.path}};
    put_attributes(object, node.attributes);
    groups.push_back(std::move(object));
  }
  for (const auto& node : layout.values) values.push_back(to_json(node));
  for (const auto& node : layout.links) links.push_back({{"path", node.path}, {"target", node.target}});
  return {{"groups", std::move(groups)}, {"values", std::move(values)}, {"links", std::move(links)}};
}

Result<void> parse_tree(const json& tree, Description& description) {
  if (!tree.is_object()) return malformed("'tree' is not an object");
  PEN_ASSIGN(description.groups, parse_list<GroupNode>(tree, "groups", parse_group));
  PEN_ASSIGN(description.values, parse_list<ValueNode>(tree, "values", parse_value));
  PEN_ASSIGN(description.links, parse_list<LinkNode>(tree, "links", parse_link));
  return {};
}

}  // namespace penstock::store::format
