/// What of a series is there, by its frame accounting.
#pragma once

#include <algorithm>
#include <cstdint>

#include "recorder/series/series_account.hpp"
#include "recorder/series/series_spec.hpp"

namespace penstock::recorder {

/// Every announced frame is there.
inline bool is_complete(const SeriesSpec& spec, const SeriesAccount& account) {
  const auto announced = spec.series().frames;
  return announced > 0 && account.ledger.counts().received == announced;
}

/// Frames that are not complete, of those announced or below the highest that came.
inline std::uint64_t missing_frames(const SeriesSpec& spec, const SeriesAccount& account) {
  const auto counts = account.ledger.counts();
  const auto frames = std::max(spec.series().frames, counts.end);
  return frames - std::min(frames, counts.received);
}

/// All frames that the storage did not take have come again. With several ranks they may have come to a third one: then
/// only the complete series shows it.
inline bool has_what_was_lost(const SeriesSpec& spec, const SeriesAccount& account, bool alone) {
  return missing_frames(spec, account) == 0 || (alone && account.ledger.still_lost() == 0);
}

}  // namespace penstock::recorder
