/// What a run does, as its JSON document describes it (docs/reference/load.md).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/archive.hpp"
#include "base/fields.hpp"
#include "base/result.hpp"
#include "load/network/plan.hpp"
#include "load/workloads/image_plan.hpp"
#include "load/workloads/metadata_plan.hpp"

namespace penstock::load {

/// Stores nothing. For the generator's own ceiling; and for tests, as storage that misbehaves by the clock.
struct NullPlan {
  static constexpr const char* kind = "null";
  std::int64_t delay_ns = 0;          ///< of each write and read
  std::uint64_t straggler_every = 0;  ///< every nth call takes longer; 0: none
  std::int64_t straggler_ns = 0;      ///< by this
  std::int64_t freeze_at_ns = 0;      ///< after the run's start; for the calls in it, time stands still
  std::int64_t freeze_ns = 0;         ///< duration; 0: never
};

/// When what was written is forced to storage.
enum class Sync {
  none,  ///< never: the page cache may keep it
  end,   ///< once for each file, when it is complete
  each   ///< after each write
};

/// Files through the kernel.
struct PosixPlan {
  static constexpr const char* kind = "posix";
  std::string folder;
  bool direct = true;  ///< past the page cache where the file system can; the document reports whether it did
  Sync sync = Sync::each;
  unsigned queue_depth = 1;  ///< transfers of a thread under way at once; more than 1 by io_uring, of a stream
};

/// What each file of a store holds in memory at most, of transfers that do not go to storage from where they lie.
constexpr std::uint64_t store_buffer_bytes = std::uint64_t{128} << 20;

/// Files of Penstock's own store, a chunk for each transfer; of a stream.
struct StorePlan {
  static constexpr const char* kind = "store";
  std::string folder;
  bool direct = true;
  Sync sync = Sync::end;     ///< none or end
  unsigned queue_depth = 8;  ///< transfers of a thread under way at once
};

/// Files through MPI-IO, by ranks of one thread each; which implementation is that of the program, or of its
/// environment.
struct MpiioPlan {
  static constexpr const char* kind = "mpiio";
  std::string folder;
  Sync sync = Sync::end;
  bool shared = false;            ///< one file for all ranks
  bool collective = false;        ///< all ranks do each call together; of a shared file
  std::uint64_t block_bytes = 0;  ///< of a rank in the shared file, then comes the next rank's; 0: all that it writes
  std::map<std::string, std::string> hints;
};

/// One dataset of bytes in each file, through HDF5; a row of it is what a thread writes.
struct Hdf5Plan {
  static constexpr const char* kind = "hdf5";
  std::string folder;
  Sync sync = Sync::end;
  bool shared = false;            ///< one file for all ranks, each of one thread
  bool collective = false;        ///< all ranks do each call together; of a shared file
  std::uint64_t chunk_bytes = 0;  ///< divides transfer_bytes; 0: contiguous
  unsigned deflate = 0;           ///< level, of chunks; 0: none
};

/// Files on a server, by its protocol (native/load_remote): `root://`, `nfs://`, `http://`, `s3://`, `hdfs://`.
struct RemotePlan {
  static constexpr const char* kind = "remote";
  std::string url;  ///< of a folder, which is made
  Sync sync = Sync::end;
};

/// What bytes are written.
enum class ContentKind {
  random,        ///< storage can neither compress nor find any of it again
  zeros,         ///< it can do both
  compressible,  ///< it can compress it by a ratio, and find none of it again
  file           ///< what a file of the user's has, again and again
};

/// Of compressible content. Each sector has bytes of its own, and each of them costs a compressor some more.
constexpr double content_ratio_max = 10;

enum class Layout { file_a_frame, file_a_writer };

/// Frames that become due at a rate, whatever became of those before them.
struct FramesPlan {
  static constexpr const char* kind = "frames";
  std::uint64_t frames = 0;
  std::uint64_t frame_bytes = 0;
  double rate_hz = 0;      ///< 0: the next one is due as soon as the buffer has room; none is dropped or late then
  double seconds_max = 0;  ///< without a rate: no frame becomes due after this; 0: no limit
  unsigned writers = 1;
  std::uint64_t buffer_frames = 1;          ///< held at once, those that are being written among them
  std::int64_t late_after_ns = 10'000'000;  ///< a frame is late when it is done more than this after it was due
  Layout layout = Layout::file_a_frame;
  bool record = true;  ///< the times of each frame go into the document
  std::uint64_t ring_frames =
      0;                ///< number of newest frames that stay; older files are removed during the run; 0: all stay
  bool rename = false;  ///< a file has a name of its own until it is complete
  std::optional<ImagePlan> image;  ///< else frames are plain bytes
};

enum class Order { sequential, random };

/// A write by all threads, into a file each or one for all; then a read by all, each of what another thread wrote.
/// A shared file has segments one after the other, and in each of them a block of every thread.
struct StreamPlan {
  static constexpr const char* kind = "stream";
  unsigned threads = 1;
  std::uint64_t thread_bytes = 0;    ///< of each thread, in all its blocks
  std::uint64_t transfer_bytes = 0;  ///< of one call; divides a block
  bool shared = false;
  std::uint64_t segments = 1;       ///< number of blocks that make up thread_bytes
  Order order = Order::sequential;  ///< in which a thread's transfers are written, and read in another random one
  bool read = true;
  bool verify = false;     ///< compare what is read with what was written
  double seconds_max = 0;  ///< of each phase, which ends early then; 0: no limit

  unsigned files() const { return shared ? 1 : threads; }
  std::uint64_t block_bytes() const { return thread_bytes / segments; }
  std::uint64_t transfers() const { return thread_bytes / transfer_bytes; }
};

constexpr std::uint64_t recorded_frames_max = 1'000'000;
/// A dataset's chunks are counted in 32 bits, and the highest number means none.
constexpr std::uint64_t store_transfers_max = 0xFFFF'FFFE;
constexpr std::uint64_t intervals_max = 10'000;

/// Removes what runs made on a server: files by their numbers, then the folder.
/// Of a metadata workload that did not come to its end.
struct TreesPlan {
  std::uint64_t count = 0;
  unsigned depth = 0;
  unsigned branch = 1;
  unsigned threads = 1;
  std::uint64_t items = 1;  ///< of a thread in each folder
  bool folders = true;      ///< the server has some: those of a tree that is not there need not be tried
};

struct RemovePlan {
  static constexpr const char* kind = "remove";
  std::uint64_t files = 0;     ///< some may be gone
  std::string suffix = "bin";  ///< of their names
  std::optional<TreesPlan> trees;
  bool folder = true;
};

struct LoadPlan {
  std::variant<NullPlan, PosixPlan, MpiioPlan, Hdf5Plan, StorePlan, RemotePlan> backend;
  std::variant<FramesPlan, StreamPlan, MetadataPlan, NetworkPlan, NetworkServerPlan, RemovePlan> workload;
  ContentKind content = ContentKind::random;
  double content_ratio = 1;  ///< of compressible content; of a file, what whoever made the plan measured
  std::string content_file;  ///< whose bytes, or images, are written, with ContentKind::file
  std::uint64_t seed = 1;
  std::string prefix = "load-";  ///< files are called PREFIX000000000.bin and so on, trees PREFIX000000000
  double interval_s = 1;         ///< of the time series
  double drain_timeout_s = 60;   ///< for what is under way when nothing new is due
  /// One directory through several mounts, one for each client: rank r uses number r mod their count; number 0 is
  /// backend.folder. Empty: all ranks use that one.
  std::vector<std::string> folders;
  std::string log_level = "warning";

  /// All problems of the plan, one a line, each with the field, the value and the limit.
  static Result<LoadPlan> from_json(std::string_view text);
  /// The same plan with all defaults.
  Json to_json() const;
  /// What rank `rank` does of it: through its own folder.
  LoadPlan for_rank(unsigned rank) const;
  /// The fields of a plan with their types, defaults, limits and choices, as describe_job() has them.
  static Json description();
};

/// Transfers of a thread that may be under way at once.
unsigned queue_depth(const LoadPlan& plan);
/// Number of blocks that a thread with this number of transfers needs: at least one.
unsigned slots_of(const LoadPlan& plan, std::uint64_t transfers);
/// Transfers in each file.
std::uint64_t blocks_of_file(const StreamPlan& stream, unsigned ranks);
/// How many ranks further the one is whose files a rank reads: the least number with which nobody reads through the
/// folder that they were written through. Nothing where there is none: of an odd number of ranks with two folders.
std::optional<unsigned> reading_shift(const LoadPlan& plan, unsigned ranks);
/// A problem that names the field where these ranks together put more into a file of a store than it takes.
Result<void> check_store(const LoadPlan& plan, unsigned ranks);
/// What the blocks of all threads take in each of `ranks` processes; 0 for workloads of a network.
std::uint64_t memory_bytes(const LoadPlan& plan, unsigned ranks);

std::string file_name(const LoadPlan& plan, std::uint64_t number);
/// Of the top folder of a tree.
std::string tree_name(const LoadPlan& plan, std::uint64_t number);

void fields(Archive& archive, NullPlan& plan);
void fields(Archive& archive, PosixPlan& plan);
void fields(Archive& archive, StorePlan& plan);
void fields(Archive& archive, MpiioPlan& plan);
void fields(Archive& archive, Hdf5Plan& plan);
void fields(Archive& archive, RemotePlan& plan);
void fields(Archive& archive, TreesPlan& plan);
void fields(Archive& archive, RemovePlan& plan);
void fields(Archive& archive, FramesPlan& plan);
void fields(Archive& archive, StreamPlan& plan);
void fields(Archive& archive, LoadPlan& plan);
/// What one part of the plan allows only together with another.
void check_together(Archive& archive, const LoadPlan& plan);

}  // namespace penstock::load
