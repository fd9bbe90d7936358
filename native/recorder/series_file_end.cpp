/// What a series' file says of the whole: put together from elements, and complete.

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/clock.hpp"
#include "recorder/series_file.hpp"

namespace penstock::recorder {
namespace {

/// Values of an axis that a repeated scan is given at most.
constexpr std::uint64_t axis_values_max = std::uint64_t{1} << 24;

/// A scan of which `frames` went on along its first axis has that axis' values over again.
void lengthen_axis(const ScanConfig& scan, std::uint64_t frames, store::FinalValues& values) {
  if (!scan || scan.order == ScanConfig::Order::given) return;
  const auto& axis = scan.axes.front();
  const auto a_step = scan.points() / axis.points;
  const auto length = (frames + a_step - 1) / a_step;
  if (length <= axis.points || length > axis_values_max) return;
  std::vector<double> longer(length);
  for (std::uint64_t i = 0; i < length; ++i) longer[i] = axis.values[i % axis.points];
  store::ValueNode node{"/entry/data/" + axis.name, store::vector_of(longer), {}};
  if (!axis.units.empty()) node.attributes.push_back({"units", axis.units});
  values.values.push_back(std::move(node));
}

/// One number for each element: the frames of which it is there with all channels.
store::Value by_element(const std::vector<std::uint64_t>& parts, std::uint32_t elements) {
  store::ArrayValue value{{ElementType::u64, {elements}}, std::vector<std::byte>(8 * elements)};
  for (std::uint32_t element = 0; element < elements; ++element) {
    auto fewest = parts[element];
    for (std::size_t part = element; part < parts.size(); part += elements) fewest = std::min(fewest, parts[part]);
    store_le(value.data.data() + 8 * element, fewest);
  }
  return value;
}

}  // namespace

/// As the file shows it. Masks come with each element's start: they are put together at the end.
Series SeriesFile::whole_series() const {
  if (!has_elements()) return series_;
  auto whole = series_;
  whole.frame = mosaic_.frame();
  whole.pixel_mask.clear();
  whole.flatfield.clear();
  return whole;
}

Result<void> SeriesFile::check_element(const Frame& frame) const {
  if (has_elements() && !frame.element)
    return make_error(Errc::malformed, "image {} is of no element: its stream sent no start message that names one",
                      value(frame.number));
  if (frame.element.value_or(0) >= mosaic_.elements())
    return make_error(Errc::malformed, "image {} is of element {}; the series has {}", value(frame.number),
                      *frame.element, mosaic_.elements());
  return {};
}

bool SeriesFile::begin_element(const Series& start) {
  if (!has_elements() || !start.element) return false;
  ElementMaps maps;
  if (team_.leads()) maps = {start.pixel_mask, start.flatfield};
  std::lock_guard lock(mutex_);
  return begun_elements_.emplace(start.element->number, std::move(maps)).second;
}

std::set<std::uint32_t> SeriesFile::begun_elements() const {
  std::lock_guard lock(mutex_);
  std::set<std::uint32_t> begun;
  for (const auto& [number, maps] : begun_elements_) begun.insert(number);
  return begun;
}

std::uint64_t SeriesFile::map_bytes() const {
  std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [number, maps] : begun_elements_)
    for (const auto* arrays : {&maps.pixel_mask, &maps.flatfield})
      for (const auto& array : *arrays) bytes += array.data.size();
  return bytes;
}

/// Masks of the whole frame, where an element that brought none masks nothing; and flat fields that all brought.
void SeriesFile::add_whole_maps(std::vector<store::ValueNode>& values) const {
  const auto add = [&](const char* name, std::vector<NamedArray> ElementMaps::*maps, std::size_t at_least) {
    std::map<std::string, NamedArray> whole;
    std::map<std::string, std::size_t> brought;
    for (const auto& [number, element] : begun_elements_)
      for (const auto& array : element.*maps) {
        auto& into = whole[array.channel];
        if (into.data.empty()) {
          into = {array.channel, {array.spec.type, mosaic_.frame().shape}, {}, Encoding::none};
          into.data.resize(array.data.size() * mosaic_.elements());
        }
        if (array.spec.type != into.spec.type || array.spec.shape != series_.frame.shape) {
          spdlog::warn("{}: the {} of element {} has another type or shape than the first; it is left out", path_, name,
                       number);
          continue;
        }
        mosaic_.put(array.data, size_of(array.spec.type), number, into.data);
        ++brought[array.channel];
      }
    for (auto& [channel, array] : whole)
      if (brought[channel] >= at_least) values.push_back(map_value(series_, name, std::move(array), whole.size()));
  };
  std::lock_guard lock(mutex_);
  add("pixel_mask", &ElementMaps::pixel_mask, 1);
  add("flatfield", &ElementMaps::flatfield, mosaic_.elements());
}

store::FinalValues SeriesFile::values_at_end(std::uint64_t frames) const {
  auto values = final_values(series_, ledger_.counts(), frames, realtime_ns());
  lengthen_axis(scan_, ledger_.end(), values);
  {
    std::lock_guard lock(first_mutex_);
    if (!series_date_.empty()) values.values.push_back({"/entry/penstock/timing/series_date", series_date_, {}});
  }
  if (has_elements()) {
    add_whole_maps(values.values);
    values.attributes.emplace_back(
        state_path, store::Attribute{"received_by_element", by_element(ledger_.received_parts(), mosaic_.elements())});
  }
  if (!config_.layout) return values;
  auto known = edges();
  if (frames_before_ > 0) known.first.reset();  // the file has had it
  return config_.layout->apply(std::move(values), layout(store::Placement::log), series_, columns_, known);
}

}  // namespace penstock::recorder
