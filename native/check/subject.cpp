#include "check/subject.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::check {
namespace {

/// A byte of marks for each is held in memory; a dataset of more is not compared.
constexpr std::uint64_t frames_max = std::uint64_t{1} << 28;
constexpr std::uint64_t contiguous_chunks_max = std::uint64_t{1} << 24;

std::optional<std::uint64_t> product(const std::vector<std::uint64_t>& numbers, std::uint64_t start) {
  for (const auto number : numbers)
    if (__builtin_mul_overflow(start, number, &start)) return std::nullopt;
  return start;
}

std::vector<std::uint64_t> frame_shape(const std::vector<std::uint64_t>& shape) {
  auto chunk = shape;
  if (chunk.size() >= 3) chunk.front() = 1;
  return chunk;
}

/// One chunk a frame, one behind the other.
bool lay_out_contiguous(Subject& subject) {
  const auto& info = subject.info();
  const auto count = subject.info().shape.size() >= 3 ? info.shape.front() : 1;
  if (info.address == 0 || count > contiguous_chunks_max || subject.chunk_raw_bytes > 0xFFFFFFFF) return false;
  for (std::uint64_t i = 0; i < count; ++i)
    subject.made_chunks.push_back(
        {i, info.address + i * subject.chunk_raw_bytes, static_cast<std::uint32_t>(subject.chunk_raw_bytes), 0});
  return true;
}

}  // namespace

std::size_t Subject::leading() const { return grid.size() > frame_dimensions ? grid.size() - frame_dimensions : 0; }

std::uint64_t Subject::chunks_a_frame() const {
  std::uint64_t chunks = 1;
  for (std::size_t i = leading(); i < grid.size(); ++i) chunks *= grid[i];
  return chunks;
}

std::uint64_t Subject::chunk_count() const {
  std::uint64_t count = 1;
  for (const auto extent : grid) count *= extent;
  return count;
}

std::vector<std::uint64_t> Subject::grid_position(std::uint64_t number) const {
  std::vector<std::uint64_t> position(grid.size());
  for (std::size_t i = grid.size(); i-- > 0;) {
    position[i] = number % grid[i];
    number /= grid[i];
  }
  return position;
}

std::string Subject::frame_name(std::uint64_t frame) const {
  return first_frame ? fmt::format("frame {} of the series", *first_frame + frame) : fmt::format("frame {}", frame);
}

FrameSpan Subject::span_of(std::uint64_t frame) const {
  const auto number = first_frame.value_or(0) + frame;
  return {number, number};
}

Place Subject::where(std::uint64_t number, std::uint64_t address) const {
  if (frames_a_chunk() > 1) {
    const auto first = first_frame.value_or(0) + number / chunks_a_frame() * frames_a_chunk();
    const FrameSpan span{first, first + frames_a_chunk() - 1};
    return {fmt::format("{} frames {} to {}{}, chunk {} of {} at offset {}", path, span.first, span.last,
                        first_frame ? " of the series" : "", number % chunks_a_frame() + 1, chunks_a_frame(), address),
            span};
  }
  const auto ahead = leading();
  const auto ones = std::count(chunk_shape.begin(), chunk_shape.begin() + static_cast<std::ptrdiff_t>(ahead), 1U);
  if (ahead == 0 || static_cast<std::size_t>(ones) != ahead)
    return fmt::format("{} chunk {} at offset {}", path, number, address);
  const auto chunks = chunks_a_frame();
  const auto part = chunks == 1 ? std::string() : fmt::format(", chunk {} of {}", number % chunks + 1, chunks);
  const auto frame = number / chunks;
  if (ahead == 1) return {fmt::format("{} {}{} at offset {}", path, frame_name(frame), part, address), span_of(frame)};
  return fmt::format("{} place {}{} at offset {}", path, frame, part, address);
}

std::unique_ptr<Subject> make_subject(const TreeDataset& dataset, const Plugins& plugins, std::string& why_not) {
  const auto& info = dataset.info;
  const bool chunked = info.storage == store::StorageKind::chunked;
  if (info.storage == store::StorageKind::virtual_sources && info.source.empty())
    why_not = "its data are in other files (virtual dataset)";
  if (info.storage == store::StorageKind::external) why_not = "its data are in other files (external storage)";
  if (!chunked && (info.storage != store::StorageKind::contiguous || info.shape.size() < 2)) return nullptr;
  auto subject = std::make_unique<Subject>();
  subject->tree = &dataset;
  subject->path = info.paths.front();
  subject->chunk_shape = chunked ? info.chunk_shape : frame_shape(info.shape);
  for (std::size_t i = 0; i < info.shape.size(); ++i) {
    const auto chunk = subject->chunk_shape[i];
    if (chunk == 0 || info.shape[i] == 0) return nullptr;
    subject->grid.push_back((info.shape[i] - 1) / chunk + 1);
  }
  const auto raw = product(subject->chunk_shape, info.element_bytes);
  if (!raw || !product(subject->grid, 1)) {
    why_not = "its shape is beyond 64 bits";
    return nullptr;
  }
  subject->chunk_raw_bytes = *raw;
  if (!chunked && !lay_out_contiguous(*subject)) return nullptr;
  subject->index = std::make_unique<IndexTable>(chunked ? dataset.chunks : subject->made_chunks);
  auto pipeline = Pipeline::of(info.filters, info.element_bytes, plugins);
  if (pipeline.ok())
    subject->pipeline = std::move(*pipeline);
  else
    why_not = pipeline.error().message();
  return subject;
}

Result<void> prepare_comparison(Subject& subject) {
  const auto& shape = subject.info().shape;
  const auto& chunk = subject.chunk_shape;
  const bool scanned = shape.size() > 3 && std::all_of(chunk.begin(), chunk.end() - 2, [](auto n) { return n == 1; });
  if (shape.size() != 2 && shape.size() != 3 && !scanned)
    return make_error(Errc::unsupported, "{} has {} dimensions; frames are compared in 2 or 3, or one by one in a scan",
                      subject.path, shape.size());
  if (!subject.info().type)
    return make_error(Errc::unsupported, "{} does not hold little-endian numbers", subject.path);
  if (!subject.pipeline) return make_error(Errc::unsupported, "{} cannot be decoded here", subject.path);
  if (subject.frame_dimensions > 2)
    return make_error(Errc::unsupported, "{} has frames of {} dimensions; those of 2 are compared", subject.path,
                      subject.frame_dimensions);
  const auto frames = product({shape.begin(), shape.end() - 2}, 1);
  if (!frames || *frames > frames_max)
    return make_error(Errc::too_large, "{} has more than {} frames", subject.path, frames_max);
  subject.frames = *frames;
  subject.frame_marks = std::make_unique<std::atomic<std::uint8_t>[]>(subject.frames);
  subject.compared = true;
  return {};
}

}  // namespace penstock::check
