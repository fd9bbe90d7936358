/// One HDF5 file that many threads fill with chunks, near the speed of the storage.
///
/// Writers own stretches of the file and fill segments with chunks; a full segment goes to storage
/// in one large write; only then do its chunks enter HDF5's index, on one thread that owns every
/// HDF5 handle. A segment describes itself (docs/reference/format.md), so what the index lacks
/// after a crash is found again.
///
/// Life of a store: create → make_writer per thread → put … → writer.flush → finish.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/files/env.hpp"
#include "base/result.hpp"
#include "frame/pool.hpp"
#include "store/format/segment.hpp"
#include "store/layout.hpp"
#include "store/space/space.hpp"

namespace penstock::store {

enum class DatasetId : std::uint16_t {};
enum class ColumnId : std::uint16_t {};

enum class Durability {
  none,      ///< safe from the recorder's death once written; not from the machine's
  interval,  ///< synced every sync_interval; chunks count as safe after that
  segment,   ///< each segment is synced before its chunks count as safe
};

struct StoreOptions {
  std::uint64_t segment_bytes = 8 << 20;   ///< a segment is sealed at this size
  std::uint64_t extent_bytes = 128 << 20;  ///< file space leased at a time
  std::uint64_t alignment_bytes = 4096;    ///< of segments: stripe or block; a power of two ≥ 4096
  std::uint64_t buffer_bytes = 128 << 20;  ///< budget for segment buffers
  std::optional<BufferPool> buffers;       ///< where that budget is one that several stores share
  unsigned write_threads = 4;              ///< segments on their way to storage at once
  bool direct = true;                      ///< bypass the page cache where the file system can
  bool overwrite = false;                  ///< replace a file that is there
  bool swmr = true;                        ///< readers may open the file while it grows
  Durability durability = Durability::none;
  std::chrono::milliseconds sync_interval{1000};
  std::chrono::milliseconds flush_interval{1000};  ///< readers see new frames after at most this
  /// What segment buffers are made of.
  HugePages huge_pages = HugePages::transparent;
};

/// A chunk that a writer hands over.
struct ChunkHead {
  DatasetId dataset{};
  std::uint64_t index = 0;  ///< its number in the dataset's ChunkGrid: the frame number where a chunk is a frame
  std::uint32_t filter_mask = 0;
  std::int64_t received_ns = 0;  ///< realtime; kept in the segment
  std::uint64_t cookie = 0;      ///< comes back in PlacedChunk
  std::int64_t encoded_ns = 0;   ///< realtime; comes back in PlacedChunk
  /// CRC-32C of the chunk, where the caller made it while the bytes were in the cache; for put().
  std::optional<std::uint32_t> crc{};
  /// Of a scan the frame's number, which does not follow from its location. Where a chunk has several frames those that
  /// are in it: bit i is the ith. 0 otherwise.
  std::uint32_t frame = 0;
  /// Values of the chunk's frames (format::RowAppender), which go into the same segment: where the chunk is, they are.
  /// They need to last for the call alone, and do not come back.
  Bytes rows{};
};

/// A chunk that is on storage and in the index.
struct PlacedChunk {
  ChunkHead head;
  std::uint64_t address = 0;  ///< in the file
  std::uint32_t size = 0;
  std::uint32_t crc = 0;
  std::int64_t written_ns = 0;  ///< realtime, when its segment was on storage (or in the page cache)
  unsigned rank = 0;            ///< whose member holds it, where the file is a master
};

/// Rows at equal distances: first, first + stride, …. A sender that deals frames to ranks in
/// turn leaves each rank with such rows.
struct RowRun {
  std::uint64_t first = 0;
  std::uint64_t stride = 1;  ///< at least 1
};

/// Writes rows of columns; only inside Listener::placed and finish, on the indexer's thread.
class RowWriter {
 public:
  virtual ~RowWriter() = default;
  /// Values of the run's rows, as many as `data` has elements of the column's type.
  virtual Result<void> put(ColumnId column, RowRun rows, Bytes data) = 0;
};

/// Called on the indexer's thread; must not block. Every chunk that a writer took comes back exactly
/// once, as placed or as lost; one for which put() or commit() returned an error was not taken.
class Listener {
 public:
  virtual ~Listener() = default;
  /// These chunks are on storage (under the durability chosen) and in the index.
  virtual void placed(std::span<const PlacedChunk> chunks, RowWriter& rows) = 0;
  /// A segment could not be written: these chunks are lost. The store goes on with the next ones
  /// (the disk may have space again).
  virtual void lost(std::span<const PlacedChunk> chunks, const Error& why) = 0;
  /// The file had the same chunks before: those count, these are not in the index. Lost, unless a listener
  /// knows better.
  virtual void already_there(std::span<const PlacedChunk> chunks);
  /// Chunks that another process wrote are in the index; they bring no cookie of this process.
  virtual void placed_elsewhere(std::span<const PlacedChunk> /*chunks*/) {}
  /// About every flush_interval, also when nothing was placed, and a last time in finish() after the
  /// last chunk: time to put pending rows.
  virtual void tick(RowWriter& rows) = 0;
};

/// Fills segments; belongs to one thread. Destroy it, or flush it, before Store::finish.
class ChunkWriter {
 public:
  virtual ~ChunkWriter() = default;
  /// Before reserve(): the index of the chunk that will come, which a file with members has to know. `out_of_order`
  /// where its member is complete and closed.
  virtual Result<void> select_file(std::uint64_t /*index*/) { return {}; }
  /// At least `bound` bytes inside the current segment (a new one where it does not fit; waits for a
  /// segment buffer), for a codec to write into. Followed by commit() or by another reserve().
  virtual Result<MutableBytes> reserve(std::size_t bound) = 0;
  /// The first `size` bytes of what reserve() gave are this chunk.
  virtual Result<void> commit(const ChunkHead& head, std::size_t size) = 0;
  /// A chunk that is complete already. Large ones are written from where they are (`owner` keeps
  /// `data` alive until then; null makes it copy); small ones are copied. `capacity` is how many
  /// bytes may be read from data.data(): at least data.size(), more where the memory is padded.
  virtual Result<void> put(const ChunkHead& head, Bytes data, std::shared_ptr<const void> owner,
                           std::size_t capacity) = 0;
  /// Sends a partly filled segment on its way.
  virtual Result<void> flush() = 0;
  /// Chunks that wait in a partly filled segment since the returned monotonic time; 0 if none.
  virtual std::int64_t oldest_ns() const = 0;
  /// Bytes of chunks in the partly filled segment.
  virtual std::uint64_t waiting_bytes() const = 0;
};

struct StoreStats {
  std::uint64_t chunks = 0;  ///< in the index
  std::uint64_t chunk_bytes = 0;
  std::uint64_t segments = 0;
  std::uint64_t written_bytes = 0;  ///< segments with headers and padding
  std::uint64_t lost_chunks = 0;
  std::int64_t write_ns = 0;      ///< summed over write threads
  std::int64_t write_ns_max = 0;  ///< slowest single write
  std::int64_t writing_ns = 0;    ///< in which at least one thread was in a call that writes a segment
  std::int64_t sync_ns = 0;
  std::int64_t index_ns = 0;  ///< inside HDF5 for chunks
  std::int64_t row_ns = 0;    ///< inside HDF5 for columns
  std::int64_t flush_ns = 0;
  std::uint64_t queue_segments = 0;  ///< waiting for a write thread now
  std::uint64_t index_segments = 0;  ///< written, waiting for the index now
};

/// Values that are known only at the end; written after SWMR mode has ended, before the file closes.
struct FinalValues {
  std::vector<GroupNode> groups = {};                              ///< made, where they are not there
  std::vector<ValueNode> values = {};                              ///< created or, where there, replaced
  std::vector<std::pair<std::string, Attribute>> attributes = {};  ///< object path and attribute
  std::vector<LinkNode> links = {};                                ///< to values, made or, where there, replaced
  /// The first dimension of datasets and columns grows to this at least (frames that never came
  /// read as fill); of a scan's datasets to the scan's own length.
  std::uint64_t frames = 0;
  /// Frames have brought values for columns that the file does not have: they are made, with what segments have.
  bool late_columns = false;
  /// Attributes about the rows: asked for when the listener has put its last ones, on the caller's thread.
  std::function<std::vector<std::pair<std::string, Attribute>>()> of_rows = {};
};

/// One file that several processes (ranks) write to: rank 0, the lead, creates it and has the index; the
/// others join.
struct Share {
  unsigned rank = 0;
  unsigned ranks = 1;
  std::shared_ptr<EndOfFile> end;  ///< of the file
  /// Takes a message to the store of the same file in rank `to`, whose receive() gets it. Does not block;
  /// messages from one rank to another arrive in order.
  std::function<void(unsigned to, std::vector<std::byte> message)> send;
};

/// What a rank has to know of a file to join it.
struct SharedFile {
  format::FileId id{};
  std::uint64_t description_address = 0;
  std::uint64_t last_sequence = 0;  ///< the highest of the segments that were there before; 0 in a new file
};

class Store {
 public:
  virtual ~Store() = default;

  /// Creates the file with all of `layout` in it and starts the threads. With members, these are made when
  /// their first chunks come; names that they may get must be free, or are freed where `members` says so. `listener`
  /// may be null and outlives the store. Errors: `already_exists` unless options.overwrite, `locked` when another
  /// process writes it, `no_space`, `permission`, `not_found` (the folder), `hdf5`.
  static Result<std::unique_ptr<Store>> create(Env& env, const std::string& path, const FileLayout& layout,
                                               const StoreOptions& options, Listener* listener, Share share = {});

  /// The same in place of a file that a store has left: what is at `path` stays there until the new file is complete,
  /// which then takes its name in one step. `there` was made at `path`, and its lock lasts until then; it is the new
  /// file from then on, also where that fails later. Errors as of create(), and `not_found` where the path does not
  /// lead to `there` any more. With `no_space` it is still there.
  static Result<std::unique_ptr<Store>> replace(Env& env, const std::string& path, const FileLayout& layout,
                                                const StoreOptions& options, Listener* listener, Share share,
                                                std::shared_ptr<File>& there);

  /// Opens a file that a store has left or finished, and goes on in it: new chunks are added, and those that it has
  /// stay. `layout` names its chunked datasets and columns, which are placed as a log. HDF5 must be able to read the
  /// file: complete one that was left (docs/explanation/decisions/0017) before. Errors as of create(), and `mismatch`
  /// where the path leads to another file than `file`.
  static Result<std::unique_ptr<Store>> resume(Env& env, const std::string& path, const FileLayout& layout,
                                               const StoreOptions& options, Listener* listener, Share share,
                                               const SharedFile& file);

  /// Opens a file that the lead has created with the same layout and options; fixed places are those that the
  /// lead gave. `mismatch` where the path leads to
  /// another file than the lead's.
  static Result<std::unique_ptr<Store>> join(Env& env, const std::string& path, const FileLayout& layout,
                                             const StoreOptions& options, Listener* listener, Share share,
                                             const SharedFile& file);

  /// Of a file that this store created or resumed.
  virtual SharedFile shared_file() const = 0;
  /// The file itself, which is locked as long as somebody has it.
  virtual std::shared_ptr<File> file() const = 0;
  /// A message from the store of the same file in rank `from`. Does not block.
  virtual Result<void> receive(unsigned from, Bytes message) = 0;

  virtual std::unique_ptr<ChunkWriter> make_writer() = 0;
  /// From now on nothing that is written waits for StoreOptions::sync_interval: no more chunks are expected.
  virtual void hurry() = 0;
  virtual StoreStats stats() const = 0;
  /// The path of a file that is not found there any more: its own, or one of its members. Empty if all are.
  virtual std::string lost_file() const = 0;
  bool still_named() const { return lost_file().empty(); }
  /// Somebody moved its file to another path, where it is as good as it was here.
  virtual bool was_moved() const = 0;
  /// Waits for all segments, writes the final values, closes the file and cuts what was leased and
  /// not used. Without it (or on error) the file stays as a crash would leave it: recoverable. The store of
  /// a rank that joined hands everything to the lead, whose finish() comes after it.
  virtual Result<void> finish(const FinalValues& values) = 0;
};

/// The answer to a message for a store that is not there any more; nothing where none is waited for.
std::optional<std::vector<std::byte>> refusal_of(Bytes message, const std::string& why);

}  // namespace penstock::store
