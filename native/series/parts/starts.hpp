/// What becomes of a start message: it opens its series, takes part in it, waits for it, or is refused.
#pragma once

#include "series/parts/context.hpp"
#include "series/parts/ends.hpp"
#include "series/parts/lines.hpp"
#include "series/parts/opening.hpp"
#include "series/parts/refusals.hpp"

namespace penstock::series {

class Starts {
 public:
  Starts(Context& context, Lines& lines, Refusals& refusals, Ends& ends, Opening& opening)
      : context_(context), lines_(lines), refusals_(refusals), ends_(ends), opening_(opening) {}

  Answer on(const Started& event);
  void on(const Answered& event);

 private:
  Answer begin_again(const Started& event, Entry& entry);
  Answer open(const Started& event, Entry& entry);
  Answer wait_for_file(const Started& event, Entry& entry);
  bool is_place_near() const;
  Answer join(const Started& event, Entry& entry);
  Answer claim(const Started& event, Entry& entry);
  void become_series_of(const Started& event, std::uint64_t bytes, Entry& entry);
  Answer refuse(const Started& event, Entry& entry, Why why);

  Context& context_;
  Lines& lines_;
  Refusals& refusals_;
  Ends& ends_;
  Opening& opening_;
};

}  // namespace penstock::series
