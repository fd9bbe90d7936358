#include "stream/messages/array_field.hpp"
#include "stream/messages/cbor.hpp"
#include "stream/messages/cbor_json.hpp"
#include "stream/messages/message.hpp"

namespace penstock::stream {
namespace {

std::string_view algorithm_of(Encoding encoding) {
  // Only these three have a name in Stream V2; whoever sends another has not checked its options.
  switch (encoding) {
    case Encoding::bitshuffle_lz4: return "bslz4";
    case Encoding::bitshuffle_zstd: return "bszstd";
    case Encoding::lz4: return "lz4";
    default: return name(encoding);
  }
}

/// Everything of an array up to its byte string.
void write_array_head(CborWriter& writer, const ArraySpec& spec, Encoding encoding, const WireForm& form) {
  writer.tag(form.column_major ? tag_column_major : tag_row_major);
  writer.array(2);
  writer.array(spec.shape.size());
  for (const auto extent : spec.shape) writer.unsigned_integer(extent);
  writer.tag(typed_array_tag(spec.type, form));
  if (encoding == Encoding::none) return;
  writer.tag(tag_compressed);
  writer.array(3);
  writer.text(algorithm_of(encoding));
  writer.unsigned_integer(encoding == Encoding::lz4 ? 0 : form.element_bytes(spec.type));
}

/// A map whose entries are counted as they are written.
class MapWriter {
 public:
  explicit MapWriter(CborWriter& writer) : writer_(writer) {}

  CborWriter& key(std::string_view name) {
    ++entries_;
    writer_.text(name);
    return writer_;
  }
  void field(std::string_view name, std::uint64_t value) { key(name).unsigned_integer(value); }
  void field(std::string_view name, const std::string& value) { key(name).text(value); }
  void field(std::string_view name, double value) { key(name).floating(value); }
  void field(std::string_view name, bool value) { key(name).boolean(value); }
  template <typename T>
  void field(std::string_view name, const std::optional<T>& value) {
    if (value) field(name, *value);
  }
  std::uint64_t entries() const { return entries_; }

 private:
  CborWriter& writer_;
  std::uint64_t entries_ = 0;
};

void write_date(CborWriter& writer, const std::string& date) {
  writer.tag(tag_date_time);
  writer.text(date);
}

void write_array(CborWriter& writer, const NamedArray& array) {
  write_array_head(writer, array.spec, array.encoding, array.form);
  writer.bytes(array.data);
}

void write_arrays(MapWriter& map, std::string_view name, const std::vector<NamedArray>& arrays) {
  if (arrays.empty()) return;
  auto& writer = map.key(name);
  writer.map(arrays.size());
  for (const auto& array : arrays) {
    writer.text(array.channel);
    write_array(writer, array);
  }
}

void write_numbers(MapWriter& map, const Series& series) {
  map.field("beam_center_x", series.beam_center_x);
  map.field("beam_center_y", series.beam_center_y);
  map.field("count_time", series.count_time_s);
  map.field("frame_time", series.frame_time_s);
  map.field("incident_energy", series.incident_energy_ev);
  map.field("incident_wavelength", series.incident_wavelength_angstrom);
  map.field("pixel_size_x", series.pixel_size_x_m);
  map.field("pixel_size_y", series.pixel_size_y_m);
  map.field("sensor_thickness", series.sensor_thickness_m);
  map.field("saturation_value", series.saturation_value);
  map.field("detector_description", series.detector_description);
  map.field("detector_serial_number", series.detector_serial_number);
  map.field("sensor_material", series.sensor_material);
  map.field("countrate_correction_enabled", series.countrate_correction_enabled);
  map.field("flatfield_enabled", series.flatfield_enabled);
  map.field("pixel_mask_enabled", series.pixel_mask_enabled);
  map.field("virtual_pixel_interpolation_enabled", series.virtual_pixel_interpolation_enabled);
}

void write_geometry(MapWriter& map, const Series& series) {
  if (series.detector_translation_m) {
    auto& writer = map.key("detector_translation");
    writer.array(3);
    for (const auto value : *series.detector_translation_m) writer.floating(value);
  }
  if (!series.goniometer.empty()) {
    auto& writer = map.key("goniometer");
    writer.map(series.goniometer.size());
    for (const auto& axis : series.goniometer) {
      writer.text(axis.name);
      writer.map(2);
      writer.text("increment");
      writer.floating(axis.increment);
      writer.text("start");
      writer.floating(axis.start);
    }
  }
  if (!series.threshold_energy_ev.empty()) {
    auto& writer = map.key("threshold_energy");
    writer.map(series.threshold_energy_ev.size());
    for (const auto& [channel, energy] : series.threshold_energy_ev) {
      writer.text(channel);
      writer.floating(energy);
    }
  }
}

void write_channels(MapWriter& map, const std::vector<std::string>& channels) {
  if (channels.empty()) return;
  auto& writer = map.key("channels");
  writer.array(channels.size());
  for (const auto& channel : channels) writer.text(channel);
}

void write_start_fields(MapWriter& map, const Series& series) {
  map.key("type").text("start");
  map.field("series_id", series.id);
  map.field("series_unique_id", series.unique_id);
  if (!series.arm_date.empty()) write_date(map.key("arm_date"), series.arm_date);
  map.field("number_of_images", series.frames);
  const auto& shape = series.frame.shape;
  if (shape.size() > 2) map.field("image_size_z", shape[shape.size() - 3]);
  if (!shape.empty()) {
    map.field("image_size_y", shape.size() > 1 ? shape[shape.size() - 2] : std::uint64_t{1});
    map.field("image_size_x", shape.back());
  }
  if (series.has_type) map.key("image_dtype").text(name(series.frame.type));
  write_channels(map, series.channels);
  write_numbers(map, series);
  write_geometry(map, series);
  write_arrays(map, "pixel_mask", series.pixel_mask);
  write_arrays(map, "flatfield", series.flatfield);
  if (series.countrate_correction_table)
    write_array(map.key("countrate_correction_lookup_table"), *series.countrate_correction_table);
  if (!series.user_data_cbor.empty())
    map.key("user_data").raw(series.user_data_cbor);
  else if (series.user_data_json)
    write_json(map.key("user_data"), *series.user_data_json);
  for (const auto& [name, item] : series.unknown) map.key(name).raw(item);
}

void write_time(CborWriter& writer, std::string_view name, std::int64_t ns) {
  if (ns < 0) return;
  writer.text(name);
  writer.array(2);
  writer.unsigned_integer(static_cast<std::uint64_t>(ns));
  writer.unsigned_integer(1'000'000'000);
}

void write_value(CborWriter& writer, const MetaValue& value) {
  std::visit(
      [&](const auto& held) {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::int64_t>) writer.integer(held);
        if constexpr (std::is_same_v<Held, std::uint64_t>) writer.unsigned_integer(held);
        if constexpr (std::is_same_v<Held, double>) writer.floating(held);
        if constexpr (std::is_same_v<Held, std::string>) writer.text(held);
        if constexpr (std::is_same_v<Held, MetaArray>) {
          write_array_head(writer, held.spec, held.encoding, held.form);
          writer.bytes(held.data);
        }
      },
      value);
}

/// Everything up to the map of channels under `data`, which comes last.
void write_image_fields(CborWriter& writer, const ImageMessage& image) {
  std::uint64_t entries = 5;
  for (const auto ns : {image.start_ns, image.stop_ns, image.real_ns}) entries += ns >= 0 ? 1 : 0;
  entries += image.series_date.empty() ? 0 : 1;
  entries += image.metadata.empty() ? 0 : 1;
  writer.tag(tag_self_described);
  writer.map(entries);
  writer.text("type");
  writer.text("image");
  writer.text("series_id");
  writer.unsigned_integer(image.series_id);
  writer.text("series_unique_id");
  writer.text(image.series_unique_id);
  writer.text("image_id");
  writer.unsigned_integer(image.image_id);
  if (!image.series_date.empty()) {
    writer.text("series_date");
    write_date(writer, image.series_date);
  }
  write_time(writer, "start_time", image.start_ns);
  write_time(writer, "stop_time", image.stop_ns);
  write_time(writer, "real_time", image.real_ns);
  if (!image.metadata.empty()) {
    writer.text("user_data");
    writer.map(image.metadata.size());
    for (const auto& [key, value] : image.metadata) {
      writer.text(key);
      write_value(writer, value);
    }
  }
  writer.text("data");
  writer.map(image.channels.size());
}

}  // namespace

std::vector<std::byte> encode_start(const Series& series) {
  std::vector<std::byte> fields;
  CborWriter field_writer(fields);
  MapWriter map(field_writer);
  write_start_fields(map, series);
  std::vector<std::byte> message;
  CborWriter writer(message);
  writer.tag(tag_self_described);
  writer.map(map.entries());
  writer.raw(fields);
  return message;
}

std::vector<std::byte> encode_end(const SeriesEnd& end) {
  std::vector<std::byte> message;
  CborWriter writer(message);
  writer.tag(tag_self_described);
  writer.map(3);
  writer.text("type");
  writer.text("end");
  writer.text("series_id");
  writer.unsigned_integer(end.id);
  writer.text("series_unique_id");
  writer.text(end.unique_id);
  return message;
}

void encode_image_around(const ImageMessage& image, ImagePieces& into) {
  into.text.clear();
  into.cuts.clear();
  CborWriter writer(into.text);
  write_image_fields(writer, image);
  for (const auto& channel : image.channels) {
    writer.text(channel.channel);
    write_array_head(writer, channel.spec, channel.encoding, channel.form);
    writer.bytes_head(channel.payload.size());
    into.cuts.push_back(into.text.size());
  }
}

void encode_image_detached(const ImageMessage& image, std::vector<std::byte>& into) {
  CborWriter writer(into);
  write_image_fields(writer, image);
  std::uint64_t offset = 0;
  for (const auto& channel : image.channels) {
    writer.text(channel.channel);
    write_array_head(writer, channel.spec, channel.encoding, channel.form);
    writer.array(2);
    writer.unsigned_integer(offset);
    writer.unsigned_integer(channel.payload.size());
    offset += channel.payload.size();
  }
}

std::vector<std::byte> encode_image(const ImageMessage& image) {
  ImagePieces pieces;
  encode_image_around(image, pieces);
  std::vector<std::byte> message;
  CborWriter writer(message);
  std::size_t from = 0;
  for (std::size_t i = 0; i < pieces.cuts.size(); ++i) {
    writer.raw(Bytes(pieces.text).subspan(from, pieces.cuts[i] - from));
    writer.raw(image.channels[i].payload);
    from = pieces.cuts[i];
  }
  return message;
}

}  // namespace penstock::stream
