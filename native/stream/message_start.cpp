#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "stream/cbor_json.hpp"
#include "stream/element.hpp"
#include "stream/message_fields.hpp"

namespace penstock::stream {
namespace {

/// A start message while it is read.
struct Start {
  const MessageLimits& limits;
  Series series;
  std::uint64_t columns = 0;
  std::uint64_t rows = 0;
  std::uint64_t planes = 0;  ///< 0 where a frame has two dimensions
  std::size_t unknown_bytes = 0;
};

using Read = Result<void> (*)(CborReader&, Start&);

struct Field {
  std::string_view name;
  bool required;
  Read read;
};

template <std::optional<double> Series::*member>
Result<void> read_number(CborReader& reader, Start& start) {
  PEN_ASSIGN(start.series.*member, reader.number());
  return {};
}

template <std::optional<bool> Series::*member>
Result<void> read_boolean(CborReader& reader, Start& start) {
  PEN_ASSIGN(start.series.*member, reader.boolean());
  return {};
}

template <std::optional<std::string> Series::*member>
Result<void> read_optional_text(CborReader& reader, Start& start) {
  PEN_ASSIGN(start.series.*member, read_text(reader, start.limits.text_bytes_max));
  return {};
}

Result<void> read_channels(CborReader& reader, Start& start) {
  auto& channels = start.series.channels;
  PEN_ASSIGN(auto array, reader.enter_array());
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(array));
    if (!another) break;
    if (channels.size() == start.limits.channels_max)
      return make_error(Errc::too_large, "more than {} channels", start.limits.channels_max);
    PEN_ASSIGN(auto channel, read_identifier(reader, start.limits));
    if (std::find(channels.begin(), channels.end(), channel) != channels.end())
      return make_error(Errc::malformed, "\"{}\" twice", channel);
    channels.push_back(std::move(channel));
  }
  if (channels.empty()) return make_error(Errc::malformed, "no channel");
  return {};
}

Result<void> read_translation(CborReader& reader, Start& start) {
  std::array<double, 3> translation{};
  std::size_t count = 0;
  PEN_ASSIGN(auto array, reader.enter_array());
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(array));
    if (!another) break;
    if (count == translation.size()) return make_error(Errc::malformed, "more than 3 numbers");
    PEN_ASSIGN(translation[count++], reader.number());
  }
  if (count != translation.size()) return make_error(Errc::malformed, "{} numbers, not 3", count);
  start.series.detector_translation_m = translation;
  return {};
}

Result<void> read_axis(CborReader& reader, GoniometerAxis& axis) {
  return for_each_entry(reader, [&](std::string_view key) -> Result<void> {
    if (key == "start") {
      PEN_ASSIGN(axis.start, reader.number());
    } else if (key == "increment") {
      PEN_ASSIGN(axis.increment, reader.number());
    } else {
      PEN_TRY(reader.skip());
    }
    return {};
  });
}

Result<void> read_goniometer(CborReader& reader, Start& start) {
  auto& axes = start.series.goniometer;
  return for_each_entry(reader, [&](std::string_view key) -> Result<void> {
    if (axes.size() == start.limits.channels_max)
      return make_error(Errc::too_large, "more than {} axes", start.limits.channels_max);
    if (key.size() > start.limits.identifier_bytes_max)
      return make_error(Errc::too_large, "an axis' name of {} bytes", key.size());
    GoniometerAxis axis{std::string(key), 0, 0};
    if (reader.peek() == CborKind::null) return reader.null();
    PEN_TRY(read_axis(reader, axis));
    axes.push_back(std::move(axis));
    return {};
  });
}

Result<NamedArray> read_named_array(CborReader& reader, std::string_view channel, const Start& start) {
  PEN_ASSIGN(auto field, read_array(reader, ArrayContext{start.limits, std::nullopt}));
  NamedArray array;
  array.channel = channel;
  array.spec = std::move(field.spec);
  array.data.assign(field.payload.begin(), field.payload.end());
  array.encoding = field.encoding;
  array.form = field.form;
  return array;
}

template <std::vector<NamedArray> Series::*member>
Result<void> read_arrays(CborReader& reader, Start& start) {
  auto& arrays = start.series.*member;
  return for_each_entry(reader, [&](std::string_view key) -> Result<void> {
    if (arrays.size() == start.limits.channels_max)
      return make_error(Errc::too_large, "more than {} channels", start.limits.channels_max);
    if (std::any_of(arrays.begin(), arrays.end(), [&](const auto& array) { return array.channel == key; }))
      return make_error(Errc::malformed, "twice");
    if (reader.peek() == CborKind::null) return reader.null();
    PEN_ASSIGN(auto array, read_named_array(reader, key, start));
    arrays.push_back(std::move(array));
    return {};
  });
}

Result<void> read_countrate_table(CborReader& reader, Start& start) {
  PEN_ASSIGN(auto array, read_named_array(reader, "", start));
  start.series.countrate_correction_table = std::move(array);
  return {};
}

Result<void> read_threshold_energy(CborReader& reader, Start& start) {
  auto& energies = start.series.threshold_energy_ev;
  return for_each_entry(reader, [&](std::string_view key) -> Result<void> {
    if (energies.size() == start.limits.channels_max)
      return make_error(Errc::too_large, "more than {} channels", start.limits.channels_max);
    if (reader.peek() == CborKind::null) return reader.null();
    PEN_ASSIGN(const auto energy, reader.number());
    if (!energies.emplace(key, energy).second) return make_error(Errc::malformed, "twice");
    return {};
  });
}

Result<void> read_type(CborReader& reader, Start& start) {
  std::string scratch;
  PEN_ASSIGN(const auto text, reader.text(scratch));
  // Half floats are kept as float32.
  const auto type = text == "float16" ? ElementType::f32 : element_type_of(text);
  if (!type) return make_error(Errc::unsupported, "\"{}\" is no element type", text.substr(0, 32));
  start.series.frame.type = *type;
  return {};
}

constexpr auto fields = std::to_array<Field>({
    {"series_id", true,
     [](CborReader& reader, Start& start) -> Result<void> {
       PEN_ASSIGN(start.series.id, reader.unsigned_integer());
       return {};
     }},
    {"series_unique_id", true,
     [](CborReader& reader, Start& start) -> Result<void> {
       PEN_ASSIGN(start.series.unique_id, read_identifier(reader, start.limits));
       return {};
     }},
    {"arm_date", false,
     [](CborReader& reader, Start& start) -> Result<void> {
       PEN_ASSIGN(start.series.arm_date, read_date(reader, start.limits));
       return {};
     }},
    {"number_of_images", false,
     [](CborReader& reader, Start& start) -> Result<void> {
       PEN_ASSIGN(start.series.frames, reader.unsigned_integer());
       return {};
     }},
    {"image_size_x", true,
     [](CborReader& reader, Start& start) -> Result<void> {
       PEN_ASSIGN(start.columns, reader.unsigned_integer());
       return {};
     }},
    {"image_size_y", true,
     [](CborReader& reader, Start& start) -> Result<void> {
       PEN_ASSIGN(start.rows, reader.unsigned_integer());
       return {};
     }},
    {"image_size_z", false,
     [](CborReader& reader, Start& start) -> Result<void> {
       PEN_ASSIGN(start.planes, reader.unsigned_integer());
       if (start.planes == 0) return make_error(Errc::malformed, "0; leave it out where frames have two dimensions");
       return {};
     }},
    {"image_dtype", true, read_type},
    {"channels", true, read_channels},
    {"beam_center_x", false, read_number<&Series::beam_center_x>},
    {"beam_center_y", false, read_number<&Series::beam_center_y>},
    {"count_time", false, read_number<&Series::count_time_s>},
    {"frame_time", false, read_number<&Series::frame_time_s>},
    {"incident_energy", false, read_number<&Series::incident_energy_ev>},
    {"incident_wavelength", false, read_number<&Series::incident_wavelength_angstrom>},
    {"pixel_size_x", false, read_number<&Series::pixel_size_x_m>},
    {"pixel_size_y", false, read_number<&Series::pixel_size_y_m>},
    {"sensor_thickness", false, read_number<&Series::sensor_thickness_m>},
    {"saturation_value", false,
     [](CborReader& reader, Start& start) -> Result<void> {
       PEN_ASSIGN(start.series.saturation_value, reader.unsigned_integer());
       return {};
     }},
    {"detector_translation", false, read_translation},
    {"detector_description", false, read_optional_text<&Series::detector_description>},
    {"detector_serial_number", false, read_optional_text<&Series::detector_serial_number>},
    {"sensor_material", false, read_optional_text<&Series::sensor_material>},
    {"countrate_correction_enabled", false, read_boolean<&Series::countrate_correction_enabled>},
    {"flatfield_enabled", false, read_boolean<&Series::flatfield_enabled>},
    {"pixel_mask_enabled", false, read_boolean<&Series::pixel_mask_enabled>},
    {"virtual_pixel_interpolation_enabled", false, read_boolean<&Series::virtual_pixel_interpolation_enabled>},
    {"threshold_energy", false, read_threshold_energy},
    {"goniometer", false, read_goniometer},
    {"pixel_mask", false, read_arrays<&Series::pixel_mask>},
    {"flatfield", false, read_arrays<&Series::flatfield>},
    {"countrate_correction_lookup_table", false, read_countrate_table},
    {"user_data", false,
     [](CborReader& reader, Start& start) -> Result<void> {
       const auto from = reader.offset();
       PEN_ASSIGN(start.series.user_data_json, read_as_json(reader, start.limits.text_bytes_max));
       const auto item = reader.taken_since(from);
       start.series.user_data_cbor.assign(item.begin(), item.end());
       return {};
     }},
});
static_assert(fields.size() <= 64);

/// Kept where there is room, passed over otherwise: what is not known cannot be wrong.
Result<void> read_unknown(CborReader& reader, const std::string& key, Start& start) {
  auto& unknown = start.series.unknown;
  const auto from = reader.offset();
  PEN_TRY(reader.skip());
  const auto item = reader.taken_since(from);
  if (unknown.size() == start.limits.metadata_max || key.size() > start.limits.identifier_bytes_max) return {};
  if (item.size() > start.limits.unknown_bytes_max - start.unknown_bytes) return {};
  start.unknown_bytes += item.size();
  unknown.insert_or_assign(key, std::vector(item.begin(), item.end()));
  return {};
}

Result<void> check_arrays(const std::vector<NamedArray>& arrays, const Series& series, std::string_view field) {
  const auto& frame = series.frame.shape;
  // Of frames with planes one array may stand for all of them.
  const std::vector<std::uint64_t> plane(frame.end() - 2, frame.end());
  for (const auto& array : arrays)
    if (array.spec.shape != frame && array.spec.shape != plane)
      return make_error(Errc::mismatch, "{}: \"{}\": shape [{}], but the images have [{}]", field, array.channel,
                        fmt::join(array.spec.shape, ", "), fmt::join(series.frame.shape, ", "));
  return {};
}

Result<void> check(Start& start) {
  auto& series = start.series;
  series.frame.shape = {start.rows, start.columns};
  if (start.planes > 0) series.frame.shape.insert(series.frame.shape.begin(), start.planes);
  const auto size = series.frame.bytes(start.limits.frame_bytes_max);
  if (!size.ok()) return size.error().with_context("image_size_z, image_size_y, image_size_x");
  PEN_ASSIGN(series.element, element_in(series.user_data_json));
  PEN_TRY(check_arrays(series.pixel_mask, series, "pixel_mask"));
  PEN_TRY(check_arrays(series.flatfield, series, "flatfield"));
  return {};
}

}  // namespace

Result<Series> read_start(CborReader& reader, CborContainer& container, const MessageLimits& limits) {
  Start start{limits, {}};
  std::uint64_t seen = 0;
  std::string scratch;
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(container));
    if (!another) break;
    PEN_ASSIGN(const auto key_view, reader.text(scratch));
    const std::string key(key_view);
    const auto found =
        std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.name == key; });
    if (found == fields.end()) {
      PEN_TRY(read_unknown(reader, key, start), "\"{}\"", key.substr(0, 64));
      continue;
    }
    const auto bit = std::uint64_t{1} << (found - fields.begin());
    if ((seen & bit) != 0) return make_error(Errc::malformed, "{}: twice", key);
    seen |= bit;
    if (!found->required && reader.peek() == CborKind::null) {
      PEN_TRY(reader.null());
      continue;
    }
    PEN_TRY(found->read(reader, start), "{}", key);
  }
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (fields[i].required && (seen & std::uint64_t{1} << i) == 0)
      return make_error(Errc::malformed, "{}: missing", fields[i].name);
  PEN_TRY(check(start));
  return std::move(start.series);
}

}  // namespace penstock::stream
