/// Per-frame values on their way to the file's columns.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "frame/frame.hpp"
#include "recorder/tree/metadata.hpp"
#include "recorder/tree/nexus/nexus.hpp"
#include "store/store.hpp"

namespace penstock::recorder {

/// A frame's values in memory, counted against the recorder's budget for them as long as this is kept.
struct ValuesRoom {
  std::shared_ptr<const void> held;
  std::uint64_t bytes = 0;
};

/// One frame's line in all columns.
struct Row {
  std::uint64_t number = 0;
  std::uint32_t part = 0;
  std::int64_t exposure_start_ns = -1;
  std::int64_t exposure_stop_ns = -1;
  std::int64_t exposure_real_ns = -1;
  std::int64_t received_ns = -1;
  std::int64_t encoded_ns = -1;
  std::int64_t written_ns = -1;
  std::int64_t admitted_ns = 0;  ///< monotonic; not stored
  std::int64_t place = -1;       ///< in the scan
  bool whole = true;             ///< every part of the frame is on storage
  Metadata metadata = {};
  ValuesRoom room = {};  ///< of `metadata`
};

class LateColumns;

/// Appends what the frame brings along to `rows`, as a segment has it: its exposure, its values in `columns`, and those
/// for which the file has no column.
void append_values(const Row& row, const std::vector<MetaColumn>& columns, LateColumns& late,
                   std::vector<std::byte>& rows);

/// What becomes of a chunk. Of a frame the highest of its chunks' counts: it is lost with one of them, and was there
/// before only if all of them were.
enum class WriteOutcome {
  already_there,
  placed,
  damaged,   ///< its pixels cannot be expanded
  too_late,  ///< its file is closed for good
  lost
};

/// Rows of frames that are between the network and the index, by a number that travels with the
/// frame's chunks. All calls are safe from several threads.
class RowSlots {
 public:
  /// Of a frame of `chunks` chunks.
  std::uint64_t put(Row row, std::uint64_t chunks = 1);
  /// The row in a slot that is in use; valid until the first of its chunks comes to its end.
  const Row& row(std::uint64_t slot);

  struct Settled {
    Row row;  ///< its times are those of the last chunk
    WriteOutcome outcome = WriteOutcome::placed;
  };
  /// `chunks` chunks of the frame came to their end; the frame with the last of them.
  std::optional<Settled> settle(std::uint64_t slot, WriteOutcome outcome, std::uint64_t chunks = 1,
                                std::int64_t encoded_ns = -1, std::int64_t written_ns = -1);

 private:
  struct Slot {
    Settled frame;
    std::uint64_t chunks = 0;  ///< that are on their way
  };
  std::mutex mutex_;
  std::deque<Slot> slots_;           // guarded by mutex_; a slot stays where it is
  std::vector<std::uint64_t> free_;  // guarded by mutex_
};

/// Which chunks of a frame's parts are in the file, whoever brought them, for parts that are not whole. One thread.
class PartialFrames {
 public:
  explicit PartialFrames(std::uint64_t chunks) : chunks_(chunks) {}
  /// True with the last chunk that the part lacked; it is forgotten then.
  bool add(FrameNumber number, std::uint32_t part, std::uint64_t chunk);

 private:
  struct Parts {
    std::vector<bool> there;
    std::uint64_t count = 0;
  };
  const std::uint64_t chunks_;
  std::map<std::pair<FrameNumber, std::uint32_t>, Parts> frames_;
};

/// Gathers rows and writes them in runs at equal distances, one HDF5 call a column and run. For the
/// indexer's thread.
class RowBatch {
 public:
  /// Told once for a name of metadata of which something is not stored, and why.
  using Remark = std::function<void(const std::string& name, const char* what)>;

  /// Whether a frame's state is among what is written; else the lead does that.
  enum class States { written, left_to_the_coordinator };

  /// Whether there is a column of places in a scan.
  enum class Places { none, written };

  explicit RowBatch(std::vector<MetaColumn> columns, States states = States::written, Remark remark = {},
                    Places places = Places::none)
      : columns_(std::move(columns)),
        states_(states),
        remark_(std::move(remark)),
        places_(places),
        unfitting_(columns_.size()) {}

  void add(Row row) {
    values_bytes_ += row.room.bytes;
    rows_.push_back(std::move(row));
  }
  std::size_t size() const { return rows_.size(); }
  /// Enough has gathered to be written, by number or by bytes of values.
  bool is_full(std::uint64_t values_bytes_max) const;
  /// Writes what was gathered and forgets it, also on an error.
  Result<void> write(store::RowWriter& out);
  /// Of each column, values that were written and differ from those sent.
  const std::vector<std::uint64_t>& unfitting() const { return unfitting_; }

 private:
  using Rows = std::vector<const Row*>;
  /// Rows at equal distances, which one call writes.
  struct Run {
    std::span<const Row* const> rows;
    store::RowRun place;
  };
  template <typename Write>
  static Result<void> for_runs(const Rows& rows, Write write);
  static Result<void> put(const Run& run, std::size_t column, std::int64_t Row::*member, store::RowWriter& out);
  static Result<void> write_received(const Run& run, store::RowWriter& out);
  Result<void> write_progress(const Run& run, store::RowWriter& out);
  static Result<void> write_exposures(const Run& run, store::RowWriter& out);
  Result<void> write_metadata(const Run& run, std::size_t position, store::RowWriter& out);
  void remark_unstorable(const Metadata& metadata);
  void remark(const std::string& name, const char* what);

  const std::vector<MetaColumn> columns_;
  const States states_;
  const Remark remark_;
  const Places places_;
  std::set<std::string> remarked_;
  std::vector<std::uint64_t> unfitting_;  ///< by column
  std::vector<Row> rows_;
  std::uint64_t values_bytes_ = 0;  ///< of rows_
};

/// Writes one state for all of `frames`, in runs at equal distances.
Result<void> write_states(std::vector<FrameNumber>& frames, FrameState state, store::RowWriter& out);

}  // namespace penstock::recorder
