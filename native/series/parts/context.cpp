#include "series/parts/context.hpp"

#include <limits>

namespace penstock::series {

Context::Context(const Rules& given)
    : rules(given),
      // The coordinator's files are the other ranks' as well.
      places(rules.coordinates() ? rules.files_max : std::numeric_limits<std::size_t>::max(), rules.starts_max) {}

Answer Context::until(Time first, Time patience, Why why) const {
  const auto deadline = since(first) + patience;
  if (now >= deadline || stopping) return reject(stopping ? Why::stopping : why);
  return {.kind = Answer::Kind::wait_until, .until = deadline};
}

void Context::set_ending(Entry& entry, Time patience, bool all, EndedBy why) const {
  entry.recording.ending.set(now, patience, all, why, entry.recording.roster.has_elements());
}

}  // namespace penstock::series
