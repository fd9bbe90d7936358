#include "recorder/tree/possible.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "recorder/config/scan.hpp"
#include "stream/messages/cbor.hpp"

namespace penstock::recorder {
namespace {

using stream::CborWriter;

bool is_any(double value) { return std::isfinite(value); }
bool is_above_0(double value) { return std::isfinite(value) && value > 0; }
bool is_from_0(double value) { return std::isfinite(value) && value >= 0; }

struct Bound {
  const char* field;
  std::optional<double> Series::*value;
  bool (*possible)(double);
  const char* expected;
};

constexpr Bound bounds[] = {
    {"pixel_size_x", &Series::pixel_size_x_m, is_above_0, "a number above 0"},
    {"pixel_size_y", &Series::pixel_size_y_m, is_above_0, "a number above 0"},
    {"sensor_thickness", &Series::sensor_thickness_m, is_above_0, "a number above 0"},
    {"incident_wavelength", &Series::incident_wavelength_angstrom, is_above_0, "a number above 0"},
    {"incident_energy", &Series::incident_energy_ev, is_above_0, "a number above 0"},
    {"count_time", &Series::count_time_s, is_from_0, "a number of at least 0"},
    {"frame_time", &Series::frame_time_s, is_from_0, "a number of at least 0"},
    {"beam_center_x", &Series::beam_center_x, is_any, "a finite number"},
    {"beam_center_y", &Series::beam_center_y, is_any, "a finite number"},
};

/// Where they are kept as they were told.
class Aside {
 public:
  explicit Aside(Series& series) : series_(series) {}

  template <typename Encode>
  void put(const std::string& field, const std::string& value, const char* expected, Encode encode) {
    auto& item = series_.unknown[field + "_as_sent"];
    item.clear();
    CborWriter writer(item);
    encode(writer);
    remarks_.push_back(make_error(Errc::malformed, "{} is {}, expected {}: it is stored only as {}_as_sent", field,
                                  value, expected, field));
  }
  std::vector<Error> remarks() && { return std::move(remarks_); }

 private:
  Series& series_;
  std::vector<Error> remarks_;
};

void check_translation(Series& series, Aside& aside) {
  const auto& place = series.detector_translation_m;
  if (!place || std::all_of(place->begin(), place->end(), is_any)) return;
  const auto& [x, y, z] = *place;
  aside.put("detector_translation", fmt::format("[{}, {}, {}]", x, y, z), "three finite numbers", [&](auto& writer) {
    writer.array(place->size());
    for (const auto value : *place) writer.floating(value);
  });
  series.detector_translation_m.reset();
}

void check_thresholds(Series& series, Aside& aside) {
  std::map<std::string, double> impossible;
  for (const auto& [channel, energy] : series.threshold_energy_ev)
    if (!is_from_0(energy)) impossible.emplace(channel, energy);
  if (impossible.empty()) return;
  const auto& [channel, energy] = *impossible.begin();
  aside.put("threshold_energy", fmt::format("{} of channel \"{}\"", energy, channel), "a number of at least 0",
            [&](auto& writer) {
              writer.map(impossible.size());
              for (const auto& [name, value] : impossible) {
                writer.text(name);
                writer.floating(value);
              }
            });
  for (const auto& [name, value] : impossible) series.threshold_energy_ev.erase(name);
}

void check_goniometer(Series& series, Aside& aside) {
  const auto turns = [](const GoniometerAxis& axis) { return is_any(axis.start) && is_any(axis.increment); };
  const auto first = std::stable_partition(series.goniometer.begin(), series.goniometer.end(), turns);
  if (first == series.goniometer.end()) return;
  aside.put("goniometer", fmt::format("{} + {} a frame of axis \"{}\"", first->start, first->increment, first->name),
            "a finite number for each", [&](auto& writer) {
              writer.map(static_cast<std::uint64_t>(series.goniometer.end() - first));
              for (auto axis = first; axis != series.goniometer.end(); ++axis) {
                writer.text(axis->name);
                writer.map(2);
                writer.text("start");
                writer.floating(axis->start);
                writer.text("increment");
                writer.floating(axis->increment);
              }
            });
  series.goniometer.erase(first, series.goniometer.end());
}

}  // namespace

bool set_scan_aside(Series& series, const Error& why) {
  const auto scan = ScanConfig::told_in(series.user_data_json);
  if (!scan) return false;
  const auto cbor = nlohmann::json::to_cbor(*scan);
  const auto item = std::as_bytes(std::span(cbor));
  series.unknown["scan_as_sent"].assign(item.begin(), item.end());
  series.remarks.push_back(make_error(
      why.code(), "{}: it is stored only as scan_as_sent, and the frames are recorded in their order", why.message()));
  return true;
}

std::vector<Error> set_aside_impossible(Series& series) {
  Aside aside(series);
  for (const auto& bound : bounds) {
    auto& value = series.*bound.value;
    if (!value || bound.possible(*value)) continue;
    aside.put(bound.field, fmt::format("{}", *value), bound.expected, [&](auto& writer) { writer.floating(*value); });
    value.reset();
  }
  check_translation(series, aside);
  check_thresholds(series, aside);
  check_goniometer(series, aside);
  return std::move(aside).remarks();
}

}  // namespace penstock::recorder
