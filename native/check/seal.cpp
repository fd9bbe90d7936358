#include "check/seal.hpp"

#include <algorithm>

#include "base/crc32c.hpp"
#include "check/names.hpp"
#include "store/recovery/scan.hpp"

namespace penstock::check {
namespace {

using store::format::Stretch;

constexpr std::uint64_t read_bytes = 1 << 20;
/// Damaged stretches reported in full; further ones are reported by offset only.
constexpr int named_max = 20;
/// Paths of values that the recorder replaces when the series ends; not there where it replaces none.
constexpr const char* provisional_path = "/entry/penstock/provisional";

std::vector<std::string> texts_at(const store::format::Description& description, std::string_view path) {
  for (const auto& node : description.values)
    if (const auto* texts = std::get_if<std::vector<std::string>>(&node.value); node.path == path && texts != nullptr)
      return *texts;
  return {};
}

class OutsideChunks {
 public:
  OutsideChunks(const SealedFile& sealed, Findings& findings, Progress& progress,
                const std::function<bool()>& cancelled)
      : sealed_(sealed), findings_(findings), progress_(progress), cancelled_(cancelled) {}

  void verify() {
    const auto stretches = stretches_of_seal();
    std::uint64_t total = 0;
    for (const auto& stretch : stretches) total += stretch.bytes;
    for (const auto& node : sealed_.description.values) total += node.place ? node.place->bytes : 0;
    compare_small_values();
    if (total == 0) return;
    progress_.start("verifying bytes outside the chunks", total);
    for (const auto& stretch : stretches) {
      if (cancelled_()) return;
      if (const auto crc = checksum(stretch)) judge(stretch, *crc);
    }
    for (const auto& node : sealed_.description.values) verify_value(node);
  }

  /// Small numbers are in the description, which has a checksum: HDF5's dataset has to hold the same bytes, unless the
  /// recorder replaces them when the series ends. Then a finished file's seal guards them.
  void compare_small_values() {
    const auto provisional = texts_at(sealed_.description, provisional_path);
    for (const auto& node : sealed_.description.values) {
      if (std::find(provisional.begin(), provisional.end(), node.path) != provisional.end()) continue;
      const auto* array = std::get_if<store::ArrayValue>(&node.value);
      const auto* dataset = sealed_.tree.find(node.path);
      if (node.place || array == nullptr || array->data.empty() || dataset == nullptr) continue;
      if (cancelled_()) return;
      compare_small(node.path, array->data, dataset->info);
    }
  }

 private:
  std::vector<Stretch> stretches_of_seal() {
    if (sealed_.unfinished || sealed_.truncated || !sealed_.description.sealed) return {};
    // Another program has extended the file over a seal that lies in front of its structures' end.
    const bool sealed = sealed_.seal && sealed_.seal->address >= sealed_.structures_end.value_or(0);
    if (!sealed && sealed_.structures_end && sealed_.file_bytes > *sealed_.structures_end) {
      findings_.add(
          {Level::error, "the file's seal is corrupt", sealed_.path, "a seal at its end",
           fmt::format("{} bytes after HDF5's structures without a seal", sealed_.file_bytes - *sealed_.structures_end),
           "damage outside the frames cannot be detected; if its recorder was killed while closing the file, `penstock "
           "recover` completes it"});
      return {};
    }
    if (!sealed) {
      changed_ = true;
      findings_.add({Level::warning, changed_file, sealed_.path, "a seal at its end", "none",
                     "another program opened it for writing, or it was truncated: damage outside the frames cannot be "
                     "distinguished from intended changes. `penstock recover` seals it in its present state"});
      return {};
    }
    const auto end = sealed_.seal->address + sealed_.seal->segment_bytes;
    if (end != sealed_.file_bytes) {
      changed_ = true;
      findings_.add(
          {Level::warning, changed_file, sealed_.path, fmt::format("{} bytes", end),
           fmt::format("{} bytes", sealed_.file_bytes),
           sealed_.file_bytes > end ? "data was appended" : "its end is cut off: copy it again from its source"});
    }
    auto stretches = store::read_stretches(sealed_.file, *sealed_.seal);
    if (stretches.ok()) return std::move(*stretches);
    findings_.add({Level::error,
                   "the file's seal is corrupt",
                   fmt::format("offset {}", sealed_.seal->address),
                   {},
                   stretches.error().message(),
                   "damage outside the frames cannot be detected; `penstock recover` writes a new seal"});
    return {};
  }

  std::optional<std::uint32_t> checksum(const Stretch& stretch) {
    std::uint32_t crc = 0;
    for (auto at = stretch.address; at < stretch.end();) {
      if (cancelled_()) return std::nullopt;
      window_.resize(std::min(read_bytes, stretch.end() - at));
      const auto count = sealed_.file.read_at(window_, at);
      if (!count.ok() || *count < window_.size()) {
        findings_.add({Level::error,
                       count.ok() ? "the file is truncated" : "the storage cannot read the data",
                       fmt::format("offset {}", at),
                       {},
                       count.ok() ? fmt::format("{} bytes", sealed_.file_bytes) : count.error().message(),
                       count.ok() ? "copy it again from its source" : "check the storage"});
        return std::nullopt;
      }
      crc = crc32c(window_, crc);
      progress_.advance(window_.size());
      at += window_.size();
    }
    return crc;
  }

  void judge(const Stretch& stretch, std::uint32_t crc) {
    if (crc == stretch.crc) return;
    findings_.add({changed_ ? Level::warning : Level::error,
                   changed_ ? "a part of the file changed after the file was closed"
                            : "a part of the file outside the frames is corrupt",
                   what_lies_in(stretch), fmt::format("CRC-32C {:08x}", stretch.crc),
                   fmt::format("CRC-32C {:08x}", crc),
                   "the stored bytes changed after the file was closed: restore the file from a copy, or rebuild its "
                   "structures with `penstock recover --rebuild`"});
  }

  /// Datasets whose data lie in it; otherwise, or beside them, what describes the file.
  std::string what_lies_in(const Stretch& stretch) {
    std::string names;
    if (named_++ < named_max)
      for (const auto& dataset : sealed_.tree.datasets)
        if (has_data_in(dataset, stretch)) names += dataset.info.paths.front() + ", or ";
    return fmt::format("{}HDF5's structures, or a segment's header, at offset {}", names, stretch.address);
  }

  static bool has_data_in(const TreeDataset& dataset, const Stretch& stretch) {
    const auto overlaps = [&](std::uint64_t address, std::uint64_t bytes) {
      return bytes > 0 && address < stretch.end() && stretch.address - std::min(address, stretch.address) < bytes;
    };
    const auto& info = dataset.info;
    if (info.storage == store::StorageKind::contiguous && info.address > 0) {
      std::uint64_t bytes = info.element_bytes;
      for (const auto extent : info.shape) bytes *= extent;
      return overlaps(info.address, bytes);
    }
    return std::any_of(dataset.chunks.begin(), dataset.chunks.end(),
                       [&](const auto& chunk) { return overlaps(chunk.address, chunk.size); });
  }

  /// The recorder wrote the checksum: whoever wrote other bytes since, on purpose or not, they are not what it
  /// recorded.
  void verify_value(const store::ValueNode& node) {
    if (!node.place || cancelled_()) return;
    const auto crc = checksum({node.place->address, node.place->bytes, node.place->crc});
    if (!crc || *crc == node.place->crc) return;
    findings_.add({Level::error, "a value's checksum is wrong", node.path,
                   fmt::format("CRC-32C {:08x}", node.place->crc), fmt::format("CRC-32C {:08x}", *crc),
                   "the stored bytes changed after they were recorded: restore it from a copy. Store a corrected mask "
                   "in a separate dataset"});
  }

  void compare_small(const std::string& path, Bytes expected, const store::DatasetInfo& info) {
    if (info.storage != store::StorageKind::contiguous || info.address == 0) return;
    std::uint64_t bytes = info.element_bytes;
    for (const auto extent : info.shape) bytes *= extent;
    if (bytes != expected.size()) return;  // the recorder lengthens an axis when a series with an open end closes
    window_.resize(bytes);
    const auto count = sealed_.file.read_at(window_, info.address);
    if (!count.ok() || *count < bytes) return;  // reported as a file that is shorter than it says
    const auto differs = std::mismatch(expected.begin(), expected.end(), window_.begin());
    if (differs.first == expected.end()) return;
    const auto at = differs.first - expected.begin();
    findings_.add({Level::error, "a value differs from the recorded one", path, "the bytes in the description",
                   fmt::format("byte {} differs, at offset {}", at, info.address + static_cast<std::uint64_t>(at)),
                   "the stored bytes changed after they were recorded: restore it from a copy. Store a corrected mask "
                   "in a separate dataset"});
  }

  const SealedFile& sealed_;
  Findings& findings_;
  Progress& progress_;
  const std::function<bool()>& cancelled_;
  std::vector<std::byte> window_;
  bool changed_ = false;
  int named_ = 0;
};

}  // namespace

void verify_outside_chunks(const SealedFile& sealed, Findings& findings, Progress& progress,
                           const std::function<bool()>& cancelled) {
  OutsideChunks(sealed, findings, progress, cancelled).verify();
}

}  // namespace penstock::check
