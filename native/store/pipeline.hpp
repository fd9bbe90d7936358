/// The way of segments: filled → written → (synced) → indexed.
///
/// `options.write_threads` threads give a segment its place and write it. Where chunks have fixed places, a
/// segment has one chunk, and its place follows from that. Under durability
/// `interval` and `segment` one more thread syncs what was written before the indexer hears of it;
/// all segments that were written meanwhile share a sync. Under `interval` it syncs early if many segments wait.
/// Nothing here waits for the indexer's success: segments that fail travel on with the reason, so no thread can be
/// left waiting.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "base/queue.hpp"
#include "base/time/any_time.hpp"
#include "store/segment.hpp"
#include "store/space/space.hpp"

namespace penstock::store {

/// Counters that several threads add to; each is independent of the others.
struct Counters {
  std::atomic<std::uint64_t> chunks{0};
  std::atomic<std::uint64_t> chunk_bytes{0};
  std::atomic<std::uint64_t> segments{0};
  std::atomic<std::uint64_t> written_bytes{0};
  std::atomic<std::uint64_t> lost_chunks{0};
  std::atomic<std::int64_t> write_ns{0};
  std::atomic<std::int64_t> write_ns_max{0};
  std::atomic<std::int64_t> sync_ns{0};
  std::atomic<std::int64_t> index_ns{0};
  std::atomic<std::int64_t> row_ns{0};
  std::atomic<std::int64_t> flush_ns{0};
  std::atomic<std::uint64_t> index_segments{0};
  AnyTime writing;  ///< calls that write segments
};

/// The current values, for StoreStats; without the queue.
StoreStats stats_of(const Counters& counters);

/// By dataset; empty where segments follow one another.
std::vector<Places> fixed_places(const FileLayout& layout);

/// The numbers that segments get: first, first + step, … Different ranks of a file have none in common.
struct Sequences {
  std::uint64_t first = 1;
  std::uint64_t step = 1;
};
inline Sequences sequences(const Share& share, const SharedFile& file) {
  return {file.last_sequence + share.rank + 1u, share.ranks};
}

class Pipeline {
 public:
  /// `deliver` takes segments in the order in which they are done; it is called from the pipeline's
  /// threads, waits where the indexer is behind, and outlives the pipeline.
  Pipeline(std::shared_ptr<File> file, Space& space, const format::FileId& id, const StoreOptions& options,
           Sequences sequences, std::vector<Places> places, Counters& counters,
           std::function<void(WrittenSegment)> deliver);
  ~Pipeline();

  /// Waits while the queue is full; `cancelled` once drain() was called.
  Result<void> push(FilledSegment&& segment);
  /// Refuses new segments, waits until all have been delivered, and joins the threads.
  void drain();
  /// Store::hurry()
  void hurry() { unsynced_.hurry(); }

  std::size_t waiting() const { return filled_.size(); }
  /// Writes that go past the page cache need aligned pieces.
  bool direct() const { return file_->direct(); }

 private:
  struct HeaderBuffer;
  /// Written, to be reported once it is synced.
  struct Unsynced {
    WrittenSegment segment;
    std::uint64_t failed_syncs = 0;  ///< before it was written
  };

  void write_loop();
  void sync_loop();
  Result<std::uint64_t> write_segment(FilledSegment& segment, HeaderBuffer& header);
  Result<void> write_at(const std::vector<iovec>& pieces, std::uint64_t address);
  void give_back(std::uint64_t address, std::uint64_t bytes, const Error& why, MutableBytes memory);
  Result<void> erase_header(std::uint64_t address, MutableBytes page);
  Result<std::uint64_t> take_place(const FilledSegment& segment, std::uint64_t bytes);
  std::unique_lock<std::mutex> turn();
  WrittenSegment written(const FilledSegment& segment, std::uint64_t address, std::optional<Error> failure) const;

  const std::shared_ptr<File> file_;
  Space& space_;
  const format::FileId id_;
  const StoreOptions options_;
  const std::vector<Places> places_;
  Counters& counters_;
  const std::function<void(WrittenSegment)> deliver_;

  BoundedQueue<FilledSegment> filled_;
  BoundedQueue<Unsynced> unsynced_;
  std::atomic<std::uint64_t> failed_syncs_{0};
  std::atomic<std::uint64_t> sequence_;
  const std::uint64_t sequence_step_;
  std::mutex buffered_turn_;

  std::vector<std::thread> writers_;
  std::thread syncer_;
};

}  // namespace penstock::store
