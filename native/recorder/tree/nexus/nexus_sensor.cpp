#include "recorder/tree/nexus/nexus_sensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

namespace penstock::recorder {
namespace {

constexpr auto formulas = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"si", "Si"},
    {"silicon", "Si"},
    {"cdte", "CdTe"},
    {"cadmium telluride", "CdTe"},
    {"gaas", "GaAs"},
    {"gallium arsenide", "GaAs"},
});

std::string in_lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// The chemical formula of a material that senders call by another name.
std::string formula_of(const std::string& material) {
  const auto name = in_lower_case(material);
  const auto* found =
      std::find_if(formulas.begin(), formulas.end(), [&](const auto& formula) { return formula.first == name; });
  return found == formulas.end() ? material : std::string(found->second);
}

bool is_known(const std::string& material) {
  return std::any_of(formulas.begin(), formulas.end(), [&](const auto& formula) { return formula.second == material; });
}

bool says_nothing(const std::string& material) { return material.empty() || in_lower_case(material) == "unknown"; }

}  // namespace

Sensor sensor_of(const Series& series, const NexusNames& names) {
  const auto sent = series.sensor_material.value_or("");
  const auto& material = says_nothing(sent) ? names.sensor_material : sent;
  return {formula_of(material), series.sensor_thickness_m ? series.sensor_thickness_m : names.sensor_thickness_m};
}

std::string sensor_problem(const Sensor& sensor) {
  std::string problem;
  if (sensor.material.empty())
    problem = "sensor_material is not known: set nexus.sensor_material";
  else if (!is_known(sensor.material))
    problem = fmt::format("sensor_material is {}, and DIALS knows only Si, CdTe and GaAs", sensor.material);
  if (!sensor.thickness_m)
    problem += (problem.empty() ? "" : "; ") + std::string("sensor_thickness is not known: set nexus.sensor_thickness");
  return problem;
}

}  // namespace penstock::recorder
