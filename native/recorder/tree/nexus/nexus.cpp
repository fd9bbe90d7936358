#include "recorder/tree/nexus/nexus.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "base/time/clock.hpp"
#include "recorder/tree/nexus/nexus_geometry.hpp"
#include "recorder/tree/nexus/nexus_kept.hpp"
#include "recorder/tree/nexus/nexus_sensor.hpp"
#include "recorder/tree/nexus/nexus_tree.hpp"
#include "store/hdf5/plugins/filter_plugin.hpp"

namespace penstock::recorder {
namespace {

using store::Attribute;
using store::FileLayout;
using store::scalar;

constexpr const char* entry = "/entry";
constexpr const char* instrument = "/entry/instrument";
constexpr double ev_angstrom = 12398.419843320026;  ///< h·c in eV·Å (CODATA 2018, exact)

void add_root(Tree& tree, const Series& series, const NexusNames& names) {
  tree.group("/", "NXroot",
             {{"default", std::string("entry")},
              {"creator", std::string("penstock")},
              {"creator_version", std::string(PENSTOCK_VERSION)}});
  tree.group(entry, "NXentry", {{"default", std::string("data")}});
  tree.value("/entry/definition", std::string("NXmx"), {{"version", std::string("1.0")}});
  if (const auto& title = names.title.empty() ? series.unique_id : names.title; !title.empty()) {
    tree.value("/entry/title", title);
    tree.value(title_path, title);  // of the plot that viewers show first
  }
  if (!names.experiment_identifier.empty()) tree.value("/entry/experiment_identifier", names.experiment_identifier);
  if (!names.user_name.empty()) {
    tree.group("/entry/user", "NXuser");
    tree.value("/entry/user/name", names.user_name);
  }
  const auto now = realtime_ns();
  // Whoever reckons with times since the arm date has to know that this is not it.
  if (series.arm_date.empty())
    tree.value("/entry/start_time", iso_time(now), {{"clock", std::string("recorder")}});
  else
    tree.value("/entry/start_time", series.arm_date);
  const double seconds = series.frame_time_s.value_or(0.0) * static_cast<double>(series.frames);
  const auto planned = seconds > 0 && seconds < 1e9 ? static_cast<std::int64_t>(seconds * 1e9) : 0;
  tree.value("/entry/end_time_estimated", iso_time(now + planned));
}

/// NXmx wants a name also where nobody told one.
std::string or_unknown(const std::string& name) { return name.empty() ? "unknown" : name; }

void add_beam(Tree& tree, const Series& series, const NexusNames& names) {
  tree.group(std::string(instrument), "NXinstrument");
  tree.value("/entry/instrument/name", or_unknown(names.instrument_name));
  tree.group("/entry/source", "NXsource");
  tree.value("/entry/source/name", or_unknown(names.source_name));
  if (!names.source_type.empty()) tree.value("/entry/source/type", names.source_type);
  tree.group("/entry/instrument/beam", "NXbeam");
  auto wavelength = series.incident_wavelength_angstrom;
  if (!wavelength && series.incident_energy_ev && *series.incident_energy_ev > 0)
    wavelength = ev_angstrom / *series.incident_energy_ev;
  tree.optional("/entry/instrument/beam/incident_wavelength", wavelength, {units("angstrom")});
  tree.optional("/entry/instrument/beam/incident_energy", series.incident_energy_ev, {units("eV")});
}

/// Where something lies that each channel may have: that of the first channel, whose frames readers
/// show, under its NeXus name, the others with their channel's name.
std::string channel_path(const Series& series, const char* name, const std::string& channel, std::size_t count) {
  const bool first = channel == series.channels.front() || (count == 1 && series.channels.size() == 1);
  auto path = std::string(detector_path) + "/" + name;
  return first ? path : path + "_" + plain_name(channel);
}

void add_maps(Tree& tree, const Series& series) {
  const auto add = [&](const char* name, const std::vector<NamedArray>& arrays) {
    for (const auto& array : arrays) {
      auto node = map_value(series, name, array, arrays.size());
      tree.value(node.path, std::move(node.value));
    }
  };
  add("pixel_mask", series.pixel_mask);
  add("flatfield", series.flatfield);
  for (const auto& [channel, energy] : series.threshold_energy_ev)
    tree.value(channel_path(series, "threshold_energy", channel, series.threshold_energy_ev.size()), scalar(energy),
               {units("eV")});
  if (series.countrate_correction_table)
    tree.value(std::string(detector_path) + "/countrate_correction_lookup_table",
               store::ArrayValue{series.countrate_correction_table->spec, series.countrate_correction_table->data});
}

/// Names that programs made for EIGER files ask for beside those of NXmx. Not eiger_fw_version: with it DIALS refuses
/// all but EIGER's sizes. How many images there are, the dataset tells.
void add_eiger_names(Tree& tree, const Series& series) {
  const std::string path = std::string(detector_path) + "/detectorSpecific";
  const auto count = [](double value) {
    return scalar(ElementType::u32, static_cast<std::uint32_t>(std::clamp(value, 0.0, 4294967295.0)));
  };
  const auto& shape = series.frame.shape;  // of which the last two dimensions are the detector's
  tree.group(path, "NXcollection");
  tree.value(path + "/x_pixels_in_detector", count(static_cast<double>(shape.back())));
  tree.value(path + "/y_pixels_in_detector",
             count(shape.size() > 1 ? static_cast<double>(shape[shape.size() - 2]) : 1.0));
  auto energy = series.incident_energy_ev;
  if (!energy && series.incident_wavelength_angstrom && *series.incident_wavelength_angstrom > 0)
    energy = ev_angstrom / *series.incident_wavelength_angstrom;
  tree.optional(path + "/photon_energy", energy, {units("eV")});
  if (series.saturation_value)
    tree.value(path + "/countrate_correction_count_cutoff", count(static_cast<double>(*series.saturation_value)));
}

bool is_floating(ElementType type) { return type == ElementType::f32 || type == ElementType::f64; }

/// Which values are counts, as DIALS asks for it: the two highest of `bit_depth_readout` bits are flags, and so is what
/// is below `underload_value`. Bits are those of the images, also if the electronics read out fewer.
void add_valid_values(Tree& tree, const Series& series) {
  const std::string path = detector_path;
  tree.optional(path + "/saturation_value", series.saturation_value);
  if (!is_floating(series.frame.type)) tree.value(path + "/underload_value", scalar(std::int64_t{0}));
  tree.value(path + "/bit_depth_readout", scalar(static_cast<std::int64_t>(8 * size_of(series.frame.type))));
}

void add_detector(Tree& tree, const Series& series, const NexusNames& names) {
  const std::string path = detector_path;
  tree.group(path, "NXdetector");
  tree.optional(path + "/description", series.detector_description);
  tree.optional(path + "/serial_number", series.detector_serial_number);
  const auto sensor = sensor_of(series, names);
  tree.value(path + "/sensor_material", or_unknown(sensor.material));
  tree.optional(path + "/sensor_thickness", sensor.thickness_m, {units("m")});
  tree.optional(path + "/x_pixel_size", series.pixel_size_x_m, {units("m")});
  tree.optional(path + "/y_pixel_size", series.pixel_size_y_m, {units("m")});
  tree.optional(path + "/beam_center_x", series.beam_center_x, {units("pixel")});
  tree.optional(path + "/beam_center_y", series.beam_center_y, {units("pixel")});
  tree.optional(path + "/count_time", series.count_time_s, {units("s")});
  tree.optional(path + "/frame_time", series.frame_time_s, {units("s")});
  add_valid_values(tree, series);
  tree.optional(path + "/countrate_correction_applied", series.countrate_correction_enabled);
  tree.optional(path + "/flatfield_applied", series.flatfield_enabled);
  tree.optional(path + "/pixel_mask_applied", series.pixel_mask_enabled);
  tree.optional(path + "/virtual_pixel_interpolation_applied", series.virtual_pixel_interpolation_enabled);
  add_detector_geometry(tree, series);
  add_eiger_names(tree, series);
  add_maps(tree, series);
}

/// What no NeXus definition has a place for.
void add_penstock(Tree& tree, const Series& series) {
  tree.group("/entry/penstock", "NXcollection");
  tree.value("/entry/penstock/series_id", scalar(series.id), {description("number of the series, as announced")});
  tree.value("/entry/penstock/series_unique_id", series.unique_id, {description("name of the series, as announced")});
  tree.value("/entry/penstock/frames_announced", scalar(series.frames),
             {description("number of frames announced at the start; 0: not known then")});
  tree.value("/entry/penstock/channels", series.channels,
             {description("names of the channels; a dataset of frames has its own in the attribute channel")});
  tree.optional("/entry/penstock/bit_depth_readout", series.bit_depth_readout,
                {description("bits that the electronics read out, as sent")});
  tree.optional("/entry/penstock/user_data", series.user_data_json,
                {description("user_data of the start message, as JSON")});
  if (series.detector_translation_m)
    tree.value("/entry/penstock/detector_translation",
               store::vector_of({series.detector_translation_m->begin(), series.detector_translation_m->end()}),
               {units("m"), description("position of the first pixel, as sent; z is against the beam")});
  if (!series.unknown.empty()) {
    tree.group("/entry/penstock/start", "NXcollection");
    add_kept(tree, "/entry/penstock/start", series.unknown);
  }
  // In JSON they would be unreadable.
  if (!series.user_data_cbor.empty())
    add_kept(tree, "/entry/penstock", {{"user_data_arrays", series.user_data_cbor}}, KeptValues::arrays);
  tree.group("/entry/penstock/timing", "NXcollection");
}

std::string dataset_path(const Series& series, std::size_t channel) {
  return "/entry/data/" + frames_name(series, channel);
}

/// The axes of a scan as NXdata has them, "." for the frame's own dimensions.
std::vector<Attribute> add_scan(Tree& tree, const Series& series, const ScanConfig& scan) {
  std::vector<std::string> axes;
  std::vector<Attribute> attributes{{"signal", std::string("data")},
                                    {"SILX_style", std::string(R"({"signal_scale_type": "log"})")}};
  if (!scan) return attributes;
  for (const auto& axis : scan.axes) {
    attributes.push_back({axis.name + "_indices", scalar(static_cast<std::int64_t>(axes.size()))});
    axes.push_back(axis.name);
    tree.value("/entry/data/" + axis.name, store::vector_of(axis.values),
               axis.units.empty() ? std::vector<Attribute>{} : std::vector<Attribute>{units(axis.units.c_str())});
  }
  axes.insert(axes.end(), series.frame.shape.size(), ".");
  attributes.push_back({"axes", axes});
  return attributes;
}

void add_frames(Tree& tree, FileLayout& layout, const Series& series, const DatasetFilters& filters,
                const Arrangement& arrangement) {
  tree.group("/entry/data", "NXdata", add_scan(tree, series, arrangement.scan));
  for (std::size_t channel = 0; channel < series.channels.size(); ++channel) {
    const auto path = dataset_path(series, channel);
    // Viewers that know it by this name leave it out of their colour scale: else gaps of 65535 make all the rest black.
    std::vector<Attribute> attributes{
        {"channel", series.channels[channel]},
        {"_FillValue", store::ArrayValue{{series.frame.type, {}}, fill_value(series.frame.type)}},
        {"interpretation", std::string(series.frame.shape.size() > 1 ? "image" : "spectrum")}};
    if (!is_floating(series.frame.type)) attributes.push_back(units("counts"));
    for (const auto& filter : filters[channel])
      if (!store::keeps_all_values(filter))
        attributes.push_back(
            {"lossy_filter", fmt::format("HDF5 filter {} may have changed values with its parameters", filter.id)});
    layout.chunked.push_back({.path = path,
                              .type = series.frame.type,
                              .frame_shape = series.frame.shape,
                              .frames_max = series.frames,
                              .filters = filters[channel],
                              .fill = fill_value(series.frame.type),
                              .attributes = std::move(attributes),
                              .chunk_shape = chunk_shape(series, arrangement),
                              .scan_shape = arrangement.scan.shape()});
    layout.links.push_back({std::string(detector_path) + path.substr(std::string("/entry/data").size()), path});
  }
}

void add_columns(FileLayout& layout, const std::vector<MetaColumn>& columns) {
  const auto none = std::vector<std::byte>(8, std::byte{0xFF});  // -1
  const auto time_column = [&](const char* name, const char* since, const char* what) {
    layout.columns.push_back({std::string("/entry/penstock/timing/") + name,
                              ElementType::i64,
                              none,
                              {units("ns"), {"since", std::string(since)}, description(what)}});
  };
  constexpr const char* date = "series_date, or the arm date if the detector did not send it";
  constexpr const char* epoch = "1970-01-01T00:00:00Z";
  layout.columns.push_back(
      {state_path,
       ElementType::u8,
       {},
       {{"meaning", std::string("0 missing, 1 received, 2 damaged, 3 dropped, 4 lost, 5 partial")},
        description("whether each frame is in the file, or why not; counts of the whole series are in attributes")}});
  time_column("exposure_start", date, "start of each exposure, as sent; -1: not sent");
  time_column("exposure_stop", date, "end of each exposure, as sent; -1: not sent");
  time_column("exposure_real", "duration", "duration of each exposure without dead time, as sent; -1: not sent");
  for (auto& column : std::span(layout.columns).last(3)) column.in_segments = true;
  time_column("received", epoch, "when the recorder had received each frame; -1: missing");
  time_column("encoded", epoch, "when each frame was compressed; -1: missing");
  time_column("written", epoch, "when each frame was written to the file; -1: missing");
  for (const auto& column : columns)
    layout.columns.push_back({.path = metadata_column_path(column.name),
                              .type = column.type,
                              .fill = column.text_bytes == 0 && is_floating(column.type) ? fill_value(column.type)
                                                                                         : std::vector<std::byte>{},
                              .text_bytes = column.text_bytes,
                              .shape = column.shape,
                              .in_segments = true});
}

}  // namespace

std::string frames_name(const Series& series, std::size_t channel) {
  return channel == 0 ? "data" : fmt::format("channel_{}_{}", channel, plain_name(series.channels[channel]));
}

std::string metadata_column_path(const std::string& name) { return "/entry/metadata/" + name; }

std::vector<std::byte> fill_value(ElementType type) {
  std::vector<std::byte> fill(size_of(type), std::byte{0xFF});
  if (type == ElementType::f32) store_le(fill.data(), std::numeric_limits<float>::quiet_NaN());
  if (type == ElementType::f64) store_le(fill.data(), std::numeric_limits<double>::quiet_NaN());
  return fill;
}

std::vector<std::uint64_t> chunk_shape(const Series& series, const Arrangement& arrangement) {
  const auto& tile = arrangement.tile_shape.empty() ? series.frame.shape : arrangement.tile_shape;
  std::vector<std::uint64_t> shape(arrangement.scan ? arrangement.scan.axes.size() : 1, arrangement.frames_a_chunk);
  shape.insert(shape.end(), tile.begin(), tile.end());
  return shape;
}

store::ValueNode map_value(const Series& series, const char* name, NamedArray array, std::size_t count) {
  auto path = channel_path(series, name, array.channel, count);
  return {std::move(path), store::ArrayValue{std::move(array.spec), std::move(array.data)}, {}};
}

store::FileLayout nexus_layout(const Series& series, const DatasetFilters& filters,
                               const std::vector<MetaColumn>& columns, const Arrangement& arrangement,
                               const NexusNames& names) {
  FileLayout layout;
  Tree tree(layout);
  add_root(tree, series, names);
  add_beam(tree, series, names);
  add_sample(tree, series, or_unknown(names.sample_name));
  add_detector(tree, series, names);
  add_penstock(tree, series);
  if (!columns.empty()) tree.group("/entry/metadata", "NXcollection");
  add_frames(tree, layout, series, filters, arrangement);
  add_columns(layout, columns);
  if (arrangement.scan)
    layout.columns.push_back({"/entry/penstock/place",
                              ElementType::i64,
                              std::vector<std::byte>(8, std::byte{0xFF}),
                              {description("point of each frame in the scan, counted row by row; -1: missing")}});
  return layout;
}

store::FinalValues final_values(const Series& series, const LedgerCounts& counts, std::uint64_t frames,
                                std::int64_t end_ns) {
  store::FinalValues values;
  values.frames = frames;
  values.values.push_back({"/entry/end_time", iso_time(end_ns), {}});
  if (series.frames == 0)
    for (auto& axis : axis_values(series, frames)) values.values.push_back(std::move(axis));
  const auto count = [&](const char* name, std::uint64_t number) {
    values.attributes.emplace_back(state_path, Attribute{name, scalar(number)});
  };
  count("received", counts.received);
  count("missing", frames - std::min(frames, counts.received));
  count("duplicate", counts.duplicate);
  count("late", counts.late);
  count("damaged", counts.damaged);
  count("dropped", counts.dropped);
  count("lost", counts.lost);
  count("partial", counts.partial);
  return values;
}

}  // namespace penstock::recorder
