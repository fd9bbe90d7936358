/// What a series' file says of the whole: put together from elements, and complete.

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/clock.hpp"
#include "recorder/series_file.hpp"

namespace penstock::recorder {
namespace {

/// For a client that was asked to connect anew and to send what the storage did not take.
constexpr std::int64_t again_patience_ns = 5'000'000'000;
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

void SeriesFile::set_ending(std::int64_t now_ns, std::int64_t patience_ns, bool all, EndedBy why) {
  patience_ns_ = patience_ns;
  all_ended_ = all;
  ended_by_ = why;
  std::int64_t none = 0;
  if (has_elements())
    ending_ns_ = now_ns;
  else
    ending_ns_.compare_exchange_strong(none, now_ns);
}

/// Every announced frame is there.
bool SeriesFile::is_whole() const { return series_.frames > 0 && ledger_.counts().received == series_.frames; }

bool SeriesFile::ready_to_close(std::int64_t now_ns) const {
  const auto since_last_ns = now_ns - last_activity_ns_;
  const auto end_patience_ns = static_cast<std::int64_t>(config_.end_timeout_s * 1e9);
  const auto ending = ending_ns_.load();
  // The end message of a series that is whole is not waited for without end.
  if (ending == 0) return is_whole() && since_last_ns >= end_patience_ns && !busy();
  // What the storage did not take may come again, but it is not waited for without end.
  const bool may_wait = now_ns - ending < static_cast<std::int64_t>(config_.idle_timeout_s * 1e9);
  if (may_wait && ledger_.has_losers()) return false;
  if (may_wait && asked_again_ns_ != 0 && now_ns - asked_again_ns_ < again_patience_ns) return false;
  const bool ends_may_follow = has_elements() && !all_ended_ && since_last_ns < end_patience_ns;
  if (is_whole() && !ends_may_follow) return !may_wait || problem().empty() || !busy();
  const auto since = std::max(ending, last_activity_ns_.load());
  return now_ns - since >= patience_ns_ && !(team_.ranks() > 1 && busy());
}

bool SeriesFile::is_silent(std::int64_t now_ns) const {
  return config_.end_after_s > 0 && ending_ns_ == 0 && ledger_.end() > 0 && !busy() &&
         now_ns - last_activity_ns_ >= static_cast<std::int64_t>(config_.end_after_s * 1e9);
}

EndedBy SeriesFile::ended_by() const {
  if (ending_ns_ != 0) return ended_by_;
  return is_whole() ? EndedBy::count : EndedBy::stop;
}

store::FinalValues SeriesFile::values_at_end(std::uint64_t frames) const {
  auto values = final_values(series_, ledger_.counts(), frames, realtime_ns());
  lengthen_axis(scan_, ledger_.end(), values);
  values.values.push_back({"/entry/penstock/ended_by", std::string(name(ended_by())), {}});
  if (!has_elements()) return values;
  add_whole_maps(values.values);
  values.attributes.emplace_back(
      state_path, store::Attribute{"received_by_element", by_element(ledger_.received_parts(), mosaic_.elements())});
  return values;
}

}  // namespace penstock::recorder
