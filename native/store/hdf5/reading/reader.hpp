/// What HDF5 says is in a file: its datasets, their chunk index, their attributes, small values.
///
/// Runs HDF5 on a file that may be damaged or hostile: HDF5 may then crash, hang or ask for much
/// memory, so callers run `read_tree` in a process of its own (check/index_process.hpp). Chunks are
/// looked up and not read; no filter plug-in is needed. One thread, as all of HDF5.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/env.hpp"
#include "base/result.hpp"
#include "store/layout.hpp"

namespace penstock::store {

enum class StorageKind { compact, contiguous, chunked, virtual_sources, external };

struct DatasetInfo {
  std::vector<std::string> paths;   ///< every hard link to it; at least one
  std::optional<ElementType> type;  ///< nullopt unless it is a little-endian number
  std::uint64_t element_bytes = 0;
  std::vector<std::uint64_t> shape;        ///< empty for a scalar
  std::vector<std::uint64_t> chunk_shape;  ///< empty unless chunked
  StorageKind storage = StorageKind::contiguous;
  std::vector<FilterSpec> filters;
  std::uint64_t address = 0;  ///< of contiguous data; 0 where nothing is stored yet
  std::string source = {};    ///< of a virtual dataset that shows parts of another one of its file: that one's path
  std::vector<Attribute> attributes;
};

/// A chunk that the index names. `number` counts the dataset's possible chunks in row-major order.
struct IndexedChunk {
  std::uint64_t number = 0;
  std::uint64_t address = 0;
  std::uint32_t size = 0;
  std::uint32_t filter_mask = 0;

  bool operator==(const IndexedChunk&) const = default;
};

class TreeVisitor {
 public:
  virtual ~TreeVisitor() = default;
  virtual void group(const std::string& path, std::vector<Attribute> attributes) = 0;
  virtual void dataset(DatasetInfo info) = 0;
  /// Maximum duration of the next call into HDF5.
  virtual void expect(std::chrono::milliseconds silence) = 0;
  /// Chunks of the last reported dataset, by rising number; none as a sign of life.
  virtual void chunks(std::span<const IndexedChunk> chunks) = 0;
  /// The value of the last reported dataset. Where that is too large, and of one dimension, the rows behind the last
  /// chunk are left out: nothing was ever written there.
  virtual void value(Value value) = 0;
  /// A part of the file that HDF5 could not read; the rest goes on. `too_large` where a limit of this program ended the
  /// reading, and the codes of the operating system where the storage did: the file may be whole then.
  virtual void unreadable(const std::string& path, const Error& why) = 0;
};

struct ReadTreeOptions {
  /// Whose values are wanted, beside those that hold at most `small_value_bytes`.
  std::function<bool(const DatasetInfo&)> wants_value;
  std::uint64_t small_value_bytes = 4096;
  /// Indices that this program can read are read in whole blocks: HDF5 only counts their chunks and looks some of them
  /// up. Otherwise HDF5 looks up every one.
  bool index_blocks = false;
  std::uint64_t value_bytes_max = std::uint64_t{1} << 28;
  /// Its recorder is dead: what its journal has counts as done.
  bool left = false;
};

/// Fails where HDF5 does not open the file at all, and, after the rest was reported, where the storage failed.
Result<void> read_tree(Env& env, const std::string& path, const ReadTreeOptions& options, TreeVisitor& visitor);

}  // namespace penstock::store
