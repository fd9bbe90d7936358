#include "check/accounting.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::check {
namespace {

constexpr const char* state_path = "/entry/penstock/frame_state";
constexpr const char* announced_path = "/entry/penstock/frames_announced";
constexpr std::uint8_t state_missing = 0;
constexpr std::uint8_t state_received = 1;

const store::ArrayValue* array_at(const Tree& tree, const char* path) {
  const auto* dataset = tree.find(path);
  if (dataset == nullptr || !dataset->value) return nullptr;
  return std::get_if<store::ArrayValue>(&*dataset->value);
}

std::optional<std::uint64_t> whole_number(const store::ArrayValue& array) {
  if (array.data.size() != 8) return std::nullopt;
  if (array.spec.type != ElementType::u64 && array.spec.type != ElementType::i64) return std::nullopt;
  return load_le<std::uint64_t>(array.data.data());
}

/// In how many channels each frame has a chunk.
std::vector<std::uint32_t> channels_of_frames(const std::vector<const Subject*>& channels, std::uint64_t frames) {
  std::vector<std::uint32_t> present(frames, 0);
  for (const auto* channel : channels)
    for (const auto& chunk : channel->index->chunks()) {
      const auto frame = channel->grid_position(chunk.number).front();
      if (frame < frames) ++present[frame];
    }
  return present;
}

/// Compares the states with the chunks, frame by frame; returns how many are marked as received.
std::uint64_t compare_states(const std::vector<std::uint32_t>& present, std::size_t channels, Bytes states,
                             bool unfinished, Findings& findings) {
  const auto level = unfinished ? Level::warning : Level::error;
  std::uint64_t received = 0;
  for (std::uint64_t frame = 0; frame < present.size(); ++frame) {
    const auto state = frame < states.size() ? std::to_integer<std::uint8_t>(states[frame]) : state_missing;
    const bool whole = present[frame] == channels;
    if (state == state_received) ++received;
    if (whole == (state == state_received)) continue;
    const auto* what =
        whole ? "a frame is there but not marked as received" : "a frame is marked as received but not there";
    findings.add({level,
                  what,
                  fmt::format("frame {}", frame),
                  whole ? "state 1" : "a chunk",
                  fmt::format("state {}", state),
                  {}});
  }
  return received;
}

void compare_counts(const TreeDataset& column, std::uint64_t received, Findings& findings) {
  for (const auto& attribute : column.info.attributes) {
    if (attribute.name != "received") continue;
    const auto* array = std::get_if<store::ArrayValue>(&attribute.value);
    const auto said = array == nullptr ? std::nullopt : whole_number(*array);
    if (said && *said != received)
      findings.add({Level::error,
                    "the number of received frames is wrong",
                    fmt::format("{}@received", state_path),
                    fmt::format("{}", *said),
                    fmt::format("{} marked as received", received),
                    {}});
  }
}

}  // namespace

FrameCounts account_for_frames(const Tree& tree, const std::vector<const Subject*>& channels, bool unfinished,
                               Findings& findings) {
  FrameCounts counts;
  if (channels.empty()) return counts;
  const auto room = channels.front()->info().shape.front();
  for (const auto* channel : channels)
    if (!unfinished && channel->info().shape.front() != room)
      findings.add({Level::error,
                    "channels have different numbers of frames",
                    channel->path,
                    fmt::format("{}", room),
                    fmt::format("{}", channel->info().shape.front()),
                    {}});
  counts.frames = room;
  const auto* announced = array_at(tree, announced_path);
  if (announced != nullptr) {
    const auto number = whole_number(*announced).value_or(0);
    if (number > room)
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
  const auto present = channels_of_frames(channels, room);
  const auto whole = static_cast<std::uint64_t>(
      std::count(present.begin(), present.end(), static_cast<std::uint32_t>(channels.size())));
  counts.missing = counts.frames - whole;
  if (counts.missing > 0)
    findings.add({Level::warning, "frames are missing", channels.front()->path, fmt::format("{}", counts.frames),
                  fmt::format("{}", whole),
                  "they read as the fill value; the column of states says what became of them"});
  const auto* column = tree.find(state_path);
  const auto* states = array_at(tree, state_path);
  if (column == nullptr || states == nullptr || states->spec.type != ElementType::u8) {
    findings.add({Level::info, "the file has no column of frame states", state_path, {}, {}, {}});
    return counts;
  }
  const auto received = compare_states(present, channels.size(), states->data, unfinished, findings);
  if (!unfinished) compare_counts(*column, received, findings);
  return counts;
}

}  // namespace penstock::check
