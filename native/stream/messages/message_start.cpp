#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "stream/element.hpp"
#include "stream/messages/cbor_json.hpp"
#include "stream/messages/message_fields.hpp"

namespace penstock::stream {
namespace {

/// A start message while it is read.
struct Start {
  const MessageLimits& limits;
  Series series;
  std::optional<std::uint64_t> columns;
  std::optional<std::uint64_t> rows;
  std::uint64_t planes = 0;  ///< 0 where a frame has two dimensions
  std::size_t unknown_bytes = 0;
  std::uint64_t told_twice = 0;  ///< a bit for each field, so that a message has few remarks however long it is
  // As they came: whether they fit the images shows when all is read.
  Bytes pixel_mask_item;
  Bytes flatfield_item;
};

using Read = Result<void> (*)(CborReader&, Start&);

/// What becomes of the series without a field: some have to be there, some decide how pixels are recorded if they are.
enum class Need { always, right, never };

struct Field {
  std::string_view name;
  Need need;
  Read read;
};

bool keep_item(const std::string& key, Bytes item, Start& start) {
  auto& unknown = start.series.unknown;
  if (unknown.size() == start.limits.metadata_max || key.size() > start.limits.identifier_bytes_max) return false;
  if (item.size() > start.limits.unknown_bytes_max - start.unknown_bytes) return false;
  start.unknown_bytes += item.size();
  unknown.insert_or_assign(key, std::vector(item.begin(), item.end()));
  return true;
}

/// The frames of a start message that is refused would not come again: what is not understood is only kept.
void set_aside(std::string_view field, Bytes item, const Error& why, Start& start) {
  const auto name = fmt::format("{}_as_sent", field);
  const auto fate = keep_item(name, item, start) ? fmt::format("it is stored only as {}", name) : "it is left out";
  start.series.remarks.push_back(make_error(why.code(), "{}: {}: {}", shown_field(field, item), why.message(), fate));
}

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
  return for_each_good_entry(reader, [&](std::string_view key, CborReader& item) -> Result<void> {
    if (axes.size() == start.limits.channels_max)
      return make_error(Errc::too_large, "more than {} axes", start.limits.channels_max);
    if (key.size() > start.limits.identifier_bytes_max)
      return make_error(Errc::too_large, "an axis' name of {} bytes", key.size());
    GoniometerAxis axis{std::string(key), 0, 0};
    if (item.peek() == CborKind::null) return item.null();
    PEN_TRY(read_axis(item, axis));
    axes.push_back(std::move(axis));
    return {};
  });
}

Result<NamedArray> read_named_array(CborReader& reader, std::string_view channel, const Start& start) {
  auto limits = start.limits;
  limits.frame_bytes_max = limits.table_bytes_max;
  PEN_ASSIGN(auto field, read_array(reader, ArrayContext{limits, std::nullopt}));
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
  return for_each_good_entry(reader, [&](std::string_view key, CborReader& item) -> Result<void> {
    if (arrays.size() == start.limits.channels_max)
      return make_error(Errc::too_large, "more than {} channels", start.limits.channels_max);
    if (std::any_of(arrays.begin(), arrays.end(), [&](const auto& array) { return array.channel == key; }))
      return make_error(Errc::malformed, "twice");
    if (item.peek() == CborKind::null) return item.null();
    PEN_ASSIGN(auto array, read_named_array(item, key, start));
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
  return for_each_good_entry(reader, [&](std::string_view key, CborReader& item) -> Result<void> {
    if (energies.size() == start.limits.channels_max)
      return make_error(Errc::too_large, "more than {} channels", start.limits.channels_max);
    if (item.peek() == CborKind::null) return item.null();
    PEN_ASSIGN(const auto energy, item.number());
    if (!energies.emplace(key, energy).second) return make_error(Errc::malformed, "twice");
    return {};
  });
}

/// DECTRIS' header_appendix is passed on as it was given: as text too, which may be JSON.
Result<void> read_user_data(CborReader& reader, Start& start) {
  if (reader.peek() == CborKind::text) {
    auto trial = reader;
    PEN_ASSIGN(const auto text, read_text(trial, start.limits.text_bytes_max));
    if (auto object = object_in_text(text, start.limits)) {
      start.series.user_data_json = std::move(*object);
      reader.catch_up(trial);
      return {};
    }
  }
  const auto from = reader.offset();
  PEN_ASSIGN(start.series.user_data_json, read_as_json(reader, start.limits.text_bytes_max));
  const auto item = reader.taken_since(from);
  start.series.user_data_cbor.assign(item.begin(), item.end());
  return {};
}

Result<void> read_type(CborReader& reader, Start& start) {
  std::string scratch;
  PEN_ASSIGN(const auto text, reader.text(scratch));
  // Half floats are kept as float32.
  const auto type = text == "float16" ? ElementType::f32 : element_type_of(text);
  if (!type) return make_error(Errc::unsupported, "\"{}\" is not an element type", text.substr(0, 32));
  start.series.frame.type = *type;
  start.series.has_type = true;
  return {};
}

constexpr auto fields = std::to_array<Field>({
    {"series_id", Need::right,
     [](CborReader& reader, Start& start) -> Result<void> {
       PEN_ASSIGN(start.series.id, reader.unsigned_integer());
       return {};
     }},
    {"series_unique_id", Need::always,
     [](CborReader& reader, Start& start) -> Result<void> {
       PEN_ASSIGN(start.series.unique_id, read_identifier(reader, start.limits));
       return {};
     }},
    {"arm_date", Need::never,
     [](CborReader& reader, Start& start) -> Result<void> {
       PEN_ASSIGN(start.series.arm_date, read_date(reader, start.limits));
       return {};
     }},
    {"number_of_images", Need::right,
     [](CborReader& reader, Start& start) -> Result<void> {
       PEN_ASSIGN(start.series.frames, reader.unsigned_integer());
       return {};
     }},
    {"image_size_x", Need::right,
     [](CborReader& reader, Start& start) -> Result<void> {
       PEN_ASSIGN(start.columns, reader.unsigned_integer());
       return {};
     }},
    {"image_size_y", Need::right,
     [](CborReader& reader, Start& start) -> Result<void> {
       PEN_ASSIGN(start.rows, reader.unsigned_integer());
       return {};
     }},
    {"image_size_z", Need::right,
     [](CborReader& reader, Start& start) -> Result<void> {
       PEN_ASSIGN(start.planes, reader.unsigned_integer());
       if (start.planes == 0) return make_error(Errc::malformed, "0; leave it out for frames with two dimensions");
       return {};
     }},
    {"image_dtype", Need::right, read_type},
    {"channels", Need::right, read_channels},
    {"beam_center_x", Need::never, read_number<&Series::beam_center_x>},
    {"beam_center_y", Need::never, read_number<&Series::beam_center_y>},
    {"count_time", Need::never, read_number<&Series::count_time_s>},
    {"frame_time", Need::never, read_number<&Series::frame_time_s>},
    {"incident_energy", Need::never, read_number<&Series::incident_energy_ev>},
    {"incident_wavelength", Need::never, read_number<&Series::incident_wavelength_angstrom>},
    {"pixel_size_x", Need::never, read_number<&Series::pixel_size_x_m>},
    {"pixel_size_y", Need::never, read_number<&Series::pixel_size_y_m>},
    {"sensor_thickness", Need::never, read_number<&Series::sensor_thickness_m>},
    {"saturation_value", Need::never,
     [](CborReader& reader, Start& start) -> Result<void> {
       PEN_ASSIGN(start.series.saturation_value, reader.unsigned_integer());
       return {};
     }},
    {"detector_translation", Need::never, read_translation},
    {"detector_description", Need::never, read_optional_text<&Series::detector_description>},
    {"detector_serial_number", Need::never, read_optional_text<&Series::detector_serial_number>},
    {"sensor_material", Need::never, read_optional_text<&Series::sensor_material>},
    {"countrate_correction_enabled", Need::never, read_boolean<&Series::countrate_correction_enabled>},
    {"flatfield_enabled", Need::never, read_boolean<&Series::flatfield_enabled>},
    {"pixel_mask_enabled", Need::never, read_boolean<&Series::pixel_mask_enabled>},
    {"virtual_pixel_interpolation_enabled", Need::never, read_boolean<&Series::virtual_pixel_interpolation_enabled>},
    {"threshold_energy", Need::never, read_threshold_energy},
    {"goniometer", Need::never, read_goniometer},
    {"pixel_mask", Need::never, read_arrays<&Series::pixel_mask>},
    {"flatfield", Need::never, read_arrays<&Series::flatfield>},
    {"countrate_correction_lookup_table", Need::never, read_countrate_table},
    {"user_data", Need::never, read_user_data},
});
static_assert(fields.size() <= 64);

/// Kept where there is room, passed over otherwise: what is not known cannot be wrong.
Result<void> read_unknown(CborReader& reader, const std::string& key, Start& start) {
  const auto from = reader.offset();
  PEN_TRY(reader.skip());
  (void)keep_item(key, reader.taken_since(from), start);
  return {};
}

/// A field without which the series can be recorded.
Result<void> read_optional(CborReader& reader, const Field& field, Start& start) {
  const auto from = reader.offset();
  PEN_ASSIGN(const auto problem, attempt(reader, [&](CborReader& trial) { return field.read(trial, start); }));
  const auto item = reader.taken_since(from);
  if (field.name == "pixel_mask") start.pixel_mask_item = item;
  if (field.name == "flatfield") start.flatfield_item = item;
  if (problem) set_aside(field.name, item, *problem, start);
  return {};
}

Result<void> read_field(CborReader& reader, const Field& field, std::uint64_t& seen, Start& start) {
  const auto bit = std::uint64_t{1} << (&field - fields.data());
  if ((seen & bit) != 0 && field.need != Need::never) return make_error(Errc::malformed, "twice");
  if ((seen & bit) != 0) {
    if ((start.told_twice & bit) == 0)
      start.series.remarks.push_back(make_error(Errc::malformed, "{}: duplicate: the first one is used", field.name));
    start.told_twice |= bit;
    return reader.skip();
  }
  seen |= bit;
  if (field.need != Need::always && reader.peek() == CborKind::null) return reader.null();
  return field.need == Need::never ? read_optional(reader, field, start) : field.read(reader, start);
}

/// Masks and flat fields that do not fit the images say nothing about them.
Result<void> check_array(const NamedArray& array, const Series& series) {
  const auto& channels = series.channels;
  if (!channels.empty() && std::find(channels.begin(), channels.end(), array.channel) == channels.end())
    return make_error(Errc::mismatch, "\"{}\" is not one of the series' channels [{}]", array.channel.substr(0, 64),
                      fmt::join(channels, ", "));
  const auto& frame = series.frame.shape;
  if (frame.empty()) return {};
  // Of frames with planes one array may stand for all of them.
  const std::vector<std::uint64_t> plane(frame.end() - std::min<std::ptrdiff_t>(2, std::ssize(frame)), frame.end());
  if (array.spec.shape != frame && array.spec.shape != plane)
    return make_error(Errc::mismatch, "\"{}\": shape [{}], but the images have [{}]", array.channel,
                      fmt::join(array.spec.shape, ", "), fmt::join(series.frame.shape, ", "));
  return {};
}

/// The first error, if any of the arrays does not fit what is known of the images.
std::optional<Error> drop_misfits(std::vector<NamedArray>& arrays, const Series& series) {
  std::optional<Error> first;
  std::erase_if(arrays, [&](const NamedArray& array) {
    const auto checked = check_array(array, series);
    if (!checked.ok() && !first) first = checked.error();
    return !checked.ok();
  });
  return first;
}

Result<void> check(Start& start) {
  auto& series = start.series;
  // One of them alone is no shape.
  if (start.rows && start.columns) {
    series.frame.shape = {*start.rows, *start.columns};
    if (start.planes > 0) series.frame.shape.insert(series.frame.shape.begin(), start.planes);
    const auto size = series.frame.bytes(start.limits.frame_bytes_max);
    if (!size.ok()) return size.error().with_context("image_size_z, image_size_y, image_size_x");
  }
  PEN_ASSIGN(series.element, element_in(series.user_data_json));
  if (const auto why = drop_misfits(series.pixel_mask, series))
    set_aside("pixel_mask", start.pixel_mask_item, *why, start);
  if (const auto why = drop_misfits(series.flatfield, series))
    set_aside("flatfield", start.flatfield_item, *why, start);
  return {};
}

}  // namespace

std::string_view lacks(const Series& start) {
  if (!start.has_type) return "image_dtype";
  if (start.frame.shape.empty()) return "image_size_x, image_size_y";
  return start.channels.empty() ? "channels" : "";
}

void complete(Series& start, const ImageMessage& image) {
  if (image.channels.empty()) return;
  const auto& spec = image.channels.front().spec;
  if (!start.has_type) start.frame.type = spec.type;
  start.has_type = true;
  if (start.frame.shape.empty()) start.frame.shape = spec.shape;
  if (start.channels.empty())
    for (const auto& channel : image.channels) start.channels.push_back(channel.channel);
  const auto left_out = [&](std::string_view field, std::vector<NamedArray>& arrays) {
    if (const auto why = drop_misfits(arrays, start))
      start.remarks.push_back(make_error(why->code(), "{}: {}: it is left out", field, why->message()));
  };
  left_out("pixel_mask", start.pixel_mask);
  left_out("flatfield", start.flatfield);
}

Result<Series> read_start(CborReader& reader, CborContainer& container, const MessageLimits& limits) {
  Start start{.limits = limits, .series = {}, .columns = {}, .rows = {}, .pixel_mask_item = {}, .flatfield_item = {}};
  start.series.has_type = false;
  std::uint64_t seen = 0;
  bool has_type = false;
  std::string scratch;
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(container));
    if (!another) break;
    PEN_ASSIGN(const auto key_view, reader.text(scratch));
    const std::string key(key_view);
    if (key == "type") {
      PEN_TRY(pass_type(reader, has_type));
      continue;
    }
    const auto found =
        std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.name == key; });
    if (found == fields.end()) {
      PEN_TRY(read_unknown(reader, key, start), "\"{}\"", key.substr(0, 64));
      continue;
    }
    PEN_TRY(read_field(reader, *found, seen, start), "{}", key);
  }
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (fields[i].need == Need::always && (seen & std::uint64_t{1} << i) == 0)
      return make_error(Errc::malformed, "{}: missing", fields[i].name);
  PEN_TRY(check(start));
  return std::move(start.series);
}

}  // namespace penstock::stream
