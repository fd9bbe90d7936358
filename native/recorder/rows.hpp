/// Per-frame values on their way to the file's columns.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "frame/frame.hpp"
#include "recorder/metadata.hpp"
#include "recorder/nexus.hpp"
#include "store/store.hpp"

namespace penstock::recorder {

/// One frame's line in all columns.
struct Row {
  std::uint64_t number = 0;
  std::uint32_t channel = 0;
  std::int64_t exposure_start_ns = -1;
  std::int64_t exposure_stop_ns = -1;
  std::int64_t exposure_real_ns = -1;
  std::int64_t received_ns = -1;
  std::int64_t encoded_ns = -1;
  std::int64_t written_ns = -1;
  std::int64_t admitted_ns = 0;  ///< monotonic; not stored
  bool whole = true;             ///< every channel of the frame is on storage
  Metadata metadata = {};
};

/// Rows of frames that are between the network and the index, by a number that travels with the
/// chunk. All calls are safe from several threads.
class RowSlots {
 public:
  std::uint64_t put(Row row);
  Row take(std::uint64_t slot);

 private:
  std::mutex mutex_;
  std::vector<Row> slots_;           // guarded by mutex_
  std::vector<std::uint64_t> free_;  // guarded by mutex_
};

/// Gathers rows and writes them in runs at equal distances, one HDF5 call a column and run. For the
/// indexer's thread.
class RowBatch {
 public:
  /// Told once for a name of metadata of which something is not stored, and why.
  using Remark = std::function<void(const std::string& name, const char* what)>;

  /// Whether a frame's state is among what is written; else the lead does that.
  enum class States { written, left_to_the_lead };

  explicit RowBatch(std::vector<MetaColumn> columns, States states = States::written, Remark remark = {})
      : columns_(std::move(columns)), states_(states), remark_(std::move(remark)) {}

  void add(Row row) { rows_.push_back(std::move(row)); }
  std::size_t size() const { return rows_.size(); }
  /// Writes what was gathered and forgets it, also on an error.
  Result<void> write(store::RowWriter& out);

 private:
  /// Of gathered rows, those that one call writes: the positions [first, last).
  struct Run {
    std::size_t first = 0;
    std::size_t last = 0;
    store::RowRun rows;
  };
  Result<void> write_run(const Run& run, store::RowWriter& out);
  Result<void> write_metadata(const Run& run, std::size_t position, store::RowWriter& out);
  const MetaValue* value_of(const Metadata& metadata, std::size_t position) const;
  void remark_unknown(const Metadata& metadata);
  void remark(const std::string& name, const char* what);

  const std::vector<MetaColumn> columns_;
  const States states_;
  const Remark remark_;
  std::set<std::string> remarked_;
  std::vector<Row> rows_;
};

/// Writes one state for all of `frames`, in runs at equal distances.
Result<void> write_states(std::vector<FrameNumber>& frames, FrameState state, store::RowWriter& out);

}  // namespace penstock::recorder
