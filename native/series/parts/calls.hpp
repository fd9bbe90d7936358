/// What waits at one rank for a file that the coordinator does not have yet: it is kept there, and the coordinator
/// calls when the file is there, or will not be. Both sides.
#pragma once

#include <string>

#include "series/parts/closing.hpp"
#include "series/parts/context.hpp"
#include "series/parts/lines.hpp"
#include "series/parts/opening.hpp"
#include "series/parts/refusals.hpp"

namespace penstock::series {

class Calls {
 public:
  Calls(Context& context, Lines& lines, Refusals& refusals, Closing& closing, Opening& opening)
      : context_(context), lines_(lines), refusals_(refusals), closing_(closing), opening_(opening) {}

  /// The other rank waits for the file of the series.
  static Answer wait_there(Entry& entry, unsigned rank);

  Answer on(const Waits& event);
  void on(const Called& event);
  void on(const CaughtUp& event);
  void on(const LineEmpty& event);
  void on(const Stop& event);

 private:
  void wait_in_vain(const std::string& name, Entry& entry);
  void catch_up(const std::string& name, std::uint64_t generation);

  Context& context_;
  Lines& lines_;
  Refusals& refusals_;
  Closing& closing_;
  Opening& opening_;
};

}  // namespace penstock::series
