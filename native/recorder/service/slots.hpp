/// What belongs to the names of series beside their state, which the registry has: their files, and what waits for
/// them. Whoever uses it synchronises it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recorder/series/series_file.hpp"
#include "recorder/service/line.hpp"

namespace penstock::recorder {

struct Slot {
  std::shared_ptr<SeriesFile> file;   ///< until it is closed
  std::vector<std::string> channels;  ///< of a series whose file is not there yet
  Line line;                          ///< its start and what came behind that, unless it waits at another rank
  bool has_line = false;              ///< something waits, or is just being presented
  std::uint64_t refused = 0;          ///< events that found no room in the line
};

class Slots {
 public:
  const std::map<std::string, Slot>& all() const { return slots_; }
  Slot& get(const std::string& name) { return slots_[name]; }
  /// Null if the name has neither a file nor a line.
  Slot* find(const std::string& name);
  /// Null if the name has none.
  std::shared_ptr<SeriesFile> file(const std::string& name) const;
  /// Puts it into the line.
  void keep(const std::string& name, Kept kept);
  /// Takes the next of the line; nothing if it is empty.
  std::optional<Kept> next(const std::string& name);
  /// Forgets a name without a file and a line.
  void drop_if_empty(const std::string& name);

 private:
  std::map<std::string, Slot> slots_;
};

}  // namespace penstock::recorder
