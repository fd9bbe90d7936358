#include "store/hdf5/read_index.hpp"

#include <array>
#include <limits>

#include "store/hdf5/handles.hpp"

namespace penstock::store::hdf5 {
namespace {

constexpr std::size_t batch = 8192;
/// Look-ups of places where nothing is, beyond the chunks that are there: bounds the work on a
/// dataset with a huge and almost empty extent.
constexpr std::uint64_t empty_lookups_max = std::uint64_t{1} << 28;

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
      return make_error(Errc::too_large, "more chunks than 64 bits count");
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

}  // namespace

Result<void> read_index(hid_t dataset, const DatasetInfo& info, ReadDriverState& state, TreeVisitor& visitor) {
  PEN_ASSIGN(const auto grid, grid_of(info));
  if (grid.total == 0) return {};
  Handle space(H5Dget_space(dataset), H5Sclose);
  hsize_t present = 0;
  if (H5Dget_num_chunks(dataset, space.get(), &present) < 0) return library_error("count the chunks");
  Batches batches(visitor);
  std::vector<hsize_t> offset(info.shape.size(), 0);
  std::uint64_t found = 0;
  std::uint64_t number = 0;
  do {
    if (found == present) break;
    if (number - found > empty_lookups_max)
      return make_error(Errc::too_large, "{} of {} chunks found after {} places", found, present, number);
    if (auto chunk = look_up(dataset, offset, state)) {
      chunk->number = number;
      batches.add(*chunk);
      ++found;
    }
    ++number;
  } while (advance(offset, info));
  batches.flush();
  if (found != present)
    return make_error(Errc::corrupt, "the index holds {} chunks, {} of them within the extent", present, found);
  return {};
}

}  // namespace penstock::store::hdf5
