#include "series/parts/connections.hpp"

#include <algorithm>

namespace penstock::series {

bool Connections::have_all_ended(const Roster& roster) const {
  if (guests_ > 0 || roster.any_lost()) return false;
  return std::all_of(connections_.begin(), connections_.end(),
                     [&](const auto& connection) { return roster.has_ended(connection); });
}

}  // namespace penstock::series
