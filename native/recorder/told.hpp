/// Which messages are worth a line in the log: of many that say the same a few, and then how many more there were.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace penstock::recorder {

/// For one thread at a time.
class Told {
 public:
  /// Nothing where the message is not told; otherwise how many of its kind were not since the last one. Messages are
  /// of one kind if they differ in numbers alone, what stands in quotes included in what has to agree.
  std::optional<std::uint64_t> may_tell(Errc code, std::string_view message, std::int64_t now_ns);

 private:
  struct Kind {
    unsigned told = 0;
    std::uint64_t silent = 0;
    std::int64_t next_ns = 0;      ///< when it may be told again, behind the first ones
    std::int64_t interval_ns = 0;  ///< grows
  };
  std::map<std::string, Kind> kinds_;
};

}  // namespace penstock::recorder
