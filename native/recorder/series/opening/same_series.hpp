/// Whether a start message is of the series that another one began.
#pragma once

#include "frame/series.hpp"
#include "series/registry.hpp"

namespace penstock::recorder {

/// What the registry compares of a start message.
series::Announced announced(const Series& start);
/// An error, with the field and both values, if `again` is not of the series that `begun` began; of a start that came
/// over ZeroMQ, if one of the two has elements, `mismatch` if none of its frames would fit.
Result<void> check_same_series(const Series& begun, const Series& again);
/// Where the frames of the start's element come in.
std::string endpoint_of(const Series& start);

}  // namespace penstock::recorder
