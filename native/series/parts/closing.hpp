/// When the file of a series is closed: because the series is over, another one needs the file, or the recorder stops;
/// and, with several ranks, when each has handed over its part.
#pragma once

#include <optional>
#include <string>

#include "series/parts/context.hpp"

namespace penstock::series {

class Closing {
 public:
  explicit Closing(Context& context) : context_(context) {}

  /// Closes an open series at the stop, or because the coordinator asked, unless something waits for the file.
  void close_if_asked(const std::string& name, Entry& entry);
  /// When Tick is due at the latest.
  std::optional<Time> wake_at() const;

  void on(const Measured& event);
  void on(const CloseAsked& event);
  void on(const HandedOver& event);
  void on(const Closed& event);
  void on(const Stop& event);
  void on(const Tick& event);

 private:
  void evaluate(const std::string& name, Entry& entry);
  void begin(const std::string& name, Entry& entry);
  void command(const std::string& name, Entry& entry);
  void make_room();
  bool is_waited_for(const Entry& entry) const {
    return entry.has_line || (!entry.ranks.behind.empty() && context_.now < entry.ranks.behind_until);
  }

  Context& context_;
};

}  // namespace penstock::series
