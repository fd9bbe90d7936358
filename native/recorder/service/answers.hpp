/// What the registry answers, in words for whoever sent a start, a frame or an end.
#pragma once

#include "frame/frame.hpp"
#include "frame/series.hpp"
#include "recorder/series/series_file.hpp"
#include "series/registry.hpp"

namespace penstock::recorder {

/// `file` of the series if it is open; null otherwise.
Error refusal_of(const series::Registry& registry, const series::Rules& rules, const series::Answer& answer,
                 const Series& start, const SeriesFile* file);
Error refusal_of(const series::Registry& registry, const series::Rules& rules, const series::Answer& answer,
                 const Frame& frame);
Error waits_until_one_is_closed(const std::string& series_unique_id, const series::Rules& rules);
/// Into the log, when a series is closed for a reason that its sender did not give.
void log_why_closed(const SeriesFile& file, series::EndedBy why, const series::Rules& rules);

}  // namespace penstock::recorder
