/// The file of a series: it is made, or joined, and is there or fails.
#pragma once

#include <string>

#include "series/parts/closing.hpp"
#include "series/parts/context.hpp"
#include "series/parts/ends.hpp"
#include "series/parts/refusals.hpp"

namespace penstock::series {

class Opening {
 public:
  Opening(Context& context, Refusals& refusals, Ends& ends, Closing& closing)
      : context_(context), refusals_(refusals), ends_(ends), closing_(closing) {}

  /// Commands the file of a series that has a place. As in Open.
  void begin(const std::string& name, Entry& entry, bool from_line, bool sought);
  /// Gives free places to the starts that wait for one.
  void let_in();

  void on(const Opened& event);
  Answer on(const OpenFailed& event);

 private:
  void call(Notify::What what, const std::string& name, const Entry& entry);

  Context& context_;
  Refusals& refusals_;
  Ends& ends_;
  Closing& closing_;
};

}  // namespace penstock::series
