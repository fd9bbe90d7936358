#include "recorder/nexus.hpp"

#include <fmt/chrono.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>

#include "base/clock.hpp"

namespace penstock::recorder {
namespace {

using store::Attribute;
using store::FileLayout;
using store::scalar;
using store::Value;
using store::ValueNode;

constexpr const char* entry = "/entry";
constexpr const char* instrument = "/entry/instrument";
constexpr const char* detector = "/entry/instrument/detector";

std::string iso_time(std::int64_t ns) {
  const auto seconds = static_cast<std::time_t>(ns / 1'000'000'000);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06d}Z", fmt::gmtime(seconds), (ns % 1'000'000'000) / 1000);
}

Attribute nx_class(const char* name) { return {"NX_class", std::string(name)}; }
Attribute units(const char* name) { return {"units", std::string(name)}; }

/// Collects nodes; each function below adds one branch of the tree.
class Tree {
 public:
  explicit Tree(FileLayout& layout) : layout_(layout) {}

  void group(const std::string& path, const char* klass, std::vector<Attribute> more = {}) {
    more.insert(more.begin(), nx_class(klass));
    layout_.groups.push_back({path, std::move(more)});
  }
  void value(const std::string& path, Value value, std::vector<Attribute> attributes = {}) {
    layout_.values.push_back({path, std::move(value), std::move(attributes)});
  }
  template <typename T>
  void optional(const std::string& path, const std::optional<T>& value, std::vector<Attribute> attributes = {}) {
    if (!value) return;
    if constexpr (std::is_same_v<T, bool>)
      this->value(path, scalar(ElementType::u8, static_cast<std::uint8_t>(*value)), std::move(attributes));
    else if constexpr (std::is_same_v<T, std::string>)
      this->value(path, *value, std::move(attributes));
    else
      this->value(path, scalar(*value), std::move(attributes));
  }

 private:
  FileLayout& layout_;
};

/// A step of a chain of transformations (NXtransformations): along or about `vector`.
std::vector<Attribute> transformation(const char* type, const char* unit, const std::vector<double>& vector,
                                      const std::string& depends_on) {
  return {{"transformation_type", std::string(type)}, units(unit),
          {"vector", store::vector_of(vector)},       {"offset", store::vector_of({0, 0, 0})},
          {"offset_units", std::string("m")},         {"depends_on", depends_on}};
}

void add_root(Tree& tree, const Series& series) {
  tree.group("/", "NXroot",
             {{"default", std::string("entry")},
              {"creator", std::string("penstock")},
              {"creator_version", std::string(PENSTOCK_VERSION)}});
  tree.group(entry, "NXentry", {{"default", std::string("data")}});
  tree.value("/entry/definition", std::string("NXmx"), {{"version", std::string("1.0")}});
  const auto now = realtime_ns();
  tree.value("/entry/start_time", series.arm_date.empty() ? iso_time(now) : series.arm_date);
  const double seconds = series.frame_time_s.value_or(0.0) * static_cast<double>(series.frames);
  const auto planned = seconds > 0 && seconds < 1e9 ? static_cast<std::int64_t>(seconds * 1e9) : 0;
  tree.value("/entry/end_time_estimated", iso_time(now + planned));
}

void add_beam(Tree& tree, const Series& series) {
  tree.group(std::string(instrument), "NXinstrument");
  tree.value("/entry/instrument/name", std::string("unknown"));
  tree.group("/entry/source", "NXsource");
  tree.value("/entry/source/name", std::string("unknown"));
  tree.group("/entry/instrument/beam", "NXbeam");
  auto wavelength = series.incident_wavelength_angstrom;
  constexpr double ev_angstrom = 12398.419843320026;  // h·c in eV·Å (CODATA 2018, exact)
  if (!wavelength && series.incident_energy_ev && *series.incident_energy_ev > 0)
    wavelength = ev_angstrom / *series.incident_energy_ev;
  tree.optional("/entry/instrument/beam/incident_wavelength", wavelength, {units("angstrom")});
  tree.optional("/entry/instrument/beam/incident_energy", series.incident_energy_ev, {units("eV")});
}

/// The angles of `frames` frames, an axis a node, each turning what the one before it carries.
std::vector<ValueNode> goniometer_axes(const Series& series, std::uint64_t frames) {
  constexpr std::uint64_t angles_max = 1 << 24;  // a hostile number of frames costs no more memory than this
  std::vector<ValueNode> axes;
  std::string depends_on = ".";
  for (const auto& axis : series.goniometer) {
    std::vector<double> angles(std::clamp<std::uint64_t>(frames, 1, angles_max));
    for (std::size_t i = 0; i < angles.size(); ++i) angles[i] = axis.start + static_cast<double>(i) * axis.increment;
    axes.push_back({"/entry/sample/transformations/" + axis.name, store::vector_of(angles),
                    transformation("rotation", "degree", {-1, 0, 0}, depends_on)});
    depends_on = axes.back().path;
  }
  return axes;
}

void add_sample(Tree& tree, const Series& series) {
  tree.group("/entry/sample", "NXsample");
  tree.value("/entry/sample/name", std::string("unknown"));
  tree.group("/entry/sample/transformations", "NXtransformations");
  auto axes = goniometer_axes(series, series.frames);
  tree.value("/entry/sample/depends_on", axes.empty() ? std::string(".") : axes.back().path);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    tree.value(axes[i].path + "_increment_set", scalar(series.goniometer[i].increment), {units("degree")});
    tree.value(axes[i].path, std::move(axes[i].value), std::move(axes[i].attributes));
  }
}

void add_module(Tree& tree, const Series& series) {
  const std::string module = std::string(detector) + "/module";
  tree.group(module, "NXdetector_module");
  const auto rows = static_cast<std::int64_t>(series.frame.shape.at(0));
  const auto columns = static_cast<std::int64_t>(series.frame.shape.size() > 1 ? series.frame.shape[1] : 1);
  const auto pair = [](std::int64_t a, std::int64_t b) {
    store::ArrayValue value{{ElementType::i64, {2}}, std::vector<std::byte>(16)};
    std::memcpy(value.data.data(), &a, 8);
    std::memcpy(value.data.data() + 8, &b, 8);
    return value;
  };
  tree.value(module + "/data_origin", pair(0, 0));
  tree.value(module + "/data_size", pair(rows, columns));
  const double x = series.pixel_size_x_m.value_or(0), y = series.pixel_size_y_m.value_or(0);
  // McStas axes seen along the beam: x to the left, y up; images run right and down.
  tree.value(
      module + "/module_offset", scalar(0.0),
      {{"transformation_type", std::string("translation")},
       units("m"),
       {"vector", store::vector_of({1, 0, 0})},
       {"offset", store::vector_of({series.beam_center_x.value_or(0) * x, series.beam_center_y.value_or(0) * y, 0})},
       {"offset_units", std::string("m")},
       {"depends_on", std::string("/entry/instrument/detector/transformations/translation")}});
  tree.value(module + "/fast_pixel_direction", scalar(x),
             transformation("translation", "m", {-1, 0, 0}, module + "/module_offset"));
  tree.value(module + "/slow_pixel_direction", scalar(y),
             transformation("translation", "m", {0, -1, 0}, module + "/module_offset"));
}

/// Pixel mask and flat field: one for a single channel, else one a channel in its own name.
void add_maps(Tree& tree, const Series& series) {
  const auto add = [&](const char* name, const std::vector<NamedArray>& arrays) {
    for (const auto& array : arrays) {
      const std::string suffix = arrays.size() == 1 ? "" : "_" + array.channel;
      tree.value(std::string(detector) + "/" + name + suffix, store::ArrayValue{array.spec, array.data});
    }
  };
  add("pixel_mask", series.pixel_mask);
  add("flatfield", series.flatfield);
  if (series.countrate_correction_table)
    tree.value(std::string(detector) + "/countrate_correction_lookup_table",
               store::ArrayValue{series.countrate_correction_table->spec, series.countrate_correction_table->data});
}

void add_detector(Tree& tree, const Series& series) {
  const std::string path = detector;
  tree.group(path, "NXdetector");
  tree.optional(path + "/description", series.detector_description);
  tree.optional(path + "/serial_number", series.detector_serial_number);
  tree.value(path + "/sensor_material", series.sensor_material.value_or("unknown"));
  tree.optional(path + "/sensor_thickness", series.sensor_thickness_m, {units("m")});
  tree.optional(path + "/x_pixel_size", series.pixel_size_x_m, {units("m")});
  tree.optional(path + "/y_pixel_size", series.pixel_size_y_m, {units("m")});
  tree.optional(path + "/beam_center_x", series.beam_center_x, {units("pixel")});
  tree.optional(path + "/beam_center_y", series.beam_center_y, {units("pixel")});
  tree.optional(path + "/count_time", series.count_time_s, {units("s")});
  tree.optional(path + "/frame_time", series.frame_time_s, {units("s")});
  tree.optional(path + "/saturation_value", series.saturation_value);
  tree.value(path + "/bit_depth_readout", scalar(static_cast<std::int64_t>(8 * size_of(series.frame.type))));
  tree.optional(path + "/countrate_correction_applied", series.countrate_correction_enabled);
  tree.optional(path + "/flatfield_applied", series.flatfield_enabled);
  tree.optional(path + "/pixel_mask_applied", series.pixel_mask_enabled);
  tree.optional(path + "/virtual_pixel_interpolation_applied", series.virtual_pixel_interpolation_enabled);
  for (const auto& [channel, energy] : series.threshold_energy_ev) {
    auto name = path + "/threshold_energy";
    if (series.threshold_energy_ev.size() > 1) name.append("_").append(channel);
    tree.value(name, scalar(energy), {units("eV")});
  }
  const auto translation = series.detector_translation_m.value_or(std::array<double, 3>{0, 0, 0});
  tree.group(path + "/transformations", "NXtransformations");
  const double length = std::hypot(translation[0], translation[1], translation[2]);
  const std::vector<double> direction =
      length > 0 ? std::vector<double>{translation[0] / length, translation[1] / length, translation[2] / length}
                 : std::vector<double>{0, 0, 1};
  tree.value(path + "/transformations/translation", scalar(length), transformation("translation", "m", direction, "."));
  if (series.detector_translation_m) tree.value(path + "/distance", scalar(translation[2]), {units("m")});
  tree.value(path + "/depends_on", path + "/transformations/translation");
  add_module(tree, series);
  add_maps(tree, series);
}

/// What no NeXus definition has a place for.
void add_penstock(Tree& tree, const Series& series) {
  tree.group("/entry/penstock", "NXcollection");
  tree.value("/entry/penstock/series_id", scalar(series.id));
  tree.value("/entry/penstock/series_unique_id", series.unique_id);
  tree.value("/entry/penstock/frames_announced", scalar(series.frames));
  tree.value("/entry/penstock/channels", series.channels);
  tree.optional("/entry/penstock/user_data", series.user_data_json);
  for (const auto& [name, text] : series.unknown_json) {
    std::string safe = name;
    for (auto& c : safe)
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') c = '_';
    tree.value("/entry/penstock/start/" + (safe.empty() ? "_" : safe), text);
  }
  tree.group("/entry/penstock/timing", "NXcollection");
}

std::string dataset_path(const Series& series, std::size_t channel) {
  if (channel == 0) return "/entry/data/data";
  std::string name = series.channels[channel];
  for (auto& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') c = '_';
  return fmt::format("/entry/data/channel_{}_{}", channel, name);
}

void add_frames(Tree& tree, FileLayout& layout, const Series& series, const CodecSpec& codec) {
  tree.group("/entry/data", "NXdata", {{"signal", std::string("data")}});
  for (std::size_t channel = 0; channel < series.channels.size(); ++channel) {
    const auto path = dataset_path(series, channel);
    layout.chunked.push_back({.path = path,
                              .type = series.frame.type,
                              .frame_shape = series.frame.shape,
                              .frames_max = series.frames,
                              .filters = filters_of(codec, size_of(series.frame.type)),
                              .fill = fill_value(series.frame.type),
                              .attributes = {{"channel", series.channels[channel]}}});
    layout.links.push_back({std::string(detector) + path.substr(std::string("/entry/data").size()), path});
  }
}

void add_columns(FileLayout& layout, const std::vector<MetaColumn>& columns) {
  const auto none = std::vector<std::byte>(8, std::byte{0xFF});  // -1
  const auto time_column = [&](const char* name, const char* since) {
    layout.columns.push_back({std::string("/entry/penstock/timing/") + name,
                              ElementType::i64,
                              none,
                              {units("ns"), {"since", std::string(since)}}});
  };
  layout.columns.push_back({"/entry/penstock/frame_state",
                            ElementType::u8,
                            {},
                            {{"meaning", std::string("0 missing, 1 received, 2 damaged, 3 dropped, 4 lost")}}});
  time_column("exposure_start", "arm date");
  time_column("exposure_stop", "arm date");
  time_column("exposure_real", "duration");
  time_column("received", "1970-01-01T00:00:00Z");
  time_column("encoded", "1970-01-01T00:00:00Z");
  time_column("written", "1970-01-01T00:00:00Z");
  for (const auto& column : columns) layout.columns.push_back({"/entry/metadata/" + column.name, column.type, {}, {}});
}

}  // namespace

std::vector<std::byte> fill_value(ElementType type) {
  std::vector<std::byte> fill(size_of(type), std::byte{0xFF});
  if (type == ElementType::f32) store_le(fill.data(), std::numeric_limits<float>::quiet_NaN());
  if (type == ElementType::f64) store_le(fill.data(), std::numeric_limits<double>::quiet_NaN());
  return fill;
}

std::vector<MetaColumn> meta_columns(const std::vector<std::pair<std::string, MetaValue>>& metadata) {
  std::vector<MetaColumn> columns;
  for (const auto& [name, sample] : metadata) {
    if (std::holds_alternative<std::string>(sample)) continue;
    if (name.empty() || name.find('/') != std::string::npos || name.front() == '.') continue;
    const bool there =
        std::any_of(columns.begin(), columns.end(), [&name = name](const auto& c) { return c.name == name; });
    if (there) continue;
    const auto type = std::holds_alternative<double>(sample)         ? ElementType::f64
                      : std::holds_alternative<std::int64_t>(sample) ? ElementType::i64
                                                                     : ElementType::u64;
    columns.push_back({name, type});
  }
  return columns;
}

store::FileLayout nexus_layout(const Series& series, const CodecSpec& codec, const std::vector<MetaColumn>& columns) {
  FileLayout layout;
  Tree tree(layout);
  add_root(tree, series);
  add_beam(tree, series);
  add_sample(tree, series);
  add_detector(tree, series);
  add_penstock(tree, series);
  if (!columns.empty()) tree.group("/entry/metadata", "NXcollection");
  add_frames(tree, layout, series, codec);
  add_columns(layout, columns);
  return layout;
}

store::FinalValues final_values(const Series& series, const LedgerCounts& counts, std::uint64_t frames,
                                std::int64_t end_ns) {
  store::FinalValues values;
  values.frames = frames;
  values.values.push_back({"/entry/end_time", iso_time(end_ns), {}});
  if (series.frames == 0)
    for (auto& axis : goniometer_axes(series, frames)) values.values.push_back(std::move(axis));
  const auto count = [&](const char* name, std::uint64_t number) {
    values.attributes.emplace_back("/entry/penstock/frame_state", Attribute{name, scalar(number)});
  };
  count("received", counts.received);
  count("missing", frames - std::min(frames, counts.received));
  count("duplicate", counts.duplicate);
  count("late", counts.late);
  count("damaged", counts.damaged);
  count("dropped", counts.dropped);
  count("lost", counts.lost);
  return values;
}

}  // namespace penstock::recorder
