#include "recorder/config/scan.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>

#include "recorder/tree/nexus/nexus_tree.hpp"

namespace penstock::recorder {
namespace {

using nlohmann::json;

constexpr std::size_t axes_max = 8;
constexpr std::uint64_t points_max = (std::uint64_t{1} << 32) - 2;
/// Values are kept in memory and in the file.
constexpr std::uint64_t axis_points_max = std::uint64_t{1} << 24;

constexpr std::size_t place_text_max = 256;
constexpr std::uint64_t table_max = std::uint64_t{1} << 24;
constexpr const char* repeat_axis = "repeat";

template <typename... Arguments>
Error bad(const std::string& where, fmt::format_string<Arguments...> what, Arguments&&... arguments) {
  return make_error(Errc::invalid_argument, "{}", where + fmt::format(what, std::forward<Arguments>(arguments)...));
}

std::string shown(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80);
}

std::string shown(const MetaValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, MetaArray>)
          return fmt::format("an array of {}", name(held.spec.type));
        else if constexpr (std::is_same_v<Held, std::string>)
          return shown(json(held));
        else
          return fmt::format("{}", held);
      },
      value);
}

Result<void> refuse_others(const json& object, const std::string& where, const std::set<std::string>& known) {
  for (const auto& [name, value] : object.items())
    if (!known.contains(name)) return bad(where, ".{} is not known", name.substr(0, 64));
  return {};
}

Result<double> number_at(const json& object, const char* name, double otherwise, const std::string& where) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return otherwise;
  if (!found->is_number() || !std::isfinite(found->get<double>()))
    return bad(where, ".{} is {}; expected a number", name, shown(*found));
  return found->get<double>();
}

Result<std::string> text_at(const json& object, const char* name, const std::string& otherwise,
                            const std::string& where) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return otherwise;
  if (!found->is_string() || found->get_ref<const std::string&>().size() > 256)
    return bad(where, ".{} is {}; expected text of at most 256 characters", name, shown(*found));
  return found->get<std::string>();
}

/// The list of an axis's values, or a null pointer: they are evenly spaced.
const json* listed_values(const json& object) {
  const auto found = object.find("values");
  return found == object.end() || found->empty() ? nullptr : &*found;
}

/// How many points an axis has, as `points` or the list of its values says.
Result<std::uint64_t> points_of(const json& object, const std::string& name, const std::string& where) {
  const auto found = object.find("points");
  const bool given = found != object.end() && !found->is_null();
  if (given && (!found->is_number_unsigned() || *found < 1U || *found > axis_points_max))
    return bad(where, ".points is {}, expected 1 to {}", shown(*found), axis_points_max);
  const auto* values = listed_values(object);
  if (values == nullptr) {
    if (given) return found->get<std::uint64_t>();
    return bad(where, ".points is missing: how many there are along {}", name);
  }
  const bool numbers = values->is_array() && values->size() <= axis_points_max &&
                       std::all_of(values->begin(), values->end(), [](const json& v) { return v.is_number(); });
  if (!numbers) return bad(where, ".values must be a list of at most {} numbers", axis_points_max);
  if (given && *found != values->size())
    return bad(where, ".values has {} numbers for {} points; expected one for each", values->size(), shown(*found));
  return values->size();
}

/// An axis of at most `room` points. No memory is taken for the values of a longer one.
Result<ScanAxis> axis_from(const json& object, std::uint64_t room, const std::string& where) {
  if (!object.is_object()) return bad(where, " is {}; an object is expected", shown(object));
  PEN_TRY(refuse_others(object, where, {"name", "points", "values", "start", "step", "units"}));
  ScanAxis axis;
  PEN_ASSIGN(axis.name, text_at(object, "name", "", where));
  if (axis.name.empty() || plain_name(axis.name) != axis.name || axis.name == "data" ||
      axis.name.starts_with("channel_"))
    return bad(
        where,
        ".name is \"{}\"; expected letters, digits, '_' and '-', but not \"data\" or \"channel_…\", which hold frames",
        axis.name);
  PEN_ASSIGN(axis.units, text_at(object, "units", "", where));
  PEN_ASSIGN(axis.points, points_of(object, axis.name, where));
  if (axis.points > room)
    return bad(where, " has {} points: with the axes before it, that is more than {}", axis.points, points_max);
  if (const auto* values = listed_values(object)) {
    axis.values = values->get<std::vector<double>>();
    return axis;
  }
  PEN_ASSIGN(const auto start, number_at(object, "start", 0, where));
  PEN_ASSIGN(const auto step, number_at(object, "step", 1, where));
  axis.values.reserve(axis.points);
  for (std::uint64_t i = 0; i < axis.points; ++i) axis.values.push_back(start + step * static_cast<double>(i));
  return axis;
}

Result<ScanConfig::Order> order_from(const json& object, const std::string& where) {
  PEN_ASSIGN(const auto order, text_at(object, "order", "raster", where));
  if (order == "raster") return ScanConfig::Order::raster;
  if (order == "snake") return ScanConfig::Order::snake;
  if (order == "given") return ScanConfig::Order::given;
  if (order == "table") return ScanConfig::Order::table;
  return bad(where, ".order is \"{}\"; expected \"raster\", \"snake\", \"given\" or \"table\"", order);
}

/// The place of frame `number` where each pass of an axis goes the other way than the one before.
std::uint64_t snake(std::uint64_t number, const std::vector<std::uint64_t>& shape) {
  std::uint64_t place = 0;
  std::uint64_t weight = 1;
  for (std::size_t i = shape.size(); i-- > 1;) {
    const auto index = number % shape[i];
    number /= shape[i];
    // What is left of the number counts the passes of this axis.
    place += weight * (number % 2 == 0 ? index : shape[i] - 1 - index);
    weight *= shape[i];
  }
  return place + weight * number;
}

/// The place that a list with an index for each axis names.
std::optional<std::uint64_t> place_in(const json& list, const std::vector<std::uint64_t>& shape) {
  if (!list.is_array() || list.size() != shape.size()) return std::nullopt;
  std::uint64_t place = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!list[i].is_number_unsigned() || list[i].get<std::uint64_t>() >= shape[i]) return std::nullopt;
    place = place * shape[i] + list[i].get<std::uint64_t>();
  }
  return place;
}

/// A place as one number, or as a list.
std::optional<std::uint64_t> given_place(const MetaValue& value, const std::vector<std::uint64_t>& shape) {
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(&value); number != nullptr && *number >= 0)
    return static_cast<std::uint64_t>(*number);
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr || text->size() > place_text_max) return std::nullopt;
  return place_in(json::parse(*text, nullptr, false), shape);
}

/// Each place at most once, as numbers or as lists with an index for each axis.
Result<std::vector<std::uint64_t>> table_from(const json& object, const ScanConfig& scan, const std::string& where) {
  const auto found = object.find("table");
  const auto points = scan.points();
  if (found == object.end() || !found->is_array() || found->empty() || found->size() > std::min(points, table_max))
    return bad(where, ".table must be a list of 1 to {} points of the scan, one per trigger",
               std::min(points, table_max));
  const auto shape = scan.shape();
  std::vector<std::uint64_t> table;
  std::unordered_set<std::uint64_t> taken;  // its memory is that of the table, however many points there are
  for (const auto& each : *found) {
    const auto place = each.is_number_unsigned() ? std::optional(each.get<std::uint64_t>()) : place_in(each, shape);
    if (!place || *place >= points)
      return bad(where, ".table[{}] is {}; expected 0 to {}, or a list with an index for each axis", table.size(),
                 shown(each), points - 1);
    if (!taken.insert(*place).second)
      return bad(where, ".table[{}] is {}, the point of another trigger", table.size(), shown(each));
    table.push_back(*place);
  }
  return table;
}

/// How often each point is exposed, as an axis behind the others. `points` are those of the grid.
Result<void> add_repeats(const json& object, ScanConfig& scan, std::uint64_t points, const std::string& where) {
  const auto found = object.find("repeats");
  if (found == object.end() || found->is_null()) return {};
  if (!found->is_number_unsigned() || *found < 1U || *found > std::min(axis_points_max, points_max / points))
    return bad(where, ".repeats is {}; expected 1 to {} frames per point", shown(*found),
               std::min(axis_points_max, points_max / points));
  scan.repeats = found->get<std::uint64_t>();
  if (scan.repeats == 1) return {};
  if (scan.axes.size() >= axes_max)
    return bad(where, ".repeats is {}, which is one axis more than {}", scan.repeats, axes_max);
  ScanAxis axis{.name = repeat_axis, .points = scan.repeats, .values = {}, .units = ""};
  for (std::uint64_t i = 0; i < scan.repeats; ++i) axis.values.push_back(static_cast<double>(i));
  scan.axes.push_back(std::move(axis));
  return {};
}

}  // namespace

std::vector<std::uint64_t> ScanConfig::shape() const {
  std::vector<std::uint64_t> shape;
  for (const auto& axis : axes) shape.push_back(axis.points);
  return shape;
}

std::uint64_t ScanConfig::points() const {
  std::uint64_t points = 1;
  for (const auto& axis : axes) points *= axis.points;
  return points;
}

Result<std::uint64_t> ScanConfig::place_of(const Frame& frame) const {
  const auto number = value(frame.number);
  if (axes.empty() || order == Order::raster) return number;
  if (order == Order::snake) {
    auto points = shape();
    if (repeats > 1) points.pop_back();
    return snake(number / repeats, points) * repeats + number % repeats;
  }
  if (order == Order::table) {
    if (number / repeats >= table->size())
      return make_error(Errc::malformed, "image {} is beyond the table of the scan, which has {} triggers of {} frames",
                        number, table->size(), repeats);
    return (*table)[number / repeats] * repeats + number % repeats;
  }
  const auto found = std::find_if(frame.metadata.begin(), frame.metadata.end(),
                                  [&](const auto& named) { return named.first == place; });
  if (found == frame.metadata.end())
    return make_error(Errc::malformed, "image {} lacks \"{}\" in its user_data, which gives its point in the scan",
                      number, place);
  const auto at = given_place(found->second, shape());
  if (!at || *at >= points())
    return make_error(Errc::malformed,
                      "image {}: \"{}\" is {}, which is not a point of the scan; expected 0 to {}, or a list with an "
                      "index for each axis",
                      number, place, shown(found->second), points() - 1);
  return *at;
}

Result<ScanConfig> ScanConfig::from_json(const json& object, const std::string& where) {
  if (!object.is_object()) return bad(where, " is {}; an object is expected", shown(object));
  PEN_TRY(refuse_others(object, where, {"axes", "order", "place", "table", "repeats"}));
  ScanConfig scan;
  PEN_ASSIGN(scan.order, order_from(object, where));
  PEN_ASSIGN(scan.place, text_at(object, "place", scan.place, where));
  const auto axes = object.find("axes");
  if (axes == object.end()) return scan;
  if (!axes->is_array() || axes->size() > axes_max)
    return bad(where, ".axes is {}; a list of up to {} is expected", shown(*axes), axes_max);
  std::uint64_t points = 1;
  std::set<std::string> names;
  for (std::size_t i = 0; i < axes->size(); ++i) {
    const auto path = fmt::format("{}.axes[{}]", where, i);
    PEN_ASSIGN(auto axis, axis_from((*axes)[i], points_max / points, path));
    if (!names.insert(axis.name).second) return bad(path, ".name is \"{}\", which another axis has", axis.name);
    points *= axis.points;
    scan.axes.push_back(std::move(axis));
  }
  if (scan.axes.empty()) return scan;
  if (scan.order == Order::table) {
    PEN_ASSIGN(auto table, table_from(object, scan, where));
    scan.table = std::make_shared<const std::vector<std::uint64_t>>(std::move(table));
  }
  const auto repeated = object.find("repeats");
  if (names.contains(repeat_axis) && repeated != object.end() && *repeated != 1U)
    return bad(where, ".axes has one of the name \"{}\", which is that of the repeats", repeat_axis);
  PEN_TRY(add_repeats(object, scan, points, where));
  return scan;
}

Result<ScanConfig> ScanConfig::of_series(const std::optional<std::string>& user_data_json,
                                         const ScanConfig& otherwise) {
  const auto scan = told_in(user_data_json);
  return scan ? from_json(*scan, "user_data.penstock.scan") : otherwise;
}

std::optional<json> ScanConfig::told_in(const std::optional<std::string>& user_data_json) {
  if (!user_data_json) return std::nullopt;
  const auto document = json::parse(*user_data_json, nullptr, false);
  const json::json_pointer at("/penstock/scan");
  if (!document.is_object() || !document.contains(at) || document.at(at).is_null()) return std::nullopt;
  return document.at(at);
}

Result<void> ScanPlaces::claim(std::uint64_t place, FrameNumber frame) {
  std::lock_guard lock(mutex_);
  const auto [found, fresh] = frames_.emplace(place, frame);
  if (fresh || found->second == frame) return {};
  return make_error(Errc::mismatch, "image {} claims point {} of the scan, which image {} has", value(frame), place,
                    value(found->second));
}

}  // namespace penstock::recorder
