/// What is to go wrong on the way from a simulated detector, as numbers: the same again for the same seed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/archive.hpp"
#include "base/fields.hpp"
#include "base/result.hpp"

namespace penstock::detector {

enum class FaultKind : std::uint8_t {
  drop,       ///< the frame is not sent
  late,       ///< it is sent after frames with higher numbers
  reorder,    ///< this many frames from this one on are sent in another order
  duplicate,  ///< it is sent twice
  corrupt,    ///< pixels that cannot be decoded: their head is wrong, or the last one is missing where they are plain
  flip,       ///< one bit of the pixels, after their checksum was made
  shape,      ///< a row of pixels is missing, and the message says so
  cut,        ///< the message is cut short
};
constexpr std::array fault_names{"drop", "late", "reorder", "duplicate", "corrupt", "flip", "shape", "cut"};
constexpr std::string_view name(FaultKind kind) { return fault_names[static_cast<std::size_t>(kind)]; }

/// Frames [first, end).
struct FrameRange {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

struct FaultRule {
  FaultKind kind = FaultKind::drop;
  double rate = 0;                       ///< probability for each frame, of each element; where no frames are named
  std::vector<FrameRange> frames;        ///< those that it happens to
  std::optional<std::uint32_t> element;  ///< of all where it names none
  std::uint64_t by_frames =
      0;                   ///< late: number of frames by which it is late; reorder: number of frames that change places
  std::int64_t by_ns = 0;  ///< late: with the first frame that is due so much later; 0: by frames
};

struct FaultPlan {
  std::uint64_t seed = 1;
  std::vector<FaultRule> rules;
  std::string log;  ///< path of the document of what was done; empty: none

  explicit operator bool() const { return !rules.empty() || !log.empty(); }
  Json to_json() const;

  /// What happens to this frame of this element: the first rule that says something of it; null: nothing.
  const FaultRule* rule_for(std::uint64_t frame, std::uint32_t element) const;
};

void fields(Archive& archive, FaultPlan& plan);

}  // namespace penstock::detector
