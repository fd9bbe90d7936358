/// What a plan's blocks take, in one place: the plan is refused by it, and the machine's memory is compared with it.

#include <algorithm>

#include "load/plan.hpp"
#include "load/workloads/content.hpp"

namespace penstock::load {
namespace {

std::uint64_t bytes_of(const LoadPlan& plan, const FramesPlan& frames, unsigned) {
  const auto stored = align_up(frames.frame_bytes, page_bytes);
  if (frames.image && frames.image->is_whole()) return frames.image->images * stored;
  const auto each = frames.image ? stored : ground_bytes(plan.content, stored, frames.frames);
  return frames.writers * each;
}

/// Of the stores beside the blocks: what lies on whole pages goes to storage from there.
std::uint64_t buffers_of(const LoadPlan& plan, const StreamPlan& stream) {
  if (!std::holds_alternative<StorePlan>(plan.backend) || stream.transfer_bytes % page_bytes == 0) return 0;
  return stream.files() * store_buffer_bytes;
}

/// One phase after the other.
std::uint64_t bytes_of(const LoadPlan& plan, const StreamPlan& stream, unsigned ranks) {
  const auto block = align_up(stream.transfer_bytes, page_bytes);
  const auto blocks = slots_of(plan, stream.transfers()) * block;
  const auto ground = ground_bytes(plan.content, stream.transfer_bytes, blocks_of_file(stream, ranks));
  const auto spare = slots_of(plan, stream.transfers()) > 1 ? blocks : 0;
  const auto write = stream.threads * (align_up(ground, page_bytes) + spare) + buffers_of(plan, stream);
  const auto read = stream.threads * blocks + (stream.verify ? align_up(ground, page_bytes) : 0);
  return stream.read ? std::max(write, read) : write;
}

std::uint64_t bytes_of(const LoadPlan& plan, const MetadataPlan& metadata, unsigned ranks) {
  const auto ground = ground_bytes(plan.content, metadata.file_bytes, metadata.files_made(ranks));
  return metadata.threads * (align_up(ground, page_bytes) + align_up(metadata.file_bytes, page_bytes));
}

template <typename Other>
std::uint64_t bytes_of(const LoadPlan&, const Other&, unsigned) {
  return 0;
}

}  // namespace

unsigned queue_depth(const LoadPlan& plan) {
  if (const auto* posix = std::get_if<PosixPlan>(&plan.backend)) return posix->queue_depth;
  const auto* store = std::get_if<StorePlan>(&plan.backend);
  return store != nullptr ? store->queue_depth : 1;
}

unsigned slots_of(const LoadPlan& plan, std::uint64_t transfers) {
  return static_cast<unsigned>(std::clamp<std::uint64_t>(transfers, 1, queue_depth(plan)));
}

std::uint64_t blocks_of_file(const StreamPlan& stream, unsigned ranks) {
  return stream.transfers() * (stream.shared ? std::uint64_t{ranks} * stream.threads : 1);
}

std::uint64_t memory_bytes(const LoadPlan& plan, unsigned ranks) {
  return std::visit([&](const auto& workload) { return bytes_of(plan, workload, ranks); }, plan.workload);
}

}  // namespace penstock::load
