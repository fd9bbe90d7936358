/// Finds the series of a frame, or of what came to another rank. If its start has not come here, it may be on its way
/// through another socket or rank.
#pragma once

#include <string>

#include "series/parts/context.hpp"
#include "series/parts/lines.hpp"
#include "series/parts/opening.hpp"

namespace penstock::series {

class Search {
 public:
  Search(Context& context, Lines& lines, Opening& opening) : context_(context), lines_(lines), opening_(opening) {}

  Answer on(const FrameSeen& event);
  Answer on(const Sought& event);

 private:
  Answer search(const std::string& name, Entry& entry, Time first);
  Answer search_for(const Sought& event, Entry* entry);
  void keep_early(const FrameSeen& event, Entry& entry);

  Context& context_;
  Lines& lines_;
  Opening& opening_;
};

}  // namespace penstock::series
