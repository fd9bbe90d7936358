/// What becomes of the chunks that the store was given: the frame accounting, the rows of the columns, and the
/// acknowledgements of the sessions that sent the frames.
///
/// The store calls its listener on the indexer's thread, by batches; give_up(), notify_sessions() and the sessions'
/// calls are safe from any thread. use() and settle_partial() have to be called before and after all of that. A frame's
/// row waits in a slot, whose number travels with the frame's chunks as their cookie.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "recorder/series/accounting/late_columns.hpp"
#include "recorder/series/accounting/rows.hpp"
#include "recorder/series/chunks/blocks.hpp"
#include "recorder/series/file_watch.hpp"
#include "recorder/series/series_account.hpp"
#include "recorder/series/series_spec.hpp"
#include "recorder/team/file_role.hpp"
#include "store/store.hpp"

namespace penstock::recorder {

/// Connections that want to hear of the series. All calls are safe from several threads.
class Sessions {
 public:
  void attach(Session session);
  std::vector<Session> all() const;
  /// A connection that will put frames.
  void expect(const Session& session);
  /// There were some, and each is gone.
  bool are_gone() const;

 private:
  mutable std::mutex mutex_;
  // guarded by mutex_
  std::vector<Session> sessions_;
  std::vector<std::weak_ptr<AckListener>> expected_;  ///< those that are gone are forgotten with the next one
};

/// Of each column, values of the other ranks that were not stored as they came. All calls are safe from several
/// threads.
class UnfittingElsewhere {
 public:
  void add(const std::vector<std::uint64_t>& counts);
  void add_to(std::vector<std::uint64_t>& counts) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::uint64_t> counts_;  // guarded by mutex_
};

class Settlement final : public store::Listener {
 public:
  /// All of them outlive it; `blocks` is null where a chunk has one frame.
  Settlement(const SeriesSpec& spec, SeriesAccount& account, FileWatch& watch, FileRole& role, Blocks* blocks)
      : spec_(spec), account_(account), watch_(watch), role_(role), blocks_(blocks), partial_(spec.tiling().count()) {}

  /// Before the store is made: columns of what frames bring along, and where others would go.
  void use(const std::vector<MetaColumn>& columns, LateColumns::PathOf path_of);

  /// A row of a frame that was admitted. Returns the cookie of its chunks.
  std::uint64_t put(Row row) { return slots_.put(std::move(row), spec_.tiling().count()); }
  /// Appends the values of the frames that chunks with this cookie have, for their segment. Before the first of these
  /// chunks is handed to the store.
  void append_values(std::uint64_t cookie, std::vector<std::byte>& rows);
  /// `chunks` chunks with this cookie will not be written; the frame is given up with its last chunk.
  void give_up(std::uint64_t cookie, std::uint64_t chunks, WriteOutcome outcome);
  /// The frame in this slot cannot be expanded.
  void give_up_damaged(std::uint64_t slot);
  /// Tells sessions up to which frame all that they sent is safe, unless the file is gone.
  void notify_sessions();
  Sessions& sessions() { return sessions_; }
  const Sessions& sessions() const { return sessions_; }

  /// Frames that this rank could not place: their states are written, or reported to the rank that writes them.
  Result<void> settle_unplaced(store::RowWriter* rows) {
    return role_.settle_unplaced(spec_.series().unique_id, account_.ledger.take_unplaced(), rows);
  }
  /// The coordinator's, when all ranks have reported: frames that lack a part.
  void settle_partial();
  /// After settle_partial(): an error for each part that frames lack whose other parts are there.
  const std::vector<Error>& partial() const { return partial_errors_; }

  /// Of each column, values that were not stored as they came: of this process …
  std::vector<std::uint64_t> unfitting_here() const;
  /// … of other ranks …
  UnfittingElsewhere& unfitting_elsewhere() { return unfitting_elsewhere_; }
  /// … and of all.
  std::vector<std::uint64_t> unfitting() const;

  /// Values for which the file has no column came to this process …
  bool has_late_here() const { return late_ != nullptr && late_->any(); }
  /// … or to another one.
  void note_late_elsewhere() { late_elsewhere_ = true; }
  bool has_late() const { return has_late_here() || late_elsewhere_; }

  void placed(std::span<const store::PlacedChunk> chunks, store::RowWriter& rows) override;
  void lost(std::span<const store::PlacedChunk> chunks, const Error& why) override;
  void already_there(std::span<const store::PlacedChunk> chunks) override;
  void placed_elsewhere(std::span<const store::PlacedChunk> chunks) override;
  void tick(store::RowWriter& rows) override;

 private:
  using Settled = std::vector<RowSlots::Settled>;

  void settle(std::uint64_t cookie, WriteOutcome outcome, std::uint64_t chunks, std::int64_t encoded_ns,
              std::int64_t written_ns, Settled& settled);
  void conclude(Settled settled, std::uint64_t stored_bytes);
  bool completes_part(const store::ChunkHead& head);

  const SeriesSpec& spec_;
  SeriesAccount& account_;
  FileWatch& watch_;
  FileRole& role_;
  Blocks* const blocks_;

  // Set by use().
  std::vector<MetaColumn> columns_;
  std::unique_ptr<LateColumns> late_;  ///< of columns_; synchronises itself

  // Synchronise themselves.
  RowSlots slots_;
  Sessions sessions_;
  UnfittingElsewhere unfitting_elsewhere_;
  std::atomic<bool> late_elsewhere_ = false;

  // The indexer's thread only, and the closing thread after it.
  std::unique_ptr<RowBatch> batch_;
  std::vector<FrameNumber> complete_elsewhere_;  ///< whose state is still to be written
  PartialFrames partial_;                        ///< of the coordinator of several ranks
  std::vector<Error> partial_errors_;
};

}  // namespace penstock::recorder
