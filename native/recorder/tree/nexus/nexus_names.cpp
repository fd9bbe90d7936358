#include "recorder/tree/nexus/nexus_names.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace penstock::recorder {
namespace {

using nlohmann::json;

constexpr std::size_t name_bytes_max = 256;
constexpr std::pair<const char*, std::string NexusNames::*> fields[] = {
    {"instrument_name", &NexusNames::instrument_name}, {"source_name", &NexusNames::source_name},
    {"source_type", &NexusNames::source_type},         {"title", &NexusNames::title},
    {"sample_name", &NexusNames::sample_name},         {"user_name", &NexusNames::user_name},
    {"sensor_material", &NexusNames::sensor_material}, {"experiment_identifier", &NexusNames::experiment_identifier},
};

std::string quoted(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80);
}

bool is_name(const json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return text.size() <= name_bytes_max &&
         std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

Result<void> take_thickness(const json& value, const std::string& where, NexusNames& names) {
  if (value.is_null()) return {};
  const auto metres = value.is_number() ? value.get<double>() : 0.0;
  if (!std::isfinite(metres) || metres <= 0)
    return make_error(Errc::invalid_argument, "{}.sensor_thickness is {}; expected metres, a number above 0", where,
                      quoted(value));
  names.sensor_thickness_m = metres;
  return {};
}

/// Takes over the fields of `object`; an error tells of the first that cannot be.
Result<void> take(const json& object, const std::string& where, NexusNames& names) {
  if (!object.is_object())
    return make_error(Errc::invalid_argument, "{} is {}; expected an object", where, quoted(object));
  for (const auto& [name, value] : object.items()) {
    if (name == "sensor_thickness") {
      PEN_TRY(take_thickness(value, where, names));
      continue;
    }
    const auto* field = std::find_if(std::begin(fields), std::end(fields),
                                     [&, &name = name](const auto& f) { return name == f.first; });
    if (field == std::end(fields))
      return make_error(Errc::invalid_argument, "{}.{} is not known", where, name.substr(0, 64));
    if (value.is_null()) continue;
    if (!is_name(value))
      return make_error(Errc::invalid_argument,
                        "{}.{} is {}; expected text of at most {} bytes without control characters", where, name,
                        quoted(value), name_bytes_max);
    names.*(field->second) = value.get<std::string>();
  }
  return {};
}

}  // namespace

Result<NexusNames> NexusNames::from_json(const json& object, const std::string& where) {
  NexusNames names;
  PEN_TRY(take(object, where, names));
  return names;
}

NexusNames NexusNames::of_series(const std::optional<std::string>& user_data_json, const NexusNames& otherwise) {
  if (!user_data_json) return otherwise;
  const auto document = json::parse(*user_data_json, nullptr, false);
  const json::json_pointer at("/penstock/nexus");
  if (!document.is_object() || !document.contains(at)) return otherwise;
  const auto& told = document.at(at);
  auto names = otherwise;
  if (!told.is_object()) {
    spdlog::warn("user_data.penstock.nexus is {}; expected an object; the names of the configuration are used",
                 quoted(told));
    return names;
  }
  for (const auto& [name, value] : told.items())
    if (const auto taken = take(json::object({{name, value}}), "user_data.penstock.nexus", names); !taken.ok())
      spdlog::warn("{}; it is left out", taken.error().message());
  return names;
}

}  // namespace penstock::recorder
