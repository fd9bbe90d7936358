#include "recorder/tree/series_tree.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "base/bytes.hpp"
#include "base/time/clock.hpp"
#include "recorder/tree/gaps.hpp"
#include "recorder/tree/members.hpp"
#include "recorder/tree/nexus/nexus.hpp"
#include "recorder/tree/nexus/nexus_geometry.hpp"

namespace penstock::recorder {
namespace {

/// Of frames and elements, a byte each, that the file tells of.
constexpr std::uint64_t element_bytes_max = std::uint64_t{1} << 28;
constexpr const char* provisional_path = "/entry/penstock/provisional";

/// Those that become longer when the series ends, at their paths in Penstock's own tree.
std::vector<store::FrameAxis> growing_axes(const SeriesSpec& spec) {
  auto axes = spec.series().frames == 0 ? frame_axes(spec.series()) : std::vector<store::FrameAxis>();
  const auto& scan = spec.scan();
  if (!scan || scan.names_places()) return axes;
  const auto& axis = scan.axes.front();
  axes.push_back({.rule = store::FrameAxis::Rule::repeat,
                  .path = "/entry/data/" + axis.name,
                  .frames_per_value = scan.points() / axis.points});
  return axes;
}

/// If `frames` went on along the first axis of a scan, the axis repeats its values.
void lengthen_axis(const SeriesSpec& spec, std::uint64_t frames, store::FinalValues& values) {
  for (const auto& axis : growing_axes(spec)) {
    if (axis.rule != store::FrameAxis::Rule::repeat) continue;
    const auto& of_scan = spec.scan().axes.front();
    const auto once = std::get<store::ArrayValue>(store::vector_of(of_scan.values));
    const auto length = store::repeated_length(axis, once, frames);
    if (!length) continue;
    store::ValueNode node{axis.path, store::repeated(once, *length), {}};
    if (!of_scan.units.empty()) node.attributes.push_back({"units", of_scan.units});
    values.values.push_back(std::move(node));
  }
}

/// What values_at_end() may replace of the values in the tree, by path.
store::FinalValues replaceable(const SeriesSpec& spec) {
  store::FinalValues values;
  const auto& series = spec.series();
  const auto add = [&](std::string path) { values.values.push_back({std::move(path), std::string(), {}}); };
  if (spec.has_elements())
    for (const auto* name : {"pixel_mask", "flatfield"})
      for (const auto& channel : series.channels)
        for (const auto count : {std::size_t{1}, series.channels.size()})
          add(map_value(series, name, {channel, {}, {}, Encoding::none}, count).path);
  for (const auto& axis : growing_axes(spec)) add(axis.path);
  return values;
}

/// The file says which values are not final, for those who compare it with its description.
void note_provisional(const store::FinalValues& changes, store::FileLayout& layout) {
  std::set<std::string> there, paths;
  for (const auto& node : layout.values) there.insert(node.path);
  for (const auto& node : changes.values)
    if (there.contains(node.path)) paths.insert(node.path);
  if (paths.empty()) return;
  layout.values.push_back({provisional_path,
                           std::vector<std::string>(paths.begin(), paths.end()),
                           {description("paths of values that the recorder replaces when the series ends")}});
}

/// The file says how the values along its frames follow, so that a recovery can write them. Of those that become longer
/// only those that are in the tree.
void note_frame_axes(const std::vector<store::FrameAxis>& axes, store::FileLayout& layout) {
  std::set<std::string> there;
  for (const auto& node : layout.values) there.insert(node.path);
  std::vector<std::string> lines;
  for (const auto& axis : axes)
    if (axis.rule == store::FrameAxis::Rule::plot || there.contains(axis.path)) lines.push_back(store::line_of(axis));
  if (lines.empty()) return;
  layout.values.push_back({store::frame_axes_path,
                           std::move(lines),
                           {description("values along the frames that are written when the series ends: path, and how "
                                        "the values follow")}});
}

/// One number for each element, out of those of its channels: `together` takes what is known, and the next one.
template <typename Together>
store::Value by_element(const std::vector<PartCounts>& parts, std::uint32_t elements, std::uint64_t PartCounts::*what,
                        Together together) {
  store::ArrayValue value{{ElementType::u64, {elements}}, std::vector<std::byte>(8 * elements)};
  for (std::uint32_t element = 0; element < elements; ++element) {
    auto number = parts[element].*what;
    for (std::size_t part = element + elements; part < parts.size(); part += elements)
      number = together(number, parts[part].*what);
    store_le(value.data.data() + 8 * element, number);
  }
  return value;
}

}  // namespace

void SeriesTree::use(const std::vector<MetaColumn>& columns) {
  const auto& user_layout = spec_.config().layout;
  columns_ = user_layout ? user_layout->complete(columns) : columns;
}

std::string SeriesTree::column_path(const std::string& name) const {
  const auto& user_layout = spec_.config().layout;
  return user_layout ? user_layout->column_path(name) : metadata_column_path(name);
}

void SeriesTree::complete(Frame& frame) {
  const auto& user_layout = spec_.config().layout;
  if (!user_layout) return;
  user_layout->complete(frame);
  std::lock_guard lock(mutex_);
  user_layout->note(frame, edges_);
}

void SeriesTree::note_series_date(const std::string& date) {
  std::lock_guard lock(mutex_);
  if (series_date_.empty()) series_date_ = date;
}

/// Nothing if no frame has told it.
std::optional<store::ValueNode> SeriesTree::series_date() const {
  std::lock_guard lock(mutex_);
  if (series_date_.empty()) return std::nullopt;
  return store::ValueNode{"/entry/penstock/timing/series_date",
                          series_date_,
                          {description("date since which exposure_start and exposure_stop count, as sent")}};
}

EdgeValues SeriesTree::edges() const {
  std::lock_guard lock(mutex_);
  return edges_;
}

void SeriesTree::merge_edges(const EdgeValues& edges) {
  std::lock_guard lock(mutex_);
  edges_.merge(edges);
}

/// As the file shows it. Masks come with each element's start: they are put together at the end. Where the gaps are is
/// known before, and masked from the start.
Series SeriesTree::assembled_series() const {
  if (!spec_.has_elements()) return spec_.series();
  const auto& mosaic = spec_.mosaic();
  auto assembled = spec_.series();
  assembled.frame = mosaic.assembled();
  assembled.pixel_mask.clear();
  assembled.flatfield.clear();
  if (!mosaic.grid().has_gaps() || !spec_.maps_have_room(gap_mask_type)) return assembled;
  for (const auto& channel : spec_.series().channels)
    assembled.pixel_mask.push_back(in_gaps(mosaic, channel, gap_mask_type, gap_mask_bit));
  return assembled;
}

/// As readers see it: every dataset of frames under the name that the layout gives it.
store::FileLayout SeriesTree::tree(store::Placement placement) const {
  const auto& config = spec_.config();
  const auto& series = spec_.series();
  auto layout = nexus_layout(assembled_series(), declared_filters(coding_.codec(), coding_.filters(), series), columns_,
                             spec_.arrangement(), NexusNames::of_series(series.user_data_json, config.nexus));
  // A file that is made for its first frame has it from then on.
  if (auto date = series_date()) layout.values.push_back(std::move(*date));
  auto provisional = replaceable(spec_);
  auto axes = growing_axes(spec_);
  if (config.layout) {
    const auto known = edges();
    layout = config.layout->apply(std::move(layout), series, columns_, known);
    provisional = config.layout->apply(std::move(provisional), layout, series, columns_, known);
    for (auto& axis : axes) axis.path = config.layout->place_of(axis.path, series, columns_);
  }
  if (auto axis = plot_axis()) axes.push_back(std::move(*axis));
  note_provisional(provisional, layout);
  note_frame_axes(axes, layout);
  for (auto& node : layout.chunked) {
    node.places.placement = placement;
    node.chunk_bytes_max = coding_.chunk_bytes_max();
  }
  lay_out_members(layout, config.files, spec_.path(), ranks_, config.layout.has_value());
  if (layout.members) layout.members->overwrite = spec_.may_overwrite();
  return layout;
}

store::FileLayout SeriesTree::layout(store::Placement placement) const {
  auto layout = tree(placement);
  store_apart(layout, spec_.series(), spec_.mosaic());
  return layout;
}

store::FinalValues SeriesTree::values_at_end(const SeriesAccount& account, End end) const {
  const auto& config = spec_.config();
  const auto last_received_ns = account.counters.last_received_ns.load();
  auto values = final_values(spec_.series(), account.ledger.counts(), end.frames,
                             last_received_ns > 0 ? last_received_ns : realtime_ns());
  lengthen_axis(spec_, account.ledger.end(), values);
  if (auto date = series_date()) values.values.push_back(std::move(*date));
  values.values.push_back(
      {"/entry/penstock/ended_by",
       std::string(end.ended_by),
       {description("why the series ended: message, new_start, count, silence, command, room, stop, failure or "
                    "recover")}});
  values.attributes.emplace_back(state_path, store::Attribute{"filled", store::scalar(end.filled)});
  values.of_rows = [this, unfitting = std::move(end.unfitting)] { return column_attributes(unfitting()); };
  if (spec_.has_elements()) {
    elements_.add_assembled_maps(values.values);
    add_elements(account.ledger, end.frames, values);
  }
  if (config.layout) {
    auto known = edges();
    if (end.resumed) known.first.reset();
    values = config.layout->apply(std::move(values), tree(store::Placement::log), spec_.series(), columns_, known);
  }
  if (const auto axis = plot_axis()) store::add_plot_axis(*axis, end.frames, spec_.series().frame.shape.size(), values);
  return values;
}

/// The axis of the plot of the frames, where the layout has that plot.
std::optional<store::FrameAxis> SeriesTree::plot_axis() const {
  if (spec_.scan()) return std::nullopt;
  auto axis = recorder::plot_axis(spec_.series());
  const auto& user_layout = spec_.config().layout;
  if (!axis || !user_layout) return axis;
  const auto name = axis->path.substr(axis->path.rfind('/') + 1);
  auto path = user_layout->plot_axis_path(spec_.series(), columns_, name);
  if (!path) return std::nullopt;
  axis->path = std::move(*path);
  return axis;
}

/// What reads as 0 or is cut short looks like any other value: its column says that there are such.
std::vector<std::pair<std::string, store::Attribute>> SeriesTree::column_attributes(const Unfitting& counts) const {
  std::vector<std::pair<std::string, store::Attribute>> attributes;
  for (std::size_t i = 0; i < std::min(counts.size(), columns_.size()); ++i)
    if (counts[i] > 0)
      attributes.emplace_back(column_path(columns_[i].name), store::Attribute{"unfitting", store::scalar(counts[i])});
  return attributes;
}

/// Received is an element with all of its channels; of the others each channel counts.
void SeriesTree::add_elements(const Ledger& ledger, std::uint64_t frames, store::FinalValues& values) const {
  const auto elements = spec_.elements();
  const auto parts = ledger.parts();
  const auto add = [&](const char* name, std::uint64_t PartCounts::*what, auto together) {
    values.attributes.emplace_back(state_path, store::Attribute{name, by_element(parts, elements, what, together)});
  };
  add("received_by_element", &PartCounts::received, [](auto a, auto b) { return std::min(a, b); });
  add("late_by_element", &PartCounts::late, std::plus());
  add("duplicate_by_element", &PartCounts::duplicate, std::plus());
  add("damaged_by_element", &PartCounts::damaged, std::plus());
  if (frames == 0) return;
  if (frames > element_bytes_max / elements) {
    spdlog::warn("{}: {} frames of {} elements; the file does not record which of them arrived", spec_.path(), frames,
                 elements);
    return;
  }
  values.values.push_back(
      {"/entry/penstock/element_received",
       store::ArrayValue{{ElementType::u8, {frames, elements}}, ledger.received_elements(frames, elements)},
       {description("[frame, element]: 1 if all channels of the element arrived, else 0")}});
}

}  // namespace penstock::recorder
