/// What one part of a plan allows only together with another.

#include "base/bytes.hpp"
#include "load/plan.hpp"

namespace penstock::load {
namespace {

constexpr std::uint64_t memory_max = std::uint64_t{1} << 36;

template <typename Shared>
void check_shared(Archive& archive, const Shared& plan, const StreamPlan& stream) {
  archive.check(!stream.shared, "workload.shared", "must be false with this backend.kind", "it is backend.shared");
  // Forcing a shared file to storage is a call that all ranks make together.
  archive.check(!plan.shared || plan.collective || plan.sync != Sync::each, "backend.sync",
                "must be none or end unless calls are collective");
}

void check_backend(Archive& archive, const MpiioPlan& plan, const LoadPlan& of) {
  constexpr const char* alone = "must be 1 with backend.kind mpiio";
  if (const auto* frames = std::get_if<FramesPlan>(&of.workload)) {
    archive.check(frames->writers == 1, "workload.writers", alone, "use more ranks");
    archive.check(!plan.shared, "backend.shared", "must be false with workload.kind frames");
  } else if (const auto* stream = std::get_if<StreamPlan>(&of.workload)) {
    check_shared(archive, plan, *stream);
    archive.check(stream->threads == 1, "workload.threads", alone, "use more ranks");
    archive.check(plan.block_bytes % stream->transfer_bytes == 0, "backend.block_bytes",
                  fmt::format("must be a multiple of {} (transfer_bytes)", stream->transfer_bytes));
    archive.check(plan.block_bytes == 0 || stream->thread_bytes % plan.block_bytes == 0, "workload.thread_bytes",
                  fmt::format("must be a multiple of {} (block_bytes)", plan.block_bytes));
  } else {
    archive.check(false, "backend.kind", "must be posix for this workload.kind");
  }
}

void check_backend(Archive& archive, const Hdf5Plan& plan, const LoadPlan& of) {
  const auto* stream = std::get_if<StreamPlan>(&of.workload);
  archive.check(stream != nullptr, "backend.kind", "must be another one unless workload.kind is stream");
  if (stream == nullptr) return;
  check_shared(archive, plan, *stream);
  archive.check(!plan.shared || stream->threads == 1, "workload.threads", "must be 1 with a shared HDF5 file",
                "use more ranks");
  // A chunk that is written in parts is read and written again for each.
  archive.check(plan.chunk_bytes == 0 || stream->transfer_bytes % plan.chunk_bytes == 0, "workload.transfer_bytes",
                fmt::format("must be a multiple of {} (chunk_bytes)", plan.chunk_bytes));
}

void check_backend(Archive& archive, const PosixPlan& plan, const LoadPlan& of) {
  const auto* stream = std::get_if<StreamPlan>(&of.workload);
  archive.check(plan.queue_depth == 1 || stream != nullptr, "backend.queue_depth",
                "must be 1 unless workload.kind is stream");
  archive.check(!plan.direct || !std::holds_alternative<MetadataPlan>(of.workload), "backend.direct",
                "must be false with workload.kind metadata");
  archive.check(!plan.direct || stream == nullptr || stream->transfer_bytes % page_bytes == 0,
                "workload.transfer_bytes", fmt::format("must be a multiple of {} with backend.direct", page_bytes));
}

void check_backend(Archive& archive, const StorePlan&, const LoadPlan& of) {
  archive.check(std::holds_alternative<StreamPlan>(of.workload), "backend.kind",
                "must be another one unless workload.kind is stream");
  archive.take(check_store(of, 1));
}

void check_backend(Archive& archive, const NullPlan&, const LoadPlan& of) {
  const auto* stream = std::get_if<StreamPlan>(&of.workload);
  archive.check(stream == nullptr || !stream->verify, "workload.verify", "must be false with backend.kind null");
}

void check_backend(Archive& archive, const RemotePlan&, const LoadPlan& of) {
  const auto* frames = std::get_if<FramesPlan>(&of.workload);
  archive.check(frames == nullptr || !frames->rename, "workload.rename", "must be false with backend.kind remote");
}

/// A run's files are in one directory: a plan whose folders lead elsewhere would leave them where nobody removes them.
template <typename Storage>
void check_folders(Archive& archive, const Storage& storage, const std::vector<std::string>& folders) {
  if constexpr (requires { storage.folder; }) {
    archive.check(folders.empty() || folders.front() == storage.folder, "folders", "must start with backend.folder");
  } else {
    archive.check(folders.empty(), "folders", "must be empty with this backend.kind");
  }
}

void check_frames(Archive& archive, const LoadPlan& plan, const FramesPlan& frames) {
  const auto seconds = frames.rate_hz > 0 ? static_cast<double>(frames.frames) / frames.rate_hz : 0;
  archive.check(seconds / plan.interval_s <= static_cast<double>(intervals_max), "interval_s",
                fmt::format("must be a time that {:.0f} s have at most {} of", seconds, intervals_max));
  archive.check(plan.content != ContentKind::file || !frames.image || frames.image->is_whole(), "content",
                "must be another one with workload.image, which defines the pixels");
}

}  // namespace

void check_together(Archive& archive, const LoadPlan& plan) {
  std::visit([&](const auto& backend) { check_folders(archive, backend, plan.folders); }, plan.backend);
  if (std::holds_alternative<RemovePlan>(plan.workload)) {
    archive.check(std::holds_alternative<RemotePlan>(plan.backend), "backend.kind",
                  "must be remote: penstock bench removes files of other kinds itself");
    return;
  }
  if (std::holds_alternative<NetworkPlan>(plan.workload) || std::holds_alternative<NetworkServerPlan>(plan.workload)) {
    archive.check(std::holds_alternative<NullPlan>(plan.backend), "backend.kind",
                  "must be null: a network workload stores nothing");
    return;
  }
  std::visit([&](const auto& backend) { check_backend(archive, backend, plan); }, plan.backend);
  if (const auto* frames = std::get_if<FramesPlan>(&plan.workload)) check_frames(archive, plan, *frames);
  // Each thread holds what it writes in memory of its own.
  if (const auto bytes = memory_bytes(plan, 1); bytes > memory_max)
    archive.take(make_error(Errc::invalid_argument,
                            "workload.threads or writers: together they hold {} bytes in memory, which exceeds the "
                            "maximum of {}; use fewer of them, smaller blocks, or a lower backend.queue_depth",
                            bytes, memory_max));
}

Result<void> check_store(const LoadPlan& plan, unsigned ranks) {
  const auto* stream = std::get_if<StreamPlan>(&plan.workload);
  if (stream == nullptr || !std::holds_alternative<StorePlan>(plan.backend)) return {};
  const auto transfers = blocks_of_file(*stream, ranks);
  if (transfers <= store_transfers_max) return {};
  return make_error(
      Errc::invalid_argument,
      "workload.thread_bytes: {} in transfers of {} are {} transfers in a file, which exceeds the maximum "
      "of {}; use larger transfer_bytes",
      stream->thread_bytes, stream->transfer_bytes, transfers, store_transfers_max);
}

}  // namespace penstock::load
