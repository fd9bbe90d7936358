#include "check/accounting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "check/names.hpp"
#include "check/structures/scan_places.hpp"

namespace penstock::check {
namespace {

constexpr const char* announced_path = "/entry/penstock/frames_announced";
/// By value; "received" means that every channel's chunk is there.
constexpr std::array state_names{"missing", "received", "damaged", "dropped", "lost", "partial"};
constexpr std::size_t state_received = 1, state_damaged = 2, state_dropped = 3, state_lost = 4, state_partial = 5;

using StateCounts = std::array<std::uint64_t, state_names.size()>;

const store::ArrayValue* array_at(const Tree& tree, const char* path) {
  const auto* dataset = tree.find(path);
  if (dataset == nullptr || !dataset->value) return nullptr;
  return std::get_if<store::ArrayValue>(&*dataset->value);
}

std::optional<std::uint64_t> whole_number(const store::Value& value) {
  const auto* array = std::get_if<store::ArrayValue>(&value);
  if (array == nullptr || array->data.size() != 8) return std::nullopt;
  if (array->spec.type != ElementType::u64 && array->spec.type != ElementType::i64) return std::nullopt;
  return load_le<std::uint64_t>(array->data.data());
}

/// Which of its frames the chunk at this position of the index holds. Where its record is lost, the states tell.
std::uint32_t frames_there(const Subject& channel, std::size_t position, Bytes states) {
  const auto frames = channel.frames_a_chunk();
  if (frames == 1) return 1;
  if (channel.frames_there && channel.index->vouched(position)) return channel.frames_there[position];
  const auto first = channel.index->chunks()[position].number / channel.chunks_a_frame() * frames;
  std::uint32_t there = 0;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(frames, 32) && first + i < states.size(); ++i)
    if (std::to_integer<std::size_t>(states[first + i]) == state_received) there |= std::uint32_t{1} << i;
  return there;
}

/// The places of those that have all of their chunks, ascending as the chunks do. Without a scan a frame's place is
/// its number.
std::vector<std::uint64_t> whole_places_of(const Subject& channel, Bytes states) {
  const auto& chunks = channel.index->chunks();
  const auto wanted = channel.chunks_a_frame();
  const auto frames = channel.frames_a_chunk();
  std::vector<std::uint64_t> places;
  places.reserve(chunks.size() / wanted);
  for (std::size_t first = 0, last = 0; first < chunks.size(); first = last) {
    const auto place = chunks[first].number / wanted;
    std::uint32_t there = ~std::uint32_t{0};
    for (; last < chunks.size() && chunks[last].number / wanted == place; ++last)
      there &= frames_there(channel, last, states);
    if (last - first < wanted) continue;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(frames, 32); ++i)
      if ((there >> i & 1) != 0) places.push_back(place * frames + i);
  }
  return places;
}

/// The places, ascending, of which at least a part is there.
std::vector<std::uint64_t> begun_places_of(const Subject& channel, Bytes states) {
  const auto frames = channel.frames_a_chunk();
  const auto& chunks = channel.index->chunks();
  std::vector<std::uint64_t> places;
  places.reserve(chunks.size() / channel.chunks_a_frame());
  for (std::size_t at = 0; at < chunks.size(); ++at) {
    const auto there = frames_there(channel, at, states);
    const auto place = chunks[at].number / channel.chunks_a_frame();
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(frames, 32); ++i)
      if ((there >> i & 1) != 0) places.push_back(place * frames + i);
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

/// Those in `all` that are not in `some`; both ascend.
std::vector<std::uint64_t> without(const std::vector<std::uint64_t>& all, const std::vector<std::uint64_t>& some) {
  std::vector<std::uint64_t> rest;
  std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::back_inserter(rest));
  return rest;
}

/// Frames of which a part is there, ascending; says which channel they lack.
std::vector<std::uint64_t> partial_places(const std::vector<const Subject*>& channels,
                                          const std::vector<std::uint64_t>& whole, Bytes states, bool unfinished,
                                          Findings& findings) {
  std::vector<std::uint64_t> begun;
  for (const auto* channel : channels) {
    const auto some = begun_places_of(*channel, states);
    std::vector<std::uint64_t> both;
    std::set_union(begun.begin(), begun.end(), some.begin(), some.end(), std::back_inserter(both));
    begun = std::move(both);
  }
  auto partial = without(begun, whole);
  if (partial.empty()) return partial;
  for (const auto* channel : channels)
    if (const auto lacking = without(partial, whole_places_of(*channel, states)); !lacking.empty())
      findings.add({Level::warning,
                    "frames lack a channel",
                    channel->path,
                    {},
                    fmt::format("{}, the first is frame {}", lacking.size(), lacking.front()),
                    {},
                    unfinished});
  return partial;
}

/// The places, ascending, that have all of their chunks in every channel. Memory as for the chunks that are
/// there, however many frames the file announces.
std::vector<std::uint64_t> whole_places(const std::vector<const Subject*>& channels, Bytes states) {
  auto whole = whole_places_of(*channels.front(), states);
  for (const auto* channel : std::span(channels).subspan(1)) {
    const auto others = whole_places_of(*channel, states);
    std::vector<std::uint64_t> both;
    std::set_intersection(whole.begin(), whole.end(), others.begin(), others.end(), std::back_inserter(both));
    whole = std::move(both);
  }
  return whole;
}

/// The frames of a scan, ascending, whose places are among the whole ones; `nameless`: how many of these have none.
std::vector<std::uint64_t> frames_of_places(const std::vector<std::uint64_t>& whole,
                                            const std::vector<std::uint64_t>& places,
                                            std::uint64_t* nameless = nullptr) {
  std::vector<std::uint64_t> frames;
  std::vector<bool> named(whole.size());
  for (std::size_t frame = 0; frame < places.size(); ++frame) {
    const auto found = std::lower_bound(whole.begin(), whole.end(), places[frame]);
    if (found == whole.end() || *found != places[frame]) continue;
    frames.push_back(frame);
    named[static_cast<std::size_t>(found - whole.begin())] = true;
  }
  if (nameless != nullptr) *nameless = static_cast<std::uint64_t>(std::count(named.begin(), named.end(), false));
  return frames;
}

void report_nameless(std::uint64_t nameless, bool unfinished, Findings& findings) {
  if (nameless > 0)
    findings.add({unfinished ? Level::warning : Level::error,
                  "points of the scan have pixels, but no frame names them",
                  places_path,
                  "a frame for each",
                  fmt::format("none for {}", nameless),
                  {},
                  unfinished});
}

/// How often each state stands at frames that are in neither of the two.
StateCounts count_absent(const std::vector<std::uint64_t>& whole, const std::vector<std::uint64_t>& held,
                         Bytes states) {
  StateCounts counts{};
  for (std::uint64_t frame = 0; frame < states.size(); ++frame) {
    const auto state = std::to_integer<std::uint8_t>(states[frame]);
    const auto has = [&](const auto& frames) { return std::binary_search(frames.begin(), frames.end(), frame); };
    if (state < counts.size() && !has(whole) && !has(held)) ++counts[state];
  }
  return counts;
}

Place place_of(std::uint64_t frame) { return {fmt::format("frame {}", frame), FrameSpan{frame, frame}}; }

/// Compares the states with the chunks, frame by frame (`partial` is null where that is not known); returns how often
/// each state stands there.
StateCounts compare_states(const std::vector<std::uint64_t>& whole, const std::vector<std::uint64_t>* partial,
                           Bytes states, bool unfinished, Findings& findings) {
  const auto level = unfinished ? Level::warning : Level::error;
  const auto not_marked = [&](std::uint64_t frame, std::string state) {
    findings.add({level,
                  "a frame is there but not marked as received",
                  place_of(frame),
                  "state 1",
                  std::move(state),
                  {},
                  unfinished});
  };
  StateCounts counts{};
  auto next = whole.begin();
  for (std::uint64_t frame = 0; frame < states.size(); ++frame) {
    const auto state = std::to_integer<std::uint8_t>(states[frame]);
    const bool is_whole = next != whole.end() && *next == frame;
    if (is_whole) ++next;
    if (state < counts.size())
      ++counts[state];
    else
      findings.add({Level::error,
                    "a frame has a state that does not exist",
                    place_of(frame),
                    fmt::format("0 to {}", counts.size() - 1),
                    fmt::format("{}", state),
                    {}});
    if (state == state_partial && partial != nullptr && !is_whole &&
        !std::binary_search(partial->begin(), partial->end(), frame))
      findings.add({level,
                    "a frame is marked as partly received but has no data",
                    place_of(frame),
                    "some of its chunks",
                    "none",
                    {},
                    unfinished});
    if (is_whole && state != state_received) not_marked(frame, fmt::format("state {}", state));
    if (!is_whole && state == state_received)
      findings.add({level,
                    "a frame is marked as received but missing",
                    place_of(frame),
                    "its chunks",
                    "none or not all",
                    {},
                    unfinished});
  }
  for (; next != whole.end(); ++next) not_marked(*next, "no state");
  return counts;
}

/// What the column's attributes say must be what stands in it. A frame may be damaged or dropped more
/// than once, and come whole after that: of those states there may be fewer than were counted.
void compare_counts(const TreeDataset& column, const StateCounts& counts, std::uint64_t frames, bool recorded,
                    Findings& findings) {
  for (std::size_t state = 0; state < counts.size(); ++state) {
    const auto where = fmt::format("{}@{}", state_path, state_names[state]);
    const auto& attributes = column.info.attributes;
    const auto found = std::find_if(attributes.begin(), attributes.end(),
                                    [&](const auto& each) { return each.name == state_names[state]; });
    const auto said = found == attributes.end() ? std::nullopt : whole_number(found->value);
    if (!said) {
      // Recorders before this state wrote no count of it.
      if (recorded && (state != state_partial || counts[state] > 0))
        findings.add({Level::error, "a number of frames is missing", where, "a number", "none", {}});
      continue;
    }
    // "missing" counts every frame that is not received, whatever became of it, also those behind the column's end.
    const auto actual = state == 0 ? frames - std::min(frames, counts[state_received]) : counts[state];
    if (state <= state_received ? *said != actual : *said < actual)
      findings.add({Level::error,
                    "a number of frames is wrong",
                    where,
                    fmt::format("{}", *said),
                    fmt::format("{} in the column", actual),
                    {}});
  }
}

/// What every recorder writes, and whose absence would keep a part of the check from being made.
void require(const Tree& tree, const char* path, Findings& findings) {
  if (tree.find(path) == nullptr)
    findings.add({Level::error, "a part that every recorded file has is missing", path, {}, {}, {}});
}

const char* what_lost_means(const TreeDataset& column) {
  const auto& attributes = column.info.attributes;
  const bool is_bound = std::any_of(attributes.begin(), attributes.end(),
                                    [](const auto& each) { return each.name == lost_or_never_came; });
  return is_bound ? "lost or never came (the file was cut off)" : "received, and not in the file";
}

/// `there`: the frames in the index; returns how many of `frames` are missing.
std::uint64_t add_missing(std::uint64_t frames, std::uint64_t there, const SeriesState& series, const std::string& path,
                          std::string remedy, Findings& findings) {
  if (series.recoverable) there = series.recoverable->size();
  const auto missing = frames - std::min(frames, there);
  if (missing > 0 && !series.truncated && !series.unfinished)
    findings.add({Level::warning, "frames are missing", path, fmt::format("{}", frames), fmt::format("{}", there),
                  std::move(remedy)});
  return missing;
}

}  // namespace

FrameCounts account_for_no_frames(const Tree& tree, const std::vector<const Subject*>& channels,
                                  const std::string& path, const SeriesState& series, Findings& findings) {
  std::uint64_t frames = series.recoverable ? series.recoverable->size() : 0;
  for (const auto* channel : channels) frames = std::max(frames, channel->info().shape.front());
  if (const auto* states = tree.find(state_path); states != nullptr && !states->info.shape.empty())
    frames = std::max(frames, states->info.shape.front());
  if (const auto* announced = tree.find(announced_path); announced != nullptr && announced->value)
    frames = std::max(frames, whole_number(*announced->value).value_or(0));
  FrameCounts counts;
  counts.frames = frames;
  counts.missing =
      add_missing(frames, 0, series, path,
                  "the index has none; `penstock recover` finds those whose segments are in the file", findings);
  return counts;
}

FrameCounts account_for_frames(const Tree& tree, const std::vector<const Subject*>& channels, const SeriesState& series,
                               Findings& findings) {
  FrameCounts counts;
  const bool recorded = tree.root_attribute(format_attribute) != nullptr;
  if (channels.empty()) return counts;
  if (recorded) require(tree, announced_path, findings);
  if (recorded) require(tree, state_path, findings);
  const auto places = places_of(tree);
  auto room = channels.front()->info().shape.front();
  for (const auto* channel : channels)
    if (!series.unfinished && channel->info().shape.front() != room)
      findings.add({Level::error,
                    "channels have different numbers of frames",
                    channel->path,
                    fmt::format("{}", room),
                    fmt::format("{}", channel->info().shape.front()),
                    {}});
  // A scan has as many places as its axes make; its frames are those of the columns.
  if (places) room = places->size();
  counts.frames = room;
  const auto* announced = tree.find(announced_path);
  if (announced != nullptr && announced->value) {
    const auto number = whole_number(*announced->value).value_or(0);
    if (number > room && !series.recoverable)
      findings.add({Level::warning, "fewer frames than announced", channels.front()->path, fmt::format("{}", number),
                    fmt::format("{}", room), "the series ended early, or its last frames did not arrive"});
    if (number != 0 && number < room)
      findings.add({Level::warning,
                    "more frames than announced",
                    channels.front()->path,
                    fmt::format("{}", number),
                    fmt::format("{}", room),
                    {}});
    counts.frames = std::max(room, number);
  }
  const auto* states = array_at(tree, state_path);
  const bool has_states = states != nullptr && states->spec.type == ElementType::u8;
  auto whole = whole_places(channels, has_states ? Bytes(states->data) : Bytes());
  std::vector<std::uint64_t> partial;
  std::uint64_t nameless = 0;
  if (places)
    whole = frames_of_places(whole, *places, &nameless);
  else
    partial = partial_places(channels, whole, has_states ? Bytes(states->data) : Bytes(), series.unfinished, findings);
  report_nameless(nameless, series.unfinished, findings);
  std::vector<std::uint64_t> held;
  if (series.recoverable) held = places ? frames_of_places(*series.recoverable, *places) : *series.recoverable;
  counts.partial = without(partial, held).size();
  counts.frames = std::max<std::uint64_t>(counts.frames, held.size());
  counts.missing = add_missing(
      counts.frames, whole.size(), series, channels.front()->path,
      "leave them out of the analysis: they read as the fill value, and /entry/penstock/frame_state is not 1",
      findings);
  const auto* column = tree.find(state_path);
  if (column == nullptr || !has_states) {
    if (!recorded) findings.add({Level::info, "the file has no column of frame states", state_path, {}, {}, {}});
    if (recorded && column != nullptr)
      findings.add({Level::error, "the column of frame states cannot be read", state_path, {}, {}, {}});
    return counts;
  }
  const auto states_counted =
      compare_states(whole, places ? nullptr : &partial, states->data, series.unfinished, findings);
  const auto absent = count_absent(whole, held, states->data);
  counts.damaged = absent[state_damaged];
  counts.dropped = absent[state_dropped];
  counts.lost = absent[state_lost];
  if (counts.lost > 0)
    findings.add({Level::error,
                  "frames are lost",
                  state_path,
                  {},
                  fmt::format("{}: {}", what_lost_means(*column), counts.lost),
                  "they read as the fill value: restore them from another copy, if there is one"});
  if (!series.unfinished) compare_counts(*column, states_counted, counts.frames, recorded, findings);
  return counts;
}

}  // namespace penstock::check
