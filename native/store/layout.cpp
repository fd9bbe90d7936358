#include "store/layout.hpp"

#include <numeric>

namespace penstock::store {

Value vector_of(const std::vector<double>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return ArrayValue{{ElementType::f64, {numbers.size()}}, {bytes.begin(), bytes.end()}};
}

std::vector<std::uint64_t> Assembled::frame_shape(std::vector<std::uint64_t> shape) const {
  auto& rows = shape[shape.size() - 2];
  rows = std::accumulate(row_gaps.begin(), row_gaps.end(), rows);
  shape.back() = std::accumulate(column_gaps.begin(), column_gaps.end(), shape.back());
  return shape;
}

std::vector<std::uint64_t> ChunkedNode::fixed_dimensions() const {
  std::vector<std::uint64_t> fixed;
  if (!scan_shape.empty()) fixed.assign(scan_shape.begin() + 1, scan_shape.end());
  fixed.insert(fixed.end(), frame_shape.begin(), frame_shape.end());
  return fixed;
}

std::uint64_t ChunkedNode::chunks_a_frame() const {
  std::uint64_t chunks = 1;
  if (chunk_shape.empty()) return chunks;
  const auto leading = chunk_shape.size() - frame_shape.size();
  for (std::size_t i = 0; i < frame_shape.size(); ++i) chunks *= (frame_shape[i] - 1) / chunk_shape[leading + i] + 1;
  return chunks;
}

Result<ChunkGrid> ChunkedNode::grid() const {
  if (!chunk_shape.empty()) return ChunkGrid::of(chunk_shape, fixed_dimensions());
  std::vector<std::uint64_t> frame(scan_shape.empty() ? 1 : scan_shape.size(), 1);
  frame.insert(frame.end(), frame_shape.begin(), frame_shape.end());
  return ChunkGrid::of(std::move(frame), fixed_dimensions());
}

GroupNode member_attributes(const MemberMark& mark, const Members& members) {
  return {"/",
          {{"penstock_master", mark.master},
           {"penstock_member", scalar(mark.number)},
           {"penstock_first_frame", scalar(members.first_frame(mark.number))}}};
}

}  // namespace penstock::store
