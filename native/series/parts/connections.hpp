/// The TCP connections of a rank.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "series/events.hpp"
#include "series/roster.hpp"

namespace penstock::series {

class Connections {
 public:
  void on(const Arrived& event) { connections_.insert(event.connection); }
  void on(const SenderLost& event) { connections_.erase(event.connection); }
  void on(const Departed& event) { connections_.erase(event.connection); }
  void on(const Guests& event) { guests_ = event.number; }

  bool is_there(const std::string& connection) const { return connections_.contains(connection); }
  /// Whether each connection has ended the series, and none was lost before its end.
  bool have_all_ended(const Roster& roster) const;

 private:
  std::set<std::string> connections_;
  std::size_t guests_ = 0;  ///< connections that have not said yet what they want
};

}  // namespace penstock::series
