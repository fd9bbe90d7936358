/// What a check found, in the words of its report.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.hpp"

namespace penstock::check {

enum class Level { info, warning, error };

/// Frames of a series, by their numbers.
struct FrameSpan {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

/// Where something is.
struct Place {
  Place() = default;
  Place(std::string words) : text(std::move(words)) {}
  Place(const char* words) : text(words) {}
  Place(std::string words, FrameSpan span) : text(std::move(words)), frames(span) {}

  std::string text;                 ///< dataset, frame, offset
  std::optional<FrameSpan> frames;  ///< if it is in frames whose numbers are known
};

struct Finding {
  Level level = Level::error;
  std::string what;  ///< a sentence; findings with the same one are counted together
  Place where;
  std::string expected;  ///< empty where nothing is compared
  std::string actual;
  std::string remedy;            ///< what to do, where something can be done
  bool lag = false;              ///< of a series that has not ended: it may be gone as soon as the recorder continues
  std::string source_file = {};  ///< of a series with several files, if it concerns one of them
  std::uint64_t places = 1;      ///< several: it stands for those that were not kept
};

/// Gathers findings from all threads. Of each `what` the first few are kept, the rest counted for each
/// source file, so that a file in ruins costs no memory.
class Findings {
 public:
  explicit Findings(std::size_t kept_per_kind = 20) : kept_per_kind_(kept_per_kind) {}

  void add(Finding finding);
  /// Those that are a lag are left out from now on.
  void ignore_lags();
  bool any_error() const;
  bool any(std::string_view what) const;
  /// Errors first, then warnings, then information; for each kind with more than were kept, the last
  /// ones say how many more, and in which source file.
  std::vector<Finding> list() const;

 private:
  struct Kind {
    Level level = Level::info;
    std::vector<Finding> kept;
    std::map<std::string, std::uint64_t> more;  ///< by source file
    std::size_t order = 0;
  };

  const std::size_t kept_per_kind_;
  mutable Mutex mutex_;
  bool ignores_lags_ PEN_GUARDED_BY(mutex_) = false;
  std::map<std::string, Kind, std::less<>> kinds_ PEN_GUARDED_BY(mutex_);
};

nlohmann::json to_json(const Finding& finding);

}  // namespace penstock::check
