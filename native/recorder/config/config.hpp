/// The recorder's configuration, as its plan gives it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "codec/codec.hpp"
#include "frame/series.hpp"
#include "recorder/config/scan.hpp"
#include "recorder/tree/layout/user_layout.hpp"
#include "recorder/tree/nexus/nexus_names.hpp"
#include "store/hdf5/plugins/filter_plugin.hpp"
#include "store/store.hpp"

namespace penstock::recorder {

struct SourceConfig {
  enum class Kind { tcp, zmq };
  Kind kind = Kind::tcp;
  std::string host = "127.0.0.1";    ///< tcp: where to listen
  std::uint16_t port = 9900;         ///< tcp: 0 lets the system choose
  std::optional<std::string> token;  ///< tcp: required beyond loopback
  /// tcp: how far a message may lag behind the lowest rate before its client is disconnected.
  double lag_max_s = 30;
  std::uint64_t rate_min_bytes_per_s = 64 << 10;
  std::string endpoint;  ///< zmq
  bool bind = false;     ///< zmq: bind instead of connect
  /// zmq: the element of a detector whose stream comes from here, and need not say so itself.
  std::optional<ElementPlace> element = {};
};

/// A filter plug-in in place of an encoding.
struct FilterConfig {
  std::string channel;  ///< whose frames go through it; empty: of all channels that no other one names
  store::FilterSearch search;
  std::vector<unsigned> values;                       ///< as a user gives them, before the plug-in completes them
  std::shared_ptr<const store::FilterPlugin> plugin;  ///< once load_filters() found it
};

/// Where metrics are served: on loopback only.
struct MetricsConfig {
  std::string host = "127.0.0.1";
  std::uint16_t port = 9810;  ///< 0 lets the system choose
};

/// Processors for each kind of thread, as lists: "0,4-7", or "node:1" for all of a NUMA node. Empty: wherever this
/// process may run. Huge pages are in StoreOptions, for frames as well.
struct MachineConfig {
  std::string receive;
  std::string compress;
  std::string write;
  std::string index;

  bool chosen() const { return !(receive.empty() && compress.empty() && write.empty() && index.empty()); }
};

/// What of a frame a chunk holds.
struct ChunkConfig {
  /// Pixels along each dimension of a frame, cut down to the frame's own; empty is the whole frame.
  std::vector<std::uint64_t> shape;
  std::uint64_t frames = 1;  ///< that a chunk has a part of, or all of
};

/// What happens to a frame for which the pool has no room.
enum class WhenFull { hold, drop };

enum class Files {
  one,         ///< one file a series, which all ranks write to
  per_writer,  ///< each rank a file of its own, under a virtual dataset
  split,       ///< a new file after a number of frames, with a virtual dataset
};

struct FilesConfig {
  Files layout = Files::one;
  std::uint64_t frames = 0;  ///< in each file of `split`
  /// Config::folder through several mounts, one for each client: rank r uses number r mod their count in its place.
  /// Empty: all ranks use that one. `folders` in the plan.
  std::vector<std::string> folders = {};
};

struct Config {
  std::string folder;
  std::string file_name = "{series_unique_id}.h5";  ///< also {series_id} and {date}
  FilesConfig files;
  std::optional<UserLayout> layout;  ///< of what is in a file; else it is that of nexus.hpp
  std::vector<SourceConfig> sources;
  CodecSpec codec{.encoding = Encoding::bitshuffle_lz4};
  /// For frames that come plain; the first one names no channel. Where there are any, codec.encoding is none.
  std::vector<FilterConfig> filters;
  ChunkConfig chunk;
  ScanConfig scan;                     ///< of a series whose start message brings none
  NexusNames nexus;                    ///< of series whose start message brings no others
  unsigned threads = 2;                ///< that compress
  std::uint64_t pool_bytes = 1 << 30;  ///< for frames and segments together
  /// For the masks, flat fields and tables of a series, decoded, beside pool_bytes. A detector's largest start message:
  /// two thresholds of 18 million pixels take 290 MB.
  std::uint64_t tables_bytes = 512 << 20;
  WhenFull when_full = WhenFull::hold;
  std::uint64_t frame_bytes_max = 1 << 30;  ///< uncompressed
  bool resume = false;                      ///< go on in files that a recorder left
  std::uint64_t series_limit = 0;           ///< exit after this many; 0: no limit
  double end_timeout_s = 10.0;              ///< for frames that the end message overtook
  double end_after_s = 0.0;                 ///< without a frame a series is closed; 0: never for that reason
  double idle_timeout_s = 60.0;             ///< seconds without a frame after which a series may be ended for another
  std::uint64_t stall_limit_ms = 1000;      ///< calls of the storage that take longer are reported as stalled; 0: none
  std::optional<MetricsConfig> metrics;
  MachineConfig machine;
  store::StoreOptions store;
  store::Placement placement = store::Placement::log;  ///< `store.placement` in the plan
  std::string log_level = "warning";

  /// All problems of the plan, one a line, each with the field, the value and the limit.
  static Result<Config> from_json(const nlohmann::json& plan);
  /// The fields of a plan with their types, defaults, limits and choices, as describe_job() has them.
  static nlohmann::json description();

  /// Whether a series may have chunks of part of a frame or of several, or frames that belong to the points of a scan.
  Result<void> check_chunks(bool tiled, bool scanned) const;
  /// Finds and loads the plug-ins of `filters`; `invalid_argument` where one is not there or of no use.
  Result<void> load_filters();
  /// Whether frames that come plain stay plain.
  bool stores_plain() const { return codec.encoding == Encoding::none && filters.empty(); }

  /// What rank `rank` of `ranks` does of it: it uses its own of several folders, listens on TCP port + rank, also for
  /// metrics, and binds the ZeroMQ endpoint with its number in place of {rank}.
  Result<Config> for_rank(unsigned rank, unsigned ranks) const;

  /// For the values that frames bring along, from their arrival until they are written: of all series together. 32 MiB
  /// of it are beside pool_bytes; segments have as much less as it is more.
  std::uint64_t values_bytes() const;
  /// How pool_bytes is divided: memory for frames in flight …
  std::uint64_t frame_pool_bytes() const;
  /// … and for the segments of a file, as far as the size of its chunks is concerned …
  std::uint64_t segment_pool_bytes() const;
  /// … of which so much is for the frames that gather into a chunk, where a chunk has several.
  std::uint64_t block_pool_bytes() const { return segment_pool_bytes() / 2; }
  bool gathers() const { return chunk.frames > 1; }
  /// Memory for segments, which all open files share. Where frames gather into chunks, each file has the rest for that.
  std::uint64_t shared_segment_bytes() const;
  /// Files that may be open at once, those that are being closed among them. A start that finds none free waits.
  unsigned open_files_max() const { return gathers() ? segment_pools : 64; }
  /// What may wait behind starts that wait.
  std::uint64_t waiting_bytes_max() const { return frame_pool_bytes() / 2; }

  /// The largest chunk fits into this fraction of the memory for segments.
  static constexpr unsigned segment_pools = 4;
};

}  // namespace penstock::recorder
