/// Values of beam and detector in a start message that are impossible.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "frame/series.hpp"

namespace penstock::recorder {

/// Moves values that are impossible (no number, a pixel of no size, a negative time) from where a reader would take
/// them for true to those that are only kept, as FIELD_as_sent in Series::unknown. An error for each names the field
/// and the value. The series is good without them: its frames would not come again.
std::vector<Error> set_aside_impossible(Series& series);

/// Of a series whose own scan, as in its start message, is impossible for the reason `why`: keeps that scan as
/// scan_as_sent in Series::unknown, with a remark in Series::remarks. False, and nothing done, where the start message
/// has none.
bool set_scan_aside(Series& series, const Error& why);

}  // namespace penstock::recorder
