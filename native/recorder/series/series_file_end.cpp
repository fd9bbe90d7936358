/// What a series' file says of the whole: put together from elements, and complete.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>

#include "base/clock.hpp"
#include "recorder/series/series_file.hpp"
#include "recorder/tree/gaps.hpp"
#include "recorder/tree/members.hpp"

namespace penstock::recorder {
namespace {

/// For a client that was asked to connect anew and to send what the storage did not take.
constexpr std::int64_t again_patience_ns = 5'000'000'000;
/// Values of an axis that a repeated scan is given at most.
constexpr std::uint64_t axis_values_max = std::uint64_t{1} << 24;

/// A scan of which `frames` went on along its first axis has that axis' values over again.
void lengthen_axis(const ScanConfig& scan, std::uint64_t frames, store::FinalValues& values) {
  if (!scan || scan.names_places()) return;
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

/// Of frames and elements, a byte each, that the file tells of.
constexpr std::uint64_t element_bytes_max = std::uint64_t{1} << 28;

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

/// As the file shows it. Masks come with each element's start: they are put together at the end. Where the gaps are is
/// known before, and masked from the start.
Series SeriesFile::whole_series() const {
  if (!has_elements()) return series_;
  auto whole = series_;
  whole.frame = mosaic_.assembled();
  whole.pixel_mask.clear();
  whole.flatfield.clear();
  if (!has_gaps() || !maps_have_room(gap_mask_type)) return whole;
  for (const auto& channel : series_.channels)
    whole.pixel_mask.push_back(in_gaps(mosaic_, channel, gap_mask_type, gap_mask_bit));
  return whole;
}

/// As readers see it: every dataset of frames under the name that the layout gives it.
store::FileLayout SeriesFile::tree(store::Placement placement) const {
  auto layout = nexus_layout(whole_series(), declared_filters(codec_, filters_, series_), columns_, arrangement(),
                             NexusNames::of_series(series_.user_data_json, config_.nexus));
  if (config_.layout) layout = config_.layout->apply(std::move(layout), series_, columns_, edges());
  for (auto& node : layout.chunked) {
    node.places.placement = placement;
    node.chunk_bytes_max = chunk_bytes_max_;
  }
  lay_out_members(layout, config_.files, path_, team_.ranks(), series_, config_.layout.has_value());
  if (layout.members) layout.members->overwrite = may_overwrite();
  return layout;
}

/// Once it is known what the file is made for. Where it is made by another rank, its placement is that rank's.
store::FileLayout SeriesFile::layout(store::Placement placement) const {
  auto layout = tree(placement);
  store_apart(layout, series_, mosaic_);
  return layout;
}

/// Where gaps make them larger than what the elements bring, they may take as much as start messages' masks together.
bool SeriesFile::maps_have_room(ElementType type) const {
  return !has_gaps() || gap_map_bytes(mosaic_, series_, type) <= config_.tables_bytes;
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
  const auto add = [&](const char* name, std::vector<NamedArray> ElementMaps::*maps, std::size_t at_least,
                       std::uint64_t in_gap) {
    std::map<std::string, NamedArray> whole;
    std::map<std::string, std::size_t> brought;
    for (const auto& [number, element] : begun_elements_)
      for (const auto& array : element.*maps) {
        if (!maps_have_room(array.spec.type)) continue;
        auto& into = whole[array.channel];
        if (into.data.empty()) into = in_gaps(mosaic_, array.channel, array.spec.type, in_gap);
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
  add("pixel_mask", &ElementMaps::pixel_mask, 1, gap_mask_bit);
  add("flatfield", &ElementMaps::flatfield, mosaic_.elements(), 1);
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

/// What another rank lost may have come again to a third: then it takes the whole file to know.
bool SeriesFile::has_what_was_lost() const {
  return missing() == 0 || (team_.ranks() == 1 && ledger_.still_lost() == 0);
}

bool SeriesFile::ready_to_close(std::int64_t now_ns) const {
  const auto since_last_ns = now_ns - last_activity_ns_;
  const auto end_patience_ns = static_cast<std::int64_t>(config_.end_timeout_s * 1e9);
  const auto ending = ending_ns_.load();
  if (hopeless_) return true;
  // The end message of a series that is whole is not waited for without end.
  if (ending == 0) return is_whole() && since_last_ns >= end_patience_ns && !busy();
  // What the storage did not take may come again, but it is not waited for without end.
  const bool may_wait = now_ns - ending < static_cast<std::int64_t>(config_.idle_timeout_s * 1e9);
  if (may_wait && ledger_.has_losers()) return false;
  if (may_wait && asked_again_ns_ != 0 && now_ns - asked_again_ns_ < again_patience_ns) return false;
  const bool ends_may_follow = has_elements() && !all_ended_ && since_last_ns < end_patience_ns;
  if (is_whole() && !ends_may_follow) return !may_wait || first_failure().empty() || !busy();
  const auto since = std::max(ending, last_activity_ns_.load());
  return now_ns - since >= patience_ns_ && !(team_.ranks() > 1 && busy());
}

std::optional<std::int64_t> SeriesFile::ends_in_ns(std::int64_t now_ns) const {
  const auto ending = ending_ns_.load();
  if (ending == 0 && !is_whole()) return std::nullopt;
  const auto patience_ns = ending == 0 ? static_cast<std::int64_t>(config_.end_timeout_s * 1e9) : patience_ns_.load();
  const auto since = std::max(ending, last_activity_ns_.load());
  return std::max<std::int64_t>(0, patience_ns - (now_ns - since));
}

bool SeriesFile::is_silent(std::int64_t now_ns) const {
  return config_.end_after_s > 0 && ending_ns_ == 0 && ledger_.end() > 0 && !busy() &&
         now_ns - last_activity_ns_ >= static_cast<std::int64_t>(config_.end_after_s * 1e9);
}

EndedBy SeriesFile::ended_by() const {
  if (ending_ns_ != 0) return ended_by_;
  return is_whole() ? EndedBy::count : EndedBy::stop;
}

/// There is no file that could take it; it may come again.
std::optional<Task> SeriesFile::lose(const Frame& frame) {
  const Ledger::Item item{frame.number, part_of(frame.channel, frame.element.value_or(0))};
  if (ledger_.receive(frame.number, item.part, frame.session) == Ledger::Admission::take)
    ledger_.lost(std::span(&item, 1));
  last_activity_ns_ = monotonic_ns();
  return std::nullopt;
}

void SeriesFile::note_received(std::int64_t realtime_ns) {
  auto known = last_received_ns_.load();
  while (known < realtime_ns && !last_received_ns_.compare_exchange_weak(known, realtime_ns)) {
  }
}

store::FinalValues SeriesFile::values_at_end(std::uint64_t frames) const {
  const auto last_received_ns = last_received_ns_.load();
  auto values =
      final_values(series_, ledger_.counts(), frames, last_received_ns > 0 ? last_received_ns : realtime_ns());
  lengthen_axis(scan_, ledger_.end(), values);
  {
    std::lock_guard lock(first_mutex_);
    if (!series_date_.empty()) values.values.push_back({"/entry/penstock/timing/series_date", series_date_, {}});
  }
  values.values.push_back({"/entry/penstock/ended_by", std::string(name(ended_by())), {}});
  values.attributes.emplace_back(state_path, store::Attribute{"filled", store::scalar(filled())});
  values.of_rows = [this] { return attributes_of_rows(); };
  if (has_elements()) {
    add_whole_maps(values.values);
    add_elements(values, frames);
  }
  if (!config_.layout) return values;
  auto known = edges();
  if (frames_before_ > 0) known.first.reset();  // the file has had it
  return config_.layout->apply(std::move(values), tree(store::Placement::log), series_, columns_, known);
}

/// Of each column of metadata, here and elsewhere.
std::vector<std::uint64_t> SeriesFile::unfitting() const {
  auto counts = batch_ ? batch_->unfitting() : std::vector<std::uint64_t>();
  std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < std::min(counts.size(), unfitting_elsewhere_.size()); ++i)
    counts[i] += unfitting_elsewhere_[i];
  return counts;
}

/// What reads as 0 or is cut short looks like any other value: its column says that there are such.
std::vector<std::pair<std::string, store::Attribute>> SeriesFile::attributes_of_rows() const {
  const auto counts = unfitting();
  const auto paths = config_.layout ? config_.layout->column_paths(columns_) : std::vector<std::string>();
  std::vector<std::pair<std::string, store::Attribute>> attributes;
  for (std::size_t i = 0; i < std::min(counts.size(), columns_.size()); ++i)
    if (counts[i] > 0)
      attributes.emplace_back(config_.layout ? paths[i] : metadata_column_path(columns_[i].name),
                              store::Attribute{"unfitting", store::scalar(counts[i])});
  return attributes;
}

/// Received is an element with all of its channels; of the others each channel counts.
void SeriesFile::add_elements(store::FinalValues& values, std::uint64_t frames) const {
  const auto elements = mosaic_.elements();
  const auto parts = ledger_.parts();
  const auto add = [&](const char* name, std::uint64_t PartCounts::*what, auto together) {
    values.attributes.emplace_back(state_path, store::Attribute{name, by_element(parts, elements, what, together)});
  };
  add("received_by_element", &PartCounts::received, [](auto a, auto b) { return std::min(a, b); });
  add("late_by_element", &PartCounts::late, std::plus());
  add("duplicate_by_element", &PartCounts::duplicate, std::plus());
  add("damaged_by_element", &PartCounts::damaged, std::plus());
  if (frames == 0) return;
  if (frames > element_bytes_max / elements) {
    spdlog::warn("{}: {} frames of {} elements; which of them came is not in the file", path_, frames, elements);
    return;
  }
  values.values.push_back(
      {"/entry/penstock/element_received",
       store::ArrayValue{{ElementType::u8, {frames, elements}}, ledger_.received_elements(frames, elements)},
       {{"meaning", std::string("[frame, element]: 1 received, 0 not")}}});
}

/// The lead's, when all ranks have told what they have.
void SeriesFile::note_partial() {
  const auto lacks = ledger_.settle_partial();
  for (std::uint32_t part = 0; part < lacks.size(); ++part) {
    const auto& [frames, first] = lacks[part];
    if (frames == 0) continue;
    const auto elements = mosaic_.elements();
    partial_frames_.push_back(make_error(Errc::mismatch,
                                         "series \"{}\": {} frames lack channel \"{}\"{}, the first is frame {}: what "
                                         "else came of them is recorded, and "
                                         "their state is {} (partial)",
                                         series_.unique_id, frames, series_.channels[part / elements],
                                         elements > 1 ? fmt::format(" of element {}", part % elements) : "", first,
                                         static_cast<unsigned>(FrameState::partial)));
  }
}

std::uint64_t SeriesFile::missing() const {
  const auto counts = ledger_.counts();
  const auto frames = std::max(series_.frames, counts.end);
  return frames - std::min(frames, counts.received);
}

std::uint64_t SeriesFile::filled() const {
  const auto counts = ledger_.counts();
  auto places = std::max(series_.frames, counts.end);
  // A scan has its grid, and grows by whole steps of its first axis.
  if (scan_) {
    const auto a_step = scan_.points() / scan_.axes.front().points;
    places = scan_.points();
    if (!scan_.names_places()) places = std::max(places, (counts.end + a_step - 1) / a_step * a_step);
  }
  return places - std::min(places, counts.received);
}

}  // namespace penstock::recorder
