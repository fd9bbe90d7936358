#include "store/hdf5/reading/read_index.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "store/hdf5/handles.hpp"
#include "store/hdf5/reading/extensible_array.hpp"

namespace penstock::store::hdf5 {
namespace {

constexpr std::size_t batch = 8192;
/// Look-ups of places where nothing is: bounds the work on a dataset with a huge and almost empty extent.
constexpr std::uint64_t empty_lookups_max = std::uint64_t{1} << 30;
/// HDF5 is asked where the next chunk is after so many places without one. It walks over all places before it to tell,
/// at several times the speed, so so many must have been looked up since the last walk: a part of all …
constexpr std::uint64_t gap_part = 16;
/// … and at least:
constexpr std::uint64_t gap_min = std::uint64_t{1} << 16;
constexpr std::uint64_t sign_of_life = std::uint64_t{1} << 16;
/// Of HDF5's walk over its index, with much to spare; and what is waited for at most.
constexpr std::uint64_t places_a_millisecond = 2000;
constexpr std::uint64_t walk_ms_max = 3'600'000;

/// The grid of possible chunks.
struct Grid {
  std::vector<std::uint64_t> counts;  // along each dimension
  std::uint64_t total = 1;
};

Result<Grid> grid_of(const DatasetInfo& info) {
  Grid grid;
  for (std::size_t i = 0; i < info.shape.size(); ++i) {
    const auto chunk = info.chunk_shape[i];
    if (chunk == 0) return make_error(Errc::corrupt, "a chunk with no elements");
    const auto count = info.shape[i] / chunk + (info.shape[i] % chunk != 0 ? 1 : 0);
    if (count != 0 && grid.total > std::numeric_limits<std::uint64_t>::max() / count)
      return make_error(Errc::corrupt, "more chunks than 64 bits count");
    grid.total *= count;
    grid.counts.push_back(count);
  }
  return grid;
}

/// One direct look-up; nothing where there is no chunk.
std::optional<IndexedChunk> look_up(hid_t dataset, const std::vector<hsize_t>& offset, ReadDriverState& state) {
  static std::array<std::byte, 64> unread;  // the driver puts nothing there
  state.capturing = true;
  state.captured.reset();
  std::uint32_t mask = 0;
  const auto status = H5Dread_chunk(dataset, H5P_DEFAULT, offset.data(), &mask, unread.data());
  state.capturing = false;
  if (status < 0 || !state.captured) return std::nullopt;
  return IndexedChunk{0, state.captured->address, static_cast<std::uint32_t>(state.captured->size), mask};
}

bool advance(std::vector<hsize_t>& offset, const DatasetInfo& info) {
  for (std::size_t i = offset.size(); i-- > 0;) {
    offset[i] += info.chunk_shape[i];
    if (offset[i] < info.shape[i]) return true;
    offset[i] = 0;
  }
  return false;
}

std::vector<hsize_t> offset_of(std::uint64_t number, const Grid& grid, const DatasetInfo& info) {
  std::vector<hsize_t> offset(grid.counts.size());
  for (std::size_t i = offset.size(); i-- > 0; number /= grid.counts[i])
    offset[i] = number % grid.counts[i] * info.chunk_shape[i];
  return offset;
}

/// The number of the chunk that comes after `found` others in the index; nothing where it has none within the extent.
std::optional<std::uint64_t> chunk_after(hid_t dataset, hid_t space, std::uint64_t found, const Grid& grid,
                                         const DatasetInfo& info) {
  std::vector<hsize_t> offset(info.shape.size());
  unsigned mask = 0;
  haddr_t address = 0;
  hsize_t size = 0;
  if (H5Dget_chunk_info(dataset, space, found, offset.data(), &mask, &address, &size) < 0) return std::nullopt;
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < offset.size(); ++i) {
    if (offset[i] >= info.shape[i]) return std::nullopt;
    number = number * grid.counts[i] + offset[i] / info.chunk_shape[i];
  }
  return number;
}

/// Whether HDF5 walks over the chunks by rising number: not where it turns the dimensions around because another than
/// the first one grows.
bool rises(hid_t space) {
  std::vector<hsize_t> now(H5S_MAX_RANK), most(H5S_MAX_RANK);
  const int rank = H5Sget_simple_extent_dims(space, now.data(), most.data());
  for (int i = 1; i < rank; ++i)
    if (most[static_cast<std::size_t>(i)] == H5S_UNLIMITED) return false;
  return rank > 0;
}

std::chrono::milliseconds walk_time(const Grid& grid) {
  return std::chrono::milliseconds(std::min(grid.total / places_a_millisecond, walk_ms_max));
}

class Batches {
 public:
  explicit Batches(TreeVisitor& visitor) : visitor_(visitor) { chunks_.reserve(batch); }
  void add(const IndexedChunk& chunk) {
    chunks_.push_back(chunk);
    if (chunks_.size() == batch) flush();
  }
  void flush() {
    if (!chunks_.empty()) visitor_.chunks(chunks_);
    chunks_.clear();
  }

 private:
  TreeVisitor& visitor_;
  std::vector<IndexedChunk> chunks_;
};

/// The chunks as the index's blocks have them, where it is an extensible array along the first dimension that holds
/// `present` chunks, and HDF5 finds some of them where they are said to be.
std::optional<std::vector<IndexedChunk>> read_blocks(hid_t dataset, hid_t space, std::uint64_t present,
                                                     const Grid& grid, const DatasetInfo& info,
                                                     ReadDriverState& state) {
  constexpr std::uint64_t samples = 64;
  constexpr std::uint64_t numbers_max = std::uint64_t{1} << 32;  // of an array
  std::vector<hsize_t> now(info.shape.size()), most(info.shape.size());
  H5O_info_t object;
  if (H5Sget_simple_extent_dims(space, now.data(), most.data()) < 1 || most[0] != H5S_UNLIMITED ||
      !std::equal(now.begin() + 1, now.end(), most.begin() + 1) || H5Oget_info2(dataset, &object, H5O_INFO_BASIC) < 0)
    return std::nullopt;
  auto chunks = read_extensible_array(*state.file, state.size, object.addr, info, present);
  if (!chunks || chunks->size() != present || (present > 0 && chunks->back().number >= numbers_max))
    return std::nullopt;
  // A recorder that was killed in mid-flush has written its index, and not yet the extent.
  const auto within = static_cast<std::uint64_t>(
      std::partition_point(chunks->begin(), chunks->end(), [&](const auto& c) { return c.number < grid.total; }) -
      chunks->begin());
  const auto looks = std::min(samples, within);
  for (std::uint64_t i = 0; i < looks; ++i) {
    const auto& chunk = (*chunks)[looks == 1 ? 0 : i * (within - 1) / (looks - 1)];
    auto found = look_up(dataset, offset_of(chunk.number, grid, info), state);
    if (!found) return std::nullopt;
    found->number = chunk.number;
    if (*found != chunk) return std::nullopt;
  }
  return chunks;
}

Result<std::uint64_t> look_up_all(hid_t dataset, hid_t space, std::uint64_t present, const Grid& grid,
                                  const DatasetInfo& info, ReadDriverState& state, TreeVisitor& visitor) {
  Batches batches(visitor);
  const bool may_ask = rises(space);
  std::vector<hsize_t> offset(info.shape.size(), 0);
  std::uint64_t found = 0, number = 0, end = 0, empty = 0, asked = 0;
  while (found < present) {
    if (auto chunk = look_up(dataset, offset, state)) {
      chunk->number = number;
      batches.add(*chunk);
      ++found;
      end = number + 1;
    } else if (++empty % sign_of_life == 0) {
      visitor.chunks({});
    }
    if (empty > empty_lookups_max)
      return make_error(Errc::too_large, "{} of {} chunks found after {} slots", found, present, number);
    ++number;
    if (!advance(offset, info)) break;
    if (!may_ask || found == present || empty - asked < std::max(gap_min, number / gap_part)) continue;
    asked = empty;
    visitor.expect(walk_time(grid));
    const auto next = chunk_after(dataset, space, found, grid, info);
    if (!next || *next <= number) continue;
    number = *next;
    offset = offset_of(number, grid, info);
  }
  batches.flush();
  if (found != present)
    return make_error(Errc::corrupt, "the index holds {} chunks, {} of them within the extent", present, found);
  return end;
}

}  // namespace

Result<std::uint64_t> read_index(hid_t dataset, const DatasetInfo& info, ReadDriverState& state, bool blocks,
                                 TreeVisitor& visitor) {
  PEN_ASSIGN(const auto grid, grid_of(info));
  if (grid.total == 0 && !blocks) return 0;
  Handle space(H5Dget_space(dataset), H5Sclose);
  hsize_t present = 0;
  visitor.expect(walk_time(grid));
  if (H5Dget_num_chunks(dataset, space.get(), &present) < 0) return library_error("count the chunks");
  if (blocks)
    if (const auto chunks = read_blocks(dataset, space.get(), present, grid, info, state)) {
      Batches batches(visitor);
      for (const auto& chunk : *chunks) batches.add(chunk);
      batches.flush();
      return chunks->empty() ? 0 : chunks->back().number + 1;
    }
  return look_up_all(dataset, space.get(), present, grid, info, state, visitor);
}

}  // namespace penstock::store::hdf5
