/// Events of series that are recorded: how far they are, and how they ended (docs/reference).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "frame/pool.hpp"
#include "recorder/series/series_file.hpp"
#include "recorder/service/events.hpp"
#include "recorder/service/report.hpp"

namespace penstock::recorder {

class SeriesEvents {
 public:
  /// All of them outlive it.
  SeriesEvents(Events& events, const Report& report, const BufferPool& pool)
      : events_(events), report_(report), pool_(pool) {}

  void begin(const SeriesFile& file);
  /// At most twice a second for each series. `ends_in_ns`: how long it waits at most if nothing comes.
  void progress(const SeriesFile& file, std::optional<std::int64_t> ends_in_ns, std::int64_t now_ns);
  void ended(const SeriesFile& file, series::EndedBy why, const std::string& problem);

 private:
  /// Where a series stood at its last event.
  struct Progress {
    std::int64_t started_ns = 0;  ///< monotonic
    std::int64_t told_ns = 0;
    std::uint64_t raw_bytes = 0;
    std::uint64_t stored_bytes = 0;
  };

  Events& events_;
  const Report& report_;
  const BufferPool& pool_;
  std::mutex mutex_;
  std::map<const SeriesFile*, Progress> open_;  // guarded by mutex_
};

}  // namespace penstock::recorder
