#include "store/space/slots.hpp"

#include <algorithm>

#include "base/invariant.hpp"
#include "store/format/rows.hpp"
#include "store/format/segment.hpp"

namespace penstock::store {
namespace {

/// Of a series with an open end.
constexpr std::uint64_t run_frames = 4096;
/// Detectors that run until they are stopped announce more frames than any file system could give places to.
constexpr std::uint64_t one_run_bytes_max = std::uint64_t{1} << 40;
/// HDF5's index and what it takes for a frame besides the columns, with much to spare: room costs nothing.
constexpr std::uint64_t index_bytes_a_frame = 256;
/// More than any single structure of HDF5's index can have.
constexpr std::uint64_t room_bytes_min = 16 << 20;

/// Of what HDF5 gets that is not a number of bytes a frame: text, above all.
std::uint64_t bytes_of(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return text->size();
  const auto* texts = std::get_if<std::vector<std::string>>(&value);
  std::uint64_t bytes = 0;
  if (texts != nullptr)
    for (const auto& text : *texts) bytes += text.size() + 64;
  return bytes;
}

std::uint64_t room_for(const FileLayout& layout, std::uint64_t frames) {
  std::uint64_t bytes_a_frame = index_bytes_a_frame * layout.chunked.size();
  for (const auto& column : layout.columns) bytes_a_frame += 2 * column.row_bytes();
  std::uint64_t text_bytes = 0;
  for (const auto& node : layout.values) text_bytes += 2 * bytes_of(node.value);
  return align_up(room_bytes_min + text_bytes + frames * bytes_a_frame, std::uint64_t{1} << 20);
}

}  // namespace

Result<std::uint64_t> EndBesideSlots::advance(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  if (bytes > room_end_ - next_) {
    if (endless_ && bytes > room_bytes_)
      return make_error(Errc::too_large, "{} bytes for HDF5 between slots; there is room for {}", bytes, room_bytes_);
    next_ = room_end_ + run_bytes_;
    room_end_ = endless_ ? next_ + room_bytes_ : ~std::uint64_t{0};
  }
  const auto address = next_;
  next_ += bytes;
  PEN_INVARIANT(next_ <= room_end_);
  return address;
}

void EndBesideSlots::lay_out(FileLayout& layout, std::uint64_t alignment_bytes) {
  std::uint64_t step_bytes = 0;
  std::uint64_t frames = 0;
  const auto header_bytes =
      format::header_region_bytes(format::record_size_bytes + format::row_bytes_max(layout.columns));
  for (auto& node : layout.chunked) {
    node.places.place_bytes =
        align_up(header_bytes + std::max(node.chunk_bytes_max, node.raw_bytes()), alignment_bytes);
    step_bytes += node.places.place_bytes;
    frames = std::max(frames, node.frames_max);
  }
  MutexLock lock(mutex_);
  endless_ = frames == 0 || frames > one_run_bytes_max / step_bytes;
  const auto run = endless_ ? run_frames : frames;
  room_bytes_ = align_up(room_for(layout, run), alignment_bytes);
  run_bytes_ = run * step_bytes;
  room_end_ = align_up(next_ + room_bytes_, alignment_bytes);
  auto address = room_end_;
  for (auto& node : layout.chunked) {
    node.places.address = address;
    node.places.step_bytes = step_bytes;
    node.places.run = endless_ ? run : 0;
    node.places.run_step_bytes = endless_ ? run_bytes_ + room_bytes_ : 0;
    address += node.places.place_bytes;
  }
}

}  // namespace penstock::store
