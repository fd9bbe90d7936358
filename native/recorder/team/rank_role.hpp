/// What a rank does for the series of a recorder: as the coordinator, which makes and closes the files, or as a member,
/// which asks it. A recorder of one rank is a coordinator without members.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "recorder/series/series_file.hpp"
#include "recorder/service/report.hpp"
#include "recorder/team/team.hpp"
#include "series/registry.hpp"

namespace penstock::recorder {

class Control;

/// What came of looking for the file of a series.
struct Found {
  Result<std::shared_ptr<SeriesFile>> file = std::shared_ptr<SeriesFile>();
  bool waits = false;                      ///< there is none yet: the coordinator calls
  std::vector<std::string> channels = {};  ///< of one that waits
  /// Of an error that is not the sender's alone: the file could not be made, or this rank has no part in it.
  enum class Fault : std::uint8_t { none, no_file, no_part } fault = Fault::none;
};

class RankRole {
 public:
  virtual ~RankRole() = default;

  // These may take as long as the storage or the coordinator does.

  /// Messages of other ranks come to `control`, which outlives it, from now on.
  virtual void start(Control& control) = 0;
  /// Before anything is closed: waits until all ranks may stop.
  virtual void wait_for_stop() = 0;
  /// The file of a series that begins here; takes `series` unless that waits. `answered` if its sender hears of errors.
  virtual Found open(Series& series, bool answered) = 0;
  /// The file of a series that began elsewhere. `again`: it was looked for in vain before.
  virtual Found seek(const std::string& series_unique_id, bool again) = 0;
  /// Another start of an open series: prepares what it brings, and has it heard by those who need to.
  virtual Result<void> take_part(SeriesFile& file, Series& series, bool answered) = 0;
  /// Closes this rank's part of a series; the coordinator's is the file, when other ranks have handed over theirs.
  virtual void close(SeriesFile& file, const series::Close& why) = 0;
  /// Behind close(), when another series of the same name may begin: reports the end.
  virtual void report_end(SeriesFile& file, const series::Close& why) = 0;

  // These only send.

  virtual void notify(const series::Notify& what) = 0;
  /// Its part of the series is closed, and the coordinator has not said yet what became of the file.
  virtual bool has_handed_over(const std::string& series_unique_id) = 0;
  /// A file is there, or in the end closed.
  virtual void begun(const SeriesFile& file) = 0;
  /// A series that has no file, counted by the registry; reports it once.
  virtual void refused(const std::string& series_unique_id, const Error& why) = 0;
  virtual void end_all() = 0;
  /// Each moment; `frames_wait` to be encoded.
  virtual void tick(const std::vector<std::shared_ptr<SeriesFile>>& open, bool frames_wait) = 0;
  /// All series are closed.
  virtual void dismiss() = 0;
  /// Asks the whole team to stop.
  virtual void say_stop() = 0;
  virtual bool told_to_stop() const = 0;
};

/// What a role works with; all of them outlive it.
struct RoleParts {
  Env& env;
  const Config& config;
  Team& team;
  Events& events;
  Report& report;
  const BufferPool& pool;
};
/// The registry's rules, of the team's rank with this configuration.
series::Rules rules_of(const Config& config, const Team& team);
/// The role of the team's rank.
std::unique_ptr<RankRole> make_role(const RoleParts& parts);

}  // namespace penstock::recorder
