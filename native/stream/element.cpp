#include "stream/element.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace penstock::stream {
namespace {

using nlohmann::json;

const json::json_pointer element_at("/penstock/element");

bool is_extent(const json& value) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 && value.get<std::uint64_t>() <= elements_max;
}

std::string shown(const json& value) { return value.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 64); }

bool is_gap(const json& value) { return value.is_number_unsigned() && value.get<std::uint64_t>() <= gap_pixels_max; }

/// Between the rows or columns of a grid of so many: all alike, or a list with one for each neighbourhood.
Result<std::vector<std::uint32_t>> gaps_along(const json& value, std::uint32_t extent, const std::string& where) {
  const auto count = extent - 1;
  std::vector<std::uint32_t> gaps;
  if (is_gap(value)) {
    gaps.assign(count, value.get<std::uint32_t>());
  } else if (value.is_array() && value.size() == count && std::all_of(value.begin(), value.end(), is_gap)) {
    gaps = value.get<std::vector<std::uint32_t>>();
  } else {
    return make_error(Errc::malformed, "{} is {}; expected pixels from 0 to {}, or a list of {}, one fewer than {}",
                      where, shown(value), gap_pixels_max, count, extent);
  }
  const bool any = std::any_of(gaps.begin(), gaps.end(), [](auto gap) { return gap > 0; });
  return any ? std::move(gaps) : std::vector<std::uint32_t>();
}

Result<void> read_gaps(const json& gap, const std::string& where, ElementPlace& place) {
  const bool pair = gap.is_array() && gap.size() == 2 && is_gap(gap[0]) && is_gap(gap[1]);
  const bool named = gap.is_object() && !gap.empty() && gap.size() == gap.count("rows") + gap.count("columns");
  if (!pair && !named)
    return make_error(Errc::malformed,
                      "{} is {}; expected [rows, columns] with pixels from 0 to {}, or an object with rows and columns",
                      where, shown(gap), gap_pixels_max);
  const auto rows = pair ? gap[0] : gap.value("rows", json(0U));
  const auto columns = pair ? gap[1] : gap.value("columns", json(0U));
  PEN_ASSIGN(place.row_gaps, gaps_along(rows, place.rows, where + ".rows"));
  PEN_ASSIGN(place.column_gaps, gaps_along(columns, place.columns, where + ".columns"));
  return {};
}

/// A list where they are not all alike.
json shown_gaps(const std::vector<std::uint32_t>& gaps) {
  if (gaps.empty()) return 0U;
  const bool alike = std::all_of(gaps.begin(), gaps.end(), [&](auto gap) { return gap == gaps.front(); });
  return alike ? json(gaps.front()) : json(gaps);
}

}  // namespace

std::string gap_text(const ElementPlace& place) {
  return fmt::format("[{}, {}]", shown_gaps(place.row_gaps).dump(), shown_gaps(place.column_gaps).dump());
}

Result<ElementPlace> element_from(const json& object, const std::string& where) {
  const auto grid = object.is_object() ? object.value("grid", json()) : json();
  if (!grid.is_array() || grid.size() != 2 || !is_extent(grid[0]) || !is_extent(grid[1]))
    return make_error(Errc::malformed, "{}.grid is {}; expected [rows, columns] from 1 to {}", where, shown(grid),
                      elements_max);
  ElementPlace place{grid[0].get<std::uint32_t>(), grid[1].get<std::uint32_t>(), 0};
  if (place.count() > elements_max)
    return make_error(Errc::malformed, "{}.grid is {}; it exceeds the maximum of {} elements", where, shown(grid),
                      elements_max);
  const auto number = object.value("number", json());
  if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= place.count())
    return make_error(Errc::malformed, "{}.number is {}, expected 0 to {}", where, shown(number), place.count() - 1);
  place.number = number.get<std::uint32_t>();
  if (const auto gap = object.find("gap"); gap != object.end()) PEN_TRY(read_gaps(*gap, where + ".gap", place));
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
  if (element.has_gaps())
    own["element"]["gap"] = {{"rows", shown_gaps(element.row_gaps)}, {"columns", shown_gaps(element.column_gaps)}};
  return document.dump();
}

}  // namespace penstock::stream
