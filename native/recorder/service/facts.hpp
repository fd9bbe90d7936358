/// Messages of sources as events of the registry.
#pragma once

#include "recorder/service/line.hpp"
#include "series/registry.hpp"

namespace penstock::recorder {

series::Started started(const Start& start);
series::Ended ended(const SeriesEnd& end, unsigned rank);

}  // namespace penstock::recorder
