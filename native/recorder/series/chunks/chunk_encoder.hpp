/// From admitted frames, or blocks of them, to chunks in the store's segments: expanding, cutting into tiles, encoding.
///
/// Worker `w` of the recorder encodes into writer `w`, which fills a segment of its own; a writer's lock is contended
/// only by flushes. make_writers() comes before the first frame, by one thread, and drop_writers() after the last.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/log_rate_limiter.hpp"
#include "recorder/series/chunks/blocks.hpp"
#include "recorder/series/chunks/chunk_coding.hpp"
#include "recorder/series/chunks/scratch.hpp"
#include "recorder/series/chunks/task.hpp"
#include "recorder/series/settlement.hpp"
#include "store/store.hpp"

namespace penstock::recorder {

class ChunkEncoder {
 public:
  /// All of them outlive it.
  ChunkEncoder(const SeriesSpec& spec, const ChunkCoding& coding, SeriesAccount& account, Settlement& settlement)
      : spec_(spec), coding_(coding), account_(account), settlement_(settlement) {}

  /// A writer for each worker.
  void make_writers(store::Store& store);
  void drop_writers() { writers_.clear(); }
  bool has_writers() const { return !writers_.empty(); }

  /// Encodes a frame into the chunks that it consists of. What cannot be written is given up.
  void encode(const Task& task, unsigned worker, ChunkScratch& scratch);
  /// Encodes a block that is due. What cannot be written is given up.
  void encode(const Block& block, unsigned worker, ChunkScratch& scratch);
  /// Writes a warning about a frame that cannot be expanded, not for each of many.
  void warn_damaged(const Error& why);

  /// Sends partly filled segments on their way whose first chunk has waited since before `before_ns` (monotonic).
  void flush_older_than(std::int64_t before_ns);
  /// Sends the worker's segment on its way if it is large enough to be worth a write of its own.
  void flush_if_worthwhile(unsigned worker);
  /// Sends all segments on their way.
  void flush();
  /// The same, and then closes the writer.
  void finish();

 private:
  struct WriterSlot {
    std::atomic<std::int64_t> flush_before_ns{0};  ///< monotonic; 0: nobody has asked for it
    std::mutex mutex;
    // guarded by mutex
    std::unique_ptr<store::ChunkWriter> writer;
  };
  /// How far a frame came on its way to the store.
  struct Progress {
    std::uint64_t chunks = 0;                   ///< that the store has taken, also if an error kept it from the others
    WriteOutcome outcome = WriteOutcome::lost;  ///< of the others
  };
  struct Input {
    const Frame& frame;
    WriterSlot& slot;
    ChunkScratch& scratch;
  };

  Result<void> write(const Frame& frame, const store::ChunkHead& first, unsigned worker, ChunkScratch& scratch,
                     Progress& progress);
  Result<void> write_raw(const Input& input, Bytes raw, const store::ChunkHead& head, Progress& progress);
  Result<void> write_tile(const Input& input, Bytes raw, std::uint64_t tile, const store::ChunkHead& head);
  Result<void> write_block(const Block& block, unsigned worker, ChunkScratch& scratch, std::uint64_t& chunks);
  Result<void> write_chunk(const Input& input, Bytes raw, const store::ChunkHead& head);
  Result<void> write_encoded(const Input& input, Bytes raw, const store::ChunkHead& head);
  Result<void> write_filtered(const Input& input, Bytes raw, const store::ChunkHead& head);
  static Result<void> put_plain(const Input& input, Bytes raw, const store::ChunkHead& head);
  void flush(WriterSlot& slot);
  void flush_older_than(std::int64_t before_ns, WriterSlot& slot);
  void flush_if_asked(unsigned worker);
  void note_unfiltered(const Frame& frame, const Error& why);

  const SeriesSpec& spec_;
  const ChunkCoding& coding_;
  SeriesAccount& account_;
  Settlement& settlement_;
  std::vector<std::unique_ptr<WriterSlot>> writers_;
  std::atomic<std::int64_t> unfiltered_logged_ns_{0};  ///< monotonic; 0: never
  LogRateLimiter damaged_limiter_;
};

}  // namespace penstock::recorder
