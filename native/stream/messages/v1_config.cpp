#include "stream/messages/v1_config.hpp"

#include <algorithm>
#include <array>

#include "stream/messages/v1_json.hpp"

namespace penstock::stream {
namespace {

/// What the keys say together is put together when all of them are read.
struct Reading {
  Series& series;
  std::uint64_t columns = 0;
  std::uint64_t rows = 0;
  std::uint64_t images_a_trigger = 0;
  std::uint64_t triggers = 1;
  std::optional<double> distance_m;
  std::map<std::string, GoniometerAxis> axes;
};

/// False where the value is not what it should be.
using Read = bool (*)(const Json&, Reading&);

struct Key {
  std::string_view name;
  std::string_view expected;
  Read read;
};

constexpr std::string_view number = "a number";
constexpr std::string_view whole = "a whole number";
constexpr std::string_view text = "text";
constexpr std::string_view flag = "true or false";

template <std::optional<double> Series::*member>
bool read_number(const Json& value, Reading& reading) {
  const auto read = number_of(value);
  if (read) reading.series.*member = *read;
  return read.has_value();
}

template <std::optional<std::string> Series::*member>
bool read_text(const Json& value, Reading& reading) {
  if (!value.is_string()) return false;
  reading.series.*member = value.get<std::string>();
  return true;
}

/// Some control units send 0 and 1.
template <std::optional<bool> Series::*member>
bool read_flag(const Json& value, Reading& reading) {
  if (value.is_boolean())
    reading.series.*member = value.get<bool>();
  else if (value.is_number_unsigned() && value.get<std::uint64_t>() <= 1)
    reading.series.*member = value.get<std::uint64_t>() == 1;
  else
    return false;
  return true;
}

template <std::uint64_t Reading::*member>
bool read_whole(const Json& value, Reading& reading) {
  const auto read = whole_of(value);
  if (read) reading.*member = *read;
  return read.has_value();
}

bool read_bit_depth(const Json& value, Reading& reading) {
  const auto bits = whole_of(value);
  if (!bits) return false;
  const auto type = element_type_of(fmt::format("uint{}", *bits));
  if (type) reading.series.frame.type = *type;
  return type.has_value();
}

bool read_threshold(const Json& value, Reading& reading) {
  const auto energy = number_of(value);
  if (energy) reading.series.threshold_energy_ev[reading.series.channels.front()] = *energy;
  return energy.has_value();
}

bool read_translation(const Json& value, Reading& reading) {
  const auto is_number = [](const Json& item) { return item.is_number(); };
  if (!value.is_array() || value.size() != 3 || !std::all_of(value.begin(), value.end(), is_number)) return false;
  reading.series.detector_translation_m = {value[0].get<double>(), value[1].get<double>(), value[2].get<double>()};
  return true;
}

constexpr auto keys = std::to_array<Key>({
    {"beam_center_x", number, read_number<&Series::beam_center_x>},
    {"beam_center_y", number, read_number<&Series::beam_center_y>},
    {"bit_depth_image", "8, 16, 32 or 64", read_bit_depth},
    {"bit_depth_readout", whole,
     [](const Json& value, Reading& reading) {
       const auto bits = whole_of(value);
       if (bits) reading.series.bit_depth_readout = *bits;
       return bits.has_value();
     }},
    {"count_time", number, read_number<&Series::count_time_s>},
    {"countrate_correction_applied", flag, read_flag<&Series::countrate_correction_enabled>},
    {"countrate_correction_count_cutoff", whole,
     [](const Json& value, Reading& reading) {
       const auto counts = whole_of(value);
       if (counts) reading.series.saturation_value = *counts;
       return counts.has_value();
     }},
    {"data_collection_date", text,
     [](const Json& value, Reading& reading) {
       constexpr std::size_t date_bytes_max = 256;
       if (!value.is_string() || value.get_ref<const std::string&>().size() > date_bytes_max) return false;
       reading.series.arm_date = value.get<std::string>();
       return true;
     }},
    {"description", text, read_text<&Series::detector_description>},
    {"detector_distance", number,
     [](const Json& value, Reading& reading) {
       const auto metres = number_of(value);
       if (metres) reading.distance_m = *metres;
       return metres.has_value();
     }},
    {"detector_number", text, read_text<&Series::detector_serial_number>},
    {"detector_translation", "three numbers", read_translation},
    {"flatfield_correction_applied", flag, read_flag<&Series::flatfield_enabled>},
    {"frame_time", number, read_number<&Series::frame_time_s>},
    {"nimages", whole, read_whole<&Reading::images_a_trigger>},
    {"ntrigger", whole, read_whole<&Reading::triggers>},
    {"photon_energy", number, read_number<&Series::incident_energy_ev>},
    {"pixel_mask_applied", flag, read_flag<&Series::pixel_mask_enabled>},
    {"sensor_material", text, read_text<&Series::sensor_material>},
    {"sensor_thickness", number, read_number<&Series::sensor_thickness_m>},
    {"threshold_energy", number, read_threshold},
    {"virtual_pixel_correction_applied", flag, read_flag<&Series::virtual_pixel_interpolation_enabled>},
    {"wavelength", number, read_number<&Series::incident_wavelength_angstrom>},
    {"x_pixel_size", number, read_number<&Series::pixel_size_x_m>},
    {"x_pixels_in_detector", whole, read_whole<&Reading::columns>},
    {"y_pixel_size", number, read_number<&Series::pixel_size_y_m>},
    {"y_pixels_in_detector", whole, read_whole<&Reading::rows>},
});

constexpr std::array<std::string_view, 5> axis_names{"chi", "kappa", "omega", "phi", "two_theta"};

/// "omega_start", "omega_increment" and those of the other axes. Nothing where the key is no such.
std::optional<bool> read_axis(const std::string& key, const Json& value, Reading& reading) {
  const auto cut = key.rfind('_');
  if (cut == std::string::npos) return std::nullopt;
  const auto name = key.substr(0, cut), what = key.substr(cut + 1);
  if (std::find(axis_names.begin(), axis_names.end(), name) == axis_names.end()) return std::nullopt;
  if (what != "start" && what != "increment") return std::nullopt;
  const auto angle = number_of(value);
  if (!angle) return false;
  auto& axis = reading.axes[name];
  axis.name = name;
  (what == "start" ? axis.start : axis.increment) = *angle;
  return true;
}

void keep(const std::string& key, const Json& value, const MessageLimits& limits, Series& series) {
  if (value.is_null() || series.unknown.size() >= limits.metadata_max || key.size() > limits.identifier_bytes_max)
    return;
  const auto cbor = Json::to_cbor(value);
  const auto bytes = std::as_bytes(std::span(cbor));
  series.unknown[key].assign(bytes.begin(), bytes.end());
}

void conclude(const Reading& reading, const MessageLimits& limits, V1Header& header) {
  auto& series = header.series;
  if (reading.rows > 0 && reading.columns > 0) {
    ArraySpec frame{series.frame.type, {reading.rows, reading.columns}};
    if (const auto bytes = frame.bytes(limits.frame_bytes_max); bytes.ok())
      series.frame = std::move(frame);
    else
      header.remarks.push_back(bytes.error().with_context("y_pixels_in_detector, x_pixels_in_detector"));
  }
  constexpr std::uint64_t images_max = std::uint64_t{1} << 48;
  if (reading.triggers > 0 && reading.images_a_trigger > images_max / reading.triggers)
    header.remarks.push_back(make_error(Errc::too_large,
                                        "nimages is {} and ntrigger {}; the series is taken as open-ended",
                                        reading.images_a_trigger, reading.triggers));
  else
    series.frames = reading.images_a_trigger * reading.triggers;
  if (reading.distance_m && !series.detector_translation_m) series.detector_translation_m = {0, 0, *reading.distance_m};
  for (const auto& [name, axis] : reading.axes) series.goniometer.push_back(axis);
}

}  // namespace

void read_v1_config(const Json& config, const MessageLimits& limits, V1Header& header) {
  Reading reading{.series = header.series, .distance_m = {}, .axes = {}};
  for (const auto& [key, value] : config.items()) {
    if (value.is_null()) continue;
    const auto known = std::find_if(keys.begin(), keys.end(), [&key = key](const Key& k) { return k.name == key; });
    const auto taken =
        known != keys.end() ? std::optional(known->read(value, reading)) : read_axis(key, value, reading);
    if (taken && *taken) continue;
    keep(key, value, limits, header.series);
    if (taken)
      header.remarks.push_back(make_error(Errc::malformed, "{} is {}, expected {}; it is stored unchanged",
                                          key.substr(0, 64),
                                          value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 64),
                                          known != keys.end() ? known->expected : number));
  }
  conclude(reading, limits, header);
}

}  // namespace penstock::stream
