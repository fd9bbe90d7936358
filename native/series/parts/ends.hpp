/// Who takes part in open series, who has ended, and how long a series is waited for after an end.
#pragma once

#include <string>

#include "series/parts/connections.hpp"
#include "series/parts/context.hpp"

namespace penstock::series {

class Ends {
 public:
  Ends(Context& context, const Connections& connections) : context_(context), connections_(connections) {}

  /// The participant begins. False if it is not over TCP and had begun before. If all others have ended, the series
  /// waits for this one.
  bool begin(Entry& entry, const Participant& who);
  /// Enters an end into an open series.
  void apply(Entry& entry, const Ended& event);
  /// Ends the series that the endpoint has begun before, whatever becomes of the series `name`: a detector that was
  /// restarted does not end them itself.
  void end_others_of(const Participant& who, const std::string& name);

  Answer on(const Ended& event);
  void on(const SenderLost& event);
  void on(const Departed& event);
  void on(const EndAll& event);

 private:
  Answer pass_on(const Ended& event, Entry* entry);
  void conclude(Entry& entry, const Ended& event);
  Time patience(const Entry& entry, const Ended& event, bool all) const;
  bool can_follow(const Entry& entry, const Ended& event) const;

  Context& context_;
  const Connections& connections_;
};

}  // namespace penstock::series
