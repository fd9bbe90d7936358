#include "recorder/tree/nexus/nexus_geometry.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace penstock::recorder {
namespace {

using store::scalar;
using store::ValueNode;

constexpr const char* sample_axes = "/entry/sample/transformations/";
const std::string detector_axes = std::string(detector_path) + "/transformations/";

/// The arm that carries the detector; all other axes carry the sample.
bool carries_detector(const GoniometerAxis& axis) { return axis.name == "two_theta"; }

/// The axis that the sample's chain consists of: omega, unless only another one turns. Its direction
/// is a convention of the field. How the other axes stand is nowhere told, so they keep out of the chain.
const GoniometerAxis* scan_axis(const Series& series) {
  const GoniometerAxis* omega = nullptr;
  const GoniometerAxis* turning = nullptr;
  for (const auto& axis : series.goniometer) {
    if (carries_detector(axis)) continue;
    if (axis.name == "omega" && omega == nullptr) omega = &axis;
    if (axis.increment != 0 && turning == nullptr) turning = &axis;
  }
  return omega != nullptr && (omega->increment != 0 || turning == nullptr) ? omega : turning;
}

std::string axis_path(const GoniometerAxis& axis) {
  return (carries_detector(axis) ? detector_axes : sample_axes) + plain_name(axis.name);
}

/// Where the beam meets the detector, from its first pixel.
std::optional<std::array<double, 2>> beam_center_m(const Series& series) {
  if (!series.pixel_size_x_m || !series.pixel_size_y_m || !series.beam_center_x || !series.beam_center_y)
    return std::nullopt;
  return std::array<double, 2>{*series.beam_center_x * *series.pixel_size_x_m,
                               *series.beam_center_y * *series.pixel_size_y_m};
}

/// Detectors tell where their first pixel is, with z against the beam; simple senders tell a distance
/// alone, and mean the point that the beam hits.
struct Place {
  std::vector<double> translation_m;          ///< in McStas axes
  std::array<double, 2> first_pixel_m{0, 0};  ///< from there, in x and y
};

std::optional<Place> place_of(const Series& series) {
  if (!series.detector_translation_m) return std::nullopt;
  const auto& [x, y, z] = *series.detector_translation_m;
  Place place{{x, y, std::abs(z)}, {0, 0}};
  if (x == 0 && y == 0) place.first_pixel_m = beam_center_m(series).value_or(std::array<double, 2>{0, 0});
  return place;
}

store::Value pair_of(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t numbers[] = {a, b};
  const auto bytes = std::as_bytes(std::span(numbers));
  return store::ArrayValue{{ElementType::i64, {2}}, {bytes.begin(), bytes.end()}};
}

void add_module(Tree& tree, const Series& series, const std::string& carrier,
                const std::array<double, 2>& first_pixel) {
  const auto module = fmt::format("{}/module", detector_path);
  tree.group(module, "NXdetector_module");
  tree.value(module + "/data_origin", pair_of(0, 0));
  const auto& shape = series.frame.shape;  // of which the last two dimensions are the detector's
  const auto rows = shape.size() > 1 ? shape[shape.size() - 2] : 1;
  tree.value(module + "/data_size", pair_of(rows, shape.back()));
  if (!series.pixel_size_x_m || !series.pixel_size_y_m) return;
  tree.value(module + "/module_offset", scalar(0.0),
             transformation("translation", "m", {1, 0, 0}, carrier, {first_pixel[0], first_pixel[1], 0}));
  // Seen along the beam, images run right and down.
  tree.value(module + "/fast_pixel_direction", scalar(*series.pixel_size_x_m),
             transformation("translation", "m", {-1, 0, 0}, module + "/module_offset"));
  tree.value(module + "/slow_pixel_direction", scalar(*series.pixel_size_y_m),
             transformation("translation", "m", {0, -1, 0}, module + "/module_offset"));
}

void add_axes(Tree& tree, const Series& series, bool of_detector) {
  for (const auto& axis : series.goniometer)
    if (carries_detector(axis) == of_detector)
      tree.value(axis_path(axis) + "_increment_set", scalar(axis.increment), {units("degree")});
  const auto& folder = of_detector ? detector_axes : sample_axes;
  for (auto& node : axis_values(series, series.frames))
    if (node.path.starts_with(folder)) tree.value(node.path, std::move(node.value), std::move(node.attributes));
}

/// An axis in the tree, or the angles at the end of its frames.
struct Angles {
  store::FrameAxis axis;
  std::vector<store::Attribute> attributes;
  bool is_per_frame = false;
};

std::vector<Angles> angles_of(const Series& series) {
  const auto* chained = scan_axis(series);
  std::vector<Angles> all;
  const auto add = [&](Angles angles) {
    const auto same = [&](const auto& other) { return other.axis.path == angles.axis.path; };
    if (std::none_of(all.begin(), all.end(), same)) all.push_back(std::move(angles));
  };
  for (const auto& axis : series.goniometer) {
    // An axis that stands still has one angle, except that of the sample's chain: DIALS counts images by its values.
    const bool is_per_frame = &axis == chained || axis.increment != 0;
    add({{.path = axis_path(axis), .first = axis.start, .step = axis.increment},
         &axis == chained ? transformation("rotation", "degree", {-1, 0, 0}, ".")
                          : std::vector<store::Attribute>{units("degree")},
         is_per_frame});
    add({{.path = axis_path(axis) + "_end", .first = axis.start + axis.increment, .step = axis.increment},
         {units("degree")},
         is_per_frame});
  }
  return all;
}

}  // namespace

std::vector<store::FrameAxis> frame_axes(const Series& series) {
  std::vector<store::FrameAxis> axes;
  for (auto& angles : angles_of(series))
    if (angles.is_per_frame) axes.push_back(std::move(angles.axis));
  return axes;
}

std::vector<ValueNode> axis_values(const Series& series, std::uint64_t frames) {
  const auto count = store::steps_of(frames, frame_axes(series).size());
  std::vector<ValueNode> nodes;
  for (auto& angles : angles_of(series))
    nodes.push_back(
        {angles.axis.path, store::steps(angles.axis, angles.is_per_frame ? count : 1), std::move(angles.attributes)});
  return nodes;
}

std::optional<store::FrameAxis> plot_axis(const Series& series) {
  const auto* axis = scan_axis(series);
  const bool turns = axis != nullptr && axis->increment != 0;
  if (!turns && !series.frame_time_s) return std::nullopt;
  return store::FrameAxis{.rule = store::FrameAxis::Rule::plot,
                          .path = "/entry/data/" + (turns ? plain_name(axis->name) : std::string("time")),
                          .first = turns ? axis->start : 0.0,
                          .step = turns ? axis->increment : *series.frame_time_s,
                          .units = turns ? "degree" : "s"};
}

void add_sample(Tree& tree, const Series& series, const std::string& name) {
  tree.group("/entry/sample", "NXsample");
  tree.value("/entry/sample/name", name);
  tree.group("/entry/sample/transformations", "NXtransformations");
  const auto* axis = scan_axis(series);
  tree.value("/entry/sample/depends_on", axis == nullptr ? std::string(".") : axis_path(*axis));
  add_axes(tree, series, false);
}

void add_detector_geometry(Tree& tree, const Series& series) {
  const std::string path = detector_path;
  tree.group(path + "/transformations", "NXtransformations");
  add_axes(tree, series, true);
  const auto place = place_of(series);
  if (!place) {
    tree.value(path + "/depends_on", std::string("."));
    add_module(tree, series, ".", beam_center_m(series).value_or(std::array<double, 2>{0, 0}));
    return;
  }
  auto direction = place->translation_m;
  const double length = std::hypot(direction[0], direction[1], direction[2]);
  if (length > 0)
    for (auto& component : direction) component /= length;
  else
    direction = {0, 0, 1};
  const auto carrier = detector_axes + "translation";
  tree.value(carrier, scalar(length), transformation("translation", "m", direction, "."));
  for (const auto* name : {"/distance", "/detector_distance"})  // the second is for readers of EIGER's files
    tree.value(path + name, scalar(place->translation_m[2]), {units("m")});
  tree.value(path + "/depends_on", carrier);
  add_module(tree, series, carrier, place->first_pixel_m);
}

}  // namespace penstock::recorder
