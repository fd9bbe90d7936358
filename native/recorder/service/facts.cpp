#include "recorder/service/facts.hpp"

#include <utility>

#include "recorder/series/opening/same_series.hpp"

namespace penstock::recorder {

series::Started started(const Start& start) {
  const auto& series = start.series;
  using series::Way;
  series::Participant who{.way = start.answered ? Way::tcp : (series.source.empty() ? Way::bound : Way::pulled),
                          .rank = start.rank};
  if (who.way != Way::tcp) who.source = series.source.empty() ? series.endpoint : series.source;
  if (series.element) who.element = series.element->number;
  return {.name = series.unique_id,
          .who = std::move(who),
          .what = announced(series),
          .resume = series.resumed,
          .bytes = bytes_of(series),
          .bare_bytes = bare_bytes_of(series)};
}

series::Ended ended(const SeriesEnd& end, unsigned rank) {
  using series::Way;
  return {.name = end.unique_id,
          .who = {.way = end.answered ? Way::tcp : (end.source.empty() ? Way::bound : Way::pulled),
                  .rank = rank,
                  .source = end.source,
                  .element = end.element},
          .generation = end.generation,
          .by_all = end.by_all,
          .by_start = end.by_start,
          .anew = end.anew,
          .sole = end.sole,
          .last = end.last};
}

}  // namespace penstock::recorder
