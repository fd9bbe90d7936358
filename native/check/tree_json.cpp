#include "check/tree_json.hpp"

#include <nlohmann/json.hpp>

namespace penstock::check {
namespace {

using nlohmann::json;

/// The getters of the JSON library throw on wrong types; nothing throws beyond this.
template <typename T, typename Parse>
Result<T> guarded(const char* what, Parse parse) {
  try {
    return parse();
  } catch (const std::exception& error) {
    return make_error(Errc::malformed, "{} from the reading process: {}", what, error.what());
  }
}

store::Value parse_value(const json& from) {
  if (from.is_string()) return from.get<std::string>();
  if (from.is_array()) return from.get<std::vector<std::string>>();
  store::ArrayValue array;
  array.spec.type = static_cast<ElementType>(from.at("type").get<std::uint8_t>());
  array.spec.shape = from.at("shape").get<std::vector<std::uint64_t>>();
  const auto& data = from.at("data").get_binary();
  const auto* first = reinterpret_cast<const std::byte*>(data.data());
  array.data.assign(first, first + data.size());
  std::uint64_t bytes = size_of(array.spec.type);
  for (const auto extent : array.spec.shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes)) throw std::runtime_error("shape beyond 64 bits");
  if (bytes != array.data.size()) throw std::runtime_error("shape and data disagree");
  return array;
}

std::vector<store::Attribute> parse_attributes(const json& from) {
  std::vector<store::Attribute> attributes;
  for (const auto& item : from) attributes.push_back({item.at(0).get<std::string>(), parse_value(item.at(1))});
  return attributes;
}

store::DatasetInfo parse_dataset(const json& from) {
  store::DatasetInfo info;
  info.paths = from.at("paths").get<std::vector<std::string>>();
  if (info.paths.empty()) throw std::runtime_error("a dataset without a path");
  if (!from.at("type").is_null()) info.type = element_type_of(from.at("type").get<std::string>());
  info.element_bytes = from.at("element_bytes").get<std::uint64_t>();
  info.shape = from.at("shape").get<std::vector<std::uint64_t>>();
  info.chunk_shape = from.at("chunk_shape").get<std::vector<std::uint64_t>>();
  info.storage = static_cast<store::StorageKind>(from.at("storage").get<int>());
  if (info.storage == store::StorageKind::chunked && info.chunk_shape.size() != info.shape.size())
    throw std::runtime_error("shape and chunk shape disagree");
  for (const auto& item : from.at("filters"))
    info.filters.push_back({item.at(0).get<int>(), item.at(1).get<std::vector<unsigned>>()});
  info.address = from.at("address").get<std::uint64_t>();
  info.source = from.at("source").get<std::string>();
  info.attributes = parse_attributes(from.at("attributes"));
  return info;
}

}  // namespace

json to_json(const store::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    auto list = json::array();
    for (const auto& text : *texts) list.push_back(text);
    return list;
  }
  const auto& array = std::get<store::ArrayValue>(value);
  const auto* first = reinterpret_cast<const std::uint8_t*>(array.data.data());
  return {{"type", static_cast<int>(array.spec.type)},
          {"shape", array.spec.shape},
          {"data", json::binary(std::vector<std::uint8_t>(first, first + array.data.size()))}};
}

json to_json(const std::vector<store::Attribute>& attributes) {
  auto list = json::array();
  for (const auto& attribute : attributes) list.push_back(json::array({attribute.name, to_json(attribute.value)}));
  return list;
}

json to_json(const store::DatasetInfo& info) {
  auto filters = json::array();
  for (const auto& filter : info.filters) filters.push_back(json::array({filter.id, filter.values}));
  return {{"paths", info.paths},
          {"type", info.type ? json(penstock::name(*info.type)) : json(nullptr)},
          {"element_bytes", info.element_bytes},
          {"shape", info.shape},
          {"chunk_shape", info.chunk_shape},
          {"storage", static_cast<int>(info.storage)},
          {"filters", filters},
          {"address", info.address},
          {"source", info.source},
          {"attributes", to_json(info.attributes)}};
}

Result<store::Value> value_of(const json& from) {
  return guarded<store::Value>("a value", [&] { return parse_value(from); });
}

Result<std::vector<store::Attribute>> attributes_of(const json& from) {
  return guarded<std::vector<store::Attribute>>("attributes", [&] { return parse_attributes(from); });
}

Result<store::DatasetInfo> dataset_of(const json& from) {
  return guarded<store::DatasetInfo>("a dataset", [&] { return parse_dataset(from); });
}

}  // namespace penstock::check
