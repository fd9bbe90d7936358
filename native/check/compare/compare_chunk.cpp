#include "check/compare/compare_chunk.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "check/compare/compare.hpp"

namespace penstock::check {
namespace {

/// The part of a frame that a chunk covers.
struct Patch {
  std::uint64_t row = 0;
  std::uint64_t column = 0;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t chunk_columns = 0;  // from one row of the chunk to the next
};

void compare_patch(const Subject& subject, const Patch& patch, const std::byte* pixels, const ArraySpec& spec,
                   const std::byte* frame, PixelDifferences& differences) {
  const auto type = *subject.info().type;
  if (patch.columns == subject.columns() && patch.chunk_columns == subject.columns()) {
    const auto first = patch.row * subject.columns();
    compare_pixels(spec.type, frame + first * size_of(spec.type), type, pixels, patch.rows * patch.columns, first,
                   differences);
    return;
  }
  for (std::uint64_t row = 0; row < patch.rows; ++row) {
    const auto first = (patch.row + row) * subject.columns() + patch.column;
    compare_pixels(spec.type, frame + first * size_of(spec.type), type,
                   pixels + row * patch.chunk_columns * size_of(type), patch.columns, first, differences);
  }
}

void report(const Subject& subject, std::uint64_t frame, const PixelDifferences& differences, Findings& findings) {
  // A filter that may lose values was chosen by who recorded the file: that it did is no damage.
  const bool lossy = subject.pipeline && subject.pipeline->loses_values();
  for (const auto& difference : differences.first)
    findings.add({lossy ? Level::warning : Level::error,
                  lossy ? "a pixel differs, as the dataset's filter does not keep every value" : "a pixel differs",
                  Place(fmt::format("{} {}, row {}, column {} ({} pixels of this frame's chunk differ)", subject.path,
                                    subject.frame_name(frame), difference.position / subject.columns(),
                                    difference.position % subject.columns(), differences.count),
                        subject.span_of(frame)),
                  difference.expected,
                  difference.actual,
                  {}});
}

}  // namespace

Result<Bytes> CompareScratch::frame(const Reference& reference, std::uint64_t number) {
  if (const auto found = frames_.find(number); found != frames_.end()) return Bytes(found->second);
  std::vector<std::byte> memory;
  while (!order_.empty() && bytes_ + frames_.at(order_.front()).size() > kept_bytes_max) {
    auto oldest = frames_.extract(order_.front());
    order_.pop_front();
    bytes_ -= oldest.mapped().size();
    memory = std::move(oldest.mapped());
  }
  PEN_TRY(reference.frame(number, memory));
  bytes_ += memory.size();
  order_.push_back(number);
  return Bytes(frames_.emplace(number, std::move(memory)).first->second);
}

Result<void> compare_with_reference(Subject& subject, std::uint64_t number, std::uint32_t there, Bytes raw,
                                    const Reference& reference, CompareScratch& scratch, Findings& findings) {
  const auto position = subject.grid_position(number);
  const auto rank = position.size();
  const auto& chunk = subject.chunk_shape;
  Patch patch;
  patch.row = position[rank - 2] * chunk[rank - 2];
  patch.column = position[rank - 1] * chunk[rank - 1];
  patch.rows = std::min(chunk[rank - 2], subject.rows() - patch.row);
  patch.columns = std::min(chunk[rank - 1], subject.columns() - patch.column);
  patch.chunk_columns = chunk[rank - 1];
  // Of a scan each chunk has one frame, or a part of one.
  const std::uint64_t first_frame = rank == 3 ? position[0] * chunk[0] : number / subject.chunks_a_frame();
  const std::uint64_t frames = rank == 3 ? std::min(chunk[0], subject.frames - first_frame) : 1;
  const auto frame_bytes = chunk[rank - 2] * chunk[rank - 1] * subject.info().element_bytes;
  for (std::uint64_t i = 0; i < frames; ++i) {
    if (i < 32 && (there >> i & 1) == 0) continue;  // it reads as the fill value
    const auto frame = subject.frame_at.empty() ? first_frame + i : subject.frame_at[first_frame + i];
    if (frame == ~std::uint64_t{0}) continue;
    PEN_ASSIGN(const auto expected, scratch.frame(reference, frame));
    PixelDifferences differences;
    compare_patch(subject, patch, raw.data() + i * frame_bytes, reference.frame_spec(), expected.data(), differences);
    std::uint8_t marks = Subject::was_compared;
    if (differences.count > 0) {
      marks |= Subject::was_different;
      report(subject, frame, differences, findings);
    }
    subject.frame_marks[first_frame + i].fetch_or(marks, std::memory_order_relaxed);
  }
  return {};
}

}  // namespace penstock::check
