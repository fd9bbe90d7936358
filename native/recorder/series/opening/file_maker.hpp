/// Makes the file of a series that begins, under a name that is free: the coordinator's work.
#pragma once

#include <memory>
#include <string>

#include "base/log_rate_limiter.hpp"
#include "recorder/series/series_file.hpp"
#include "recorder/service/events.hpp"
#include "recorder/service/report.hpp"

namespace penstock::recorder {

class FileMaker {
 public:
  /// All of them outlive it.
  FileMaker(Env& env, const Config& config, Team& team, Events& events, Report& report)
      : env_(env), config_(config), team_(team), events_(events), report_(report) {}

  /// `answered` if the sender hears of an error: otherwise a name that is taken gets a number, and a storage without
  /// room is waited for. May take as long as the storage does.
  Result<std::shared_ptr<SeriesFile>> make(Series series, bool answered);
  /// Of another start of a series that is open: decodes its masks, as far as tables_bytes has room for them.
  void decode_maps(Series& again, SeriesFile& file);

 private:
  void decode_maps(Series& series, std::uint64_t used_bytes);
  Result<std::shared_ptr<SeriesFile>> make(Series series, std::string& path, bool answered);
  void warn_of_sensor(const Series& series);

  Env& env_;
  const Config& config_;
  Team& team_;
  Events& events_;
  Report& report_;
  LogRateLimiter sensor_warnings_{{.burst = 1, .interval_ns = 3'600'000'000'000, .interval_ns_max = 3'600'000'000'000}};
};

}  // namespace penstock::recorder
