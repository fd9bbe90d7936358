/// Start messages that wait for the first image of their series, which brings what they lack (message.hpp).
///
/// A sender that cannot be distinguished from others has one at a time: its next start ends the series before. The
/// memory of all is bounded.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frame/frame.hpp"
#include "frame/series.hpp"
#include "stream/delivery.hpp"

namespace penstock::stream {

/// For one thread.
class LateStarts {
 public:
  /// At most `starts_max` wait, with tables of together `bytes_max`.
  LateStarts(std::size_t starts_max, std::uint64_t bytes_max) : starts_max_(starts_max), bytes_max_(bytes_max) {}

  struct Late {
    Series start;
    std::vector<std::pair<FrameNumber, Fate>> lost = {};  ///< images that came and cannot be recorded
  };
  /// Keeps the start, in the place of one of the same name. Its tables are left out, with a warning, if memory is
  /// exhausted for them.
  void keep(Series start);
  /// Before a start of this name: the oldest other one, if no more may wait. No image of it came.
  std::optional<Series> let_go_for(const std::string& series_unique_id);
  /// The oldest one.
  std::optional<Series> let_go();
  std::optional<Late> take(const std::string& series_unique_id);
  /// False if no start of this name waits.
  bool note_lost(const std::string& series_unique_id, FrameNumber number, Fate fate);

 private:
  std::deque<Late>::iterator find(const std::string& series_unique_id);

  const std::size_t starts_max_;
  const std::uint64_t bytes_max_;
  std::deque<Late> late_;  ///< the oldest first
};

}  // namespace penstock::stream
