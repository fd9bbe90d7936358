#include "stream/element.hpp"

#include <nlohmann/json.hpp>

namespace penstock::stream {
namespace {

using nlohmann::json;

const json::json_pointer element_at("/penstock/element");

bool is_extent(const json& value) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 && value.get<std::uint64_t>() <= elements_max;
}

std::string shown(const json& value) { return value.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 64); }

}  // namespace

Result<ElementPlace> element_from(const json& object, const std::string& where) {
  const auto grid = object.is_object() ? object.value("grid", json()) : json();
  if (!grid.is_array() || grid.size() != 2 || !is_extent(grid[0]) || !is_extent(grid[1]))
    return make_error(Errc::malformed, "{}.grid is {}; [rows, columns] from 1 to {} is expected", where, shown(grid),
                      elements_max);
  ElementPlace place{grid[0].get<std::uint32_t>(), grid[1].get<std::uint32_t>(), 0};
  if (place.count() > elements_max)
    return make_error(Errc::malformed, "{}.grid is {}; at most {} elements are possible", where, shown(grid),
                      elements_max);
  const auto number = object.value("number", json());
  if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= place.count())
    return make_error(Errc::malformed, "{}.number is {}; from 0 to {} is expected", where, shown(number),
                      place.count() - 1);
  place.number = number.get<std::uint32_t>();
  return place;
}

Result<std::optional<ElementPlace>> element_in(const std::optional<std::string>& user_data_json) {
  if (!user_data_json) return std::optional<ElementPlace>();
  const auto document = json::parse(*user_data_json, nullptr, false);
  if (!document.is_object() || !document.contains(element_at) || document.at(element_at).is_null())
    return std::optional<ElementPlace>();
  PEN_ASSIGN(const auto place, element_from(document.at(element_at), "user_data.penstock.element"));
  return std::optional(place);
}

std::string with_element(const std::optional<std::string>& user_data_json, const ElementPlace& element) {
  auto document = user_data_json ? json::parse(*user_data_json, nullptr, false) : json::object();
  if (!document.is_object()) document = json::object();
  auto& own = document["penstock"];
  if (!own.is_object()) own = json::object();
  own["element"] = {{"grid", {element.rows, element.columns}}, {"number", element.number}};
  return document.dump();
}

}  // namespace penstock::stream
