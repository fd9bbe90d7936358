/// Reads chunks, verifies their checksums, expands them and compares their pixels, in threads.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/files/env.hpp"
#include "base/mutex.hpp"
#include "base/queue.hpp"
#include "check/compare/reference.hpp"
#include "check/findings.hpp"
#include "check/progress.hpp"
#include "check/structures/segment_frames.hpp"
#include "check/subject.hpp"
#include "store/format/segment.hpp"
#include "store/places.hpp"

namespace penstock::check {

/// A chunk to be verified.
struct ChunkTask {
  Subject* subject = nullptr;  ///< null where it is known from a record alone
  std::uint64_t number = 0;
  std::uint64_t address = 0;
  std::uint32_t size = 0;
  std::uint32_t filter_mask = 0;
  std::optional<std::uint32_t> crc;
  bool indexed = false;                            ///< readers see it: only such pixels are compared
  bool superseded = false;                         ///< the index names another copy of it
  bool unindexed = false;                          ///< the index was read, and does not name it
  std::uint32_t frames_there = ~std::uint32_t{0};  ///< of a chunk of several: bit i is the ith
  std::uint16_t dataset = 0;                       ///< where it has a record: its number in the description …
  std::uint32_t record_frame = 0;                  ///< … its `frame` …
  std::uint64_t segment_end = 0;                   ///< … the end of its segment …
  std::uint16_t zero_sectors = 0;                  ///< … and what of its end are only zeros
};

struct VerifierOptions {
  unsigned threads = 2;
  bool decode = true;
  std::uint64_t read_bytes = 8 << 20;       ///< of one read, where a chunk is not larger
  std::uint64_t chunk_bytes_max = 1 << 30;  ///< larger ones are checksummed and not expanded
  /// A file that is still being written, or was left so, may hold chunks that the index lacks.
  bool unfinished = false;
  /// The index was read to its end: what it lacks is worth a word.
  bool index_complete = true;
  std::function<bool()> cancelled;
  SegmentFrames* held = nullptr;  ///< gets each chunk with a record whose checksum is right; may be null, outlives this
};

struct VerifierCounts {
  std::atomic<std::uint64_t> segments{0};
  std::atomic<std::uint64_t> chunks{0};       ///< verified by checksum or by expanding
  std::atomic<std::uint64_t> in_segments{0};  ///< of these, with a record: chunks of frames
  std::atomic<std::uint64_t> bytes{0};        ///< stored bytes of them
  std::atomic<std::uint64_t> unindexed{0};    ///< chunks in segments that the index does not name
  std::atomic<std::uint64_t> superseded{0};   ///< chunks in segments for which the index names another
};

/// Takes work from one thread and does it in several. Memory: for each thread one read and one
/// expanded chunk, and the frame it is compared with.
class Verifier {
 public:
  /// Everything passed by reference outlives this. `reference` may be null.
  Verifier(File& file, std::uint64_t file_bytes, const Reference* reference, const VerifierOptions& options,
           Findings& findings, Progress& progress);
  ~Verifier();

  /// The datasets that records speak of, by their number; others follow. In slots the file gets the space of a
  /// chunk only when it is written, and not before. Before the first push.
  void set_subjects(std::vector<Subject*> by_record, std::vector<Subject*> all, store::Placement placement);
  /// Verifies what a segment holds against its records and the index; waits while the queue is full.
  void push(const store::format::SegmentHeader& segment);
  /// Verifies chunks that lie at rising addresses.
  void push(std::vector<ChunkTask> tasks);
  /// Waits until all work is done; threads go on for more.
  void drain();

  const VerifierCounts& counts() const { return counts_; }

 private:
  using Work = std::variant<store::format::SegmentHeader, std::vector<ChunkTask>>;
  struct Memory;

  void run();
  void verify_segment(const store::format::SegmentHeader& segment, Memory& memory);
  void verify_rows(const store::format::SegmentHeader& segment);
  ChunkTask task_for(const store::format::ChunkRecord& record, const store::format::SegmentHeader& segment);
  Subject* subject_of(std::uint16_t dataset, std::uint64_t chunk_index, std::uint64_t address) const;
  void match_with_index(ChunkTask& task, const store::format::ChunkRecord& record);
  void verify_chunks(std::span<const ChunkTask> tasks, Memory& memory);
  void verify_large_chunk(const ChunkTask& task, Memory& memory);
  void verify_chunk(const ChunkTask& task, Bytes stored, Memory& memory);
  void compare_chunk(const ChunkTask& task, Bytes raw, Memory& memory);
  void report_superseded(const ChunkTask& task);
  void report_unindexed(const ChunkTask& task);
  void report_not_whole(const ChunkTask& task);
  bool was_not_promised(const ChunkTask& task) const;
  bool check_checksum(const ChunkTask& task, std::uint32_t crc);
  void count(const ChunkTask& task);
  void hold(const ChunkTask& task);
  Place where(const ChunkTask& task) const;
  bool cancelled() const { return options_.cancelled && options_.cancelled(); }

  File& file_;
  const std::uint64_t file_bytes_;
  const Reference* const reference_;
  const VerifierOptions options_;
  Findings& findings_;
  Progress& progress_;
  std::vector<Subject*> by_record_;
  std::vector<Subject*> all_;
  store::Placement placement_ = store::Placement::log;

  VerifierCounts counts_;
  BoundedQueue<Work> queue_;
  Mutex mutex_;
  CondVar idle_;
  std::uint64_t open_work_ PEN_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_;
};

}  // namespace penstock::check
