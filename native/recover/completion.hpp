/// What a closed file has that one whose recorder died lacks: the counts of frames, the time of its end, what a layout
/// has of the last frame, and the seal.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/files/env.hpp"
#include "check/findings.hpp"
#include "check/structures/index_process.hpp"
#include "recover/candidates.hpp"
#include "recover/ledger_rows.hpp"
#include "recover/values/frame_values.hpp"
#include "store/hdf5/index_file.hpp"
#include "store/store.hpp"

namespace penstock::recover {

/// Takes the file's lock for writing. A recovery that was killed a moment ago may have left a process that reads HDF5
/// for it: that one ends by itself within two seconds, and holds the lock until then.
Result<void> lock_when_free(File& file);

/// Whether the states have the counts that a recorder, or a recovery, writes last.
bool has_final_counts(const check::Tree& tree);

/// Whether a recorder, or a recovery, closed the file to the end. The mark of an unfinished file does not tell:
/// programs like h5clear remove it, and a recorder does before the last steps of its closing.
bool was_completed(const check::Tree& tree);

/// One a frame; empty where the file has none. Lives as long as the tree.
Bytes states_of(const check::Tree& tree);

/// When the last frame came. A file that somebody went on with when it was finished has the end of before.
void add_end_time(const check::Tree& tree, const Segments& segments, const std::vector<ReceivedTime>& times,
                  store::FinalValues& values);

/// Why the series ended, as the file says; empty if it does not.
std::string ended_by(const check::Tree& tree);
/// Says it again, or that a recovery completed the file if it is not known.
void add_ended_by(const std::string& known, store::FinalValues& values);

/// Puts a value in place of the one that the recorder wrote at the start, with its attributes and other names.
void replace_value(const store::format::Description& description, const std::string& path, store::Value value,
                   store::FinalValues& values);

/// What of a layout is the last frame's.
struct LastRow {
  std::string column;     ///< path
  std::string path;       ///< of a value, or of an object with an attribute
  std::string attribute;  ///< its name; empty: it is the value
};
std::vector<LastRow> last_rows_of(const store::format::Description& description);

std::optional<std::uint64_t> last_received(Bytes states);

/// The frames whose values are the last ones.
struct LastKnown {
  LastFrames in_segments;                   ///< of each column
  std::optional<std::uint64_t> in_columns;  ///< that HDF5 had stored; for columns whose values no segment has
};

/// Puts the last values of columns where a layout wants them, if `is_there` knows an object of that path. A finding
/// tells if a later frame than HDF5 had stored is complete.
Result<void> add_last_rows(store::hdf5::IndexFile& index, const Segments& segments, const LastKnown& known,
                           const Frames& frames, const std::function<bool(const std::string&)>& is_there,
                           check::Findings& findings, store::FinalValues& values);

/// Over all that no segment guards, up to `end`. What a killed recorder had leased may be among it.
Result<void> seal(File& file, const Segments& segments, std::uint64_t end);

}  // namespace penstock::recover
