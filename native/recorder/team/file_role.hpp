/// What a rank does for a file that all ranks write: as the coordinator, which makes it, keeps its accounting and
/// closes it, as a member, or alone. All calls are safe from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recorder/series/accounting/ledger.hpp"
#include "recorder/series/accounting/rows.hpp"
#include "recorder/team/messages.hpp"
#include "store/store.hpp"

namespace penstock::recorder {

class Team;

class FileRole {
 public:
  virtual ~FileRole() = default;

  /// Who writes the frames' states.
  virtual RowBatch::States states() const = 0;
  /// The accounting of all frames is here, and with it the last word on the file.
  virtual bool completes() const = 0;
  /// Ranks that write into the file.
  virtual unsigned writers() const = 0;
  bool shares() const { return writers() > 1; }
  /// Chunks of other ranks are heard of.
  bool hears_of_others() const { return completes() && shares(); }

  /// What the file is made for, as another rank has settled it with this first frame or one before. Nothing where this
  /// rank settles it.
  virtual Result<std::optional<Terms>> terms(const std::string& series_unique_id, Encoding encoding,
                                             const std::vector<MetaColumn>& columns) = 0;
  /// One past the highest frame number that is known elsewhere; 0: nothing is.
  virtual std::uint64_t end_elsewhere(const std::string& series_unique_id) = 0;
  /// States of frames that could not be placed: written by who writes states, `rows` being null where there is no file.
  virtual Result<void> settle_unplaced(const std::string& series_unique_id,
                                       const std::vector<std::pair<FrameNumber, FrameState>>& frames,
                                       store::RowWriter* rows) = 0;
};

/// That of the team's rank. `team` outlives it.
std::unique_ptr<FileRole> make_file_role(Team& team);

}  // namespace penstock::recorder
