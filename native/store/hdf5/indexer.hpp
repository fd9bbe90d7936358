/// The one thread that owns the HDF5 file from Store::create to Store::finish.
///
/// Takes segments that are on storage, enters their chunks into the index, notifies the listener (or the rank
/// that wrote them), and flushes every `flush_interval`. After an error of HDF5 it goes on taking segments and reports
/// their chunks as lost with that error: the bytes are in the file, and a scan finds them. If the storage is full and
/// much of the index waits for room, it reports chunks as lost until there is room.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>

#include "base/log_rate_limiter.hpp"
#include "base/queue.hpp"
#include "store/hdf5/index_file.hpp"
#include "store/pipeline.hpp"
#include "store/share/messages.hpp"

namespace penstock::store::hdf5 {

class Indexer final : private RowWriter {
 public:
  /// `file` has been started. `listener` may be null; it and `counters` outlive the indexer.
  Indexer(std::unique_ptr<IndexFile> file, const StoreOptions& options, Listener* listener, Counters& counters);
  ~Indexer() override;

  /// Waits while the indexer is far behind.
  void push(WrittenSegment segment) {
    ++counters_.index_segments;
    (void)inbox_.push(std::move(segment));
  }

  /// A segment of another rank, and whom to notify of its outcome.
  struct Foreign {
    share::Placed placed;
    std::function<void(const share::Indexed&)> answer;
  };
  /// Do not wait: what other ranks may send unanswered is bounded by themselves.
  void push(Foreign segment) {
    ++counters_.index_segments;
    (void)inbox_.push_now(std::move(segment));
  }
  void push(share::Rows rows) { (void)inbox_.push_now(std::move(rows)); }

  /// Indexes what was pushed, lets the listener put its last rows, and joins the thread. Returns the
  /// first error of HDF5, if there was one.
  Result<void> drain();
  /// After drain().
  Result<void> finish(const FinalValues& values, const FillLate& fill_late) { return file_->finish(values, fill_late); }

 private:
  void run();
  using Item = std::variant<WrittenSegment, Foreign, share::Rows>;

  void take(WrittenSegment segment);
  void take(Foreign segment);
  void take(const share::Rows& rows);
  Result<std::vector<std::size_t>> enter(std::span<const PlacedChunk> chunks);
  void count(std::span<const PlacedChunk> chunks);
  void report_lost(std::span<const PlacedChunk> chunks, const Error& why);
  void report_refused(std::vector<PlacedChunk>& chunks, const std::vector<std::size_t>& refused);
  void flush();
  Result<void> put(ColumnId column, RowRun rows, Bytes data) override;
  void fail(const Error& error);

  const std::unique_ptr<IndexFile> file_;
  const std::chrono::milliseconds flush_interval_;
  Listener* const listener_;
  Counters& counters_;
  LogRateLimiter losses_limiter_;

  BoundedQueue<Item> inbox_;
  // of the indexer's thread until it is joined
  std::optional<Error> failure_;
  bool changed_ = false;
  std::thread thread_;
};

}  // namespace penstock::store::hdf5
