/// Puts into a file's HDF5 index what its segments hold and the index lacks, after a recorder's death.
///
/// docs/explanation/decisions/0007-recovery-in-place-then-anew.md says what is done in which case. The
/// file may hold anything: what is wrong with it becomes a finding. Errors are for what keeps a
/// recovery from being tried at all: `locked` while another process has the file, or may have it since the file system
/// has no locks, `not_found`, `permission`, `no_space`, `truncated` if a finished file is shorter than it says,
/// `malformed` where no description segment is left and HDF5's structures do not say what it said, `refused` where it
/// cannot be known whether HDF5's structures are complete: only certain damage leads to a rebuild.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/files/env.hpp"
#include "base/result.hpp"
#include "check/findings.hpp"
#include "check/progress.hpp"

namespace penstock::recover {

/// A recorder wants to go on with this series in the file: it must hold no other, its structures must be usable, and
/// its end is left to the recorder. Errors beside the usual ones: `mismatch` for another series, `corrupt` where the
/// structures would have to be made anew, `already_exists` for a finished file that is not wanted.
struct ForSeries {
  std::string unique_id;
  bool finished = false;  ///< a file that is finished is wanted too
};

struct RecoverPlan {
  std::string file = {};
  bool dry_run = false;          ///< look, and write nothing
  bool rebuild = false;          ///< make HDF5's structures anew, whatever can be read of them
  bool not_in_use = false;       ///< no other process has the file, whatever the file system says of locks
  bool salvage = false;          ///< also of a finished file whose end is cut off: what is gone is marked as lost
  double index_timeout_s = 120;  ///< HDF5 is ended after this many seconds without progress
  std::string log_level = "info";
  std::optional<ForSeries> series = {};

  /// All problems of the plan, one a line, each with the field, the value and the limit.
  static Result<RecoverPlan> from_json(const nlohmann::json& plan);
  static nlohmann::json description();
};

enum class Way {
  nothing,  ///< the file is as its recorder would have closed it
  seal,     ///< all is there but the seal, which is written
  repair,   ///< the index is completed
  rebuild,  ///< HDF5's structures are made anew
};

/// What whoever goes on in the file has to know of it.
struct Contents {
  struct Run {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };
  std::vector<std::vector<Run>> datasets;  ///< by dataset: the frames whose chunk is there, rising
  std::uint64_t stored_bytes = 0;          ///< of these chunks
  std::uint64_t last_sequence = 0;         ///< the highest of all segments
  std::int64_t last_received_ns = 0;       ///< realtime, when the last frame came; 0: not known
  std::uint64_t damaged = 0;               ///< frames that are not there, by their state in the file
  std::uint64_t dropped = 0;
  std::uint64_t lost = 0;
};

struct RecoverReport {
  Way way = Way::nothing;
  bool written = false;              ///< false for a dry run
  std::uint64_t segments = 0;        ///< of chunks; those of descriptions, journals and seals are not counted
  std::uint64_t indexed = 0;         ///< chunks that the index has already
  std::uint64_t recovered = 0;       ///< chunks that it lacked, or in a rebuild all that are whole
  std::uint64_t damaged = 0;         ///< chunks that a segment names and whose bytes are not right
  std::uint64_t frames = 0;          ///< that the file has room for afterwards
  std::uint64_t missing = 0;         ///< of these, without all their chunks
  std::uint64_t damaged_frames = 0;  ///< of those, by their state in the file, as the next three
  std::uint64_t dropped_frames = 0;
  std::uint64_t lost_frames = 0;
  std::uint64_t partial = 0;
  std::vector<check::Finding> findings;
  std::optional<Contents> contents;  ///< for a series
  double seconds = 0;
};

nlohmann::json to_json(const RecoverReport& report);

/// Forks once (check/index_process.hpp). `cancelled` is asked until the first byte is written; then the
/// recovery is completed.
Result<RecoverReport> run_recover(Env& env, const RecoverPlan& plan, const check::Progress::Tell& tell,
                                  const std::function<bool()>& cancelled);

}  // namespace penstock::recover
