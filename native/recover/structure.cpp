#include "recover/structure.hpp"

#include <algorithm>

namespace penstock::recover {

bool is_usable(const check::Tree& tree, const Segments& segments) {
  if (!tree.failure.empty() || !tree.unreadable.empty()) return false;
  const auto there = [&](const std::string& path) { return tree.find(path) != nullptr; };
  const auto& description = segments.description;
  const auto is_chunked = [&](const auto& node) {
    return there(node.path) && (tree.find(node.path)->info.storage == store::StorageKind::chunked ||
                                tree.find(node.path)->info.storage == store::StorageKind::virtual_sources);
  };
  for (std::size_t i = 0; i < description.datasets.size(); ++i) {
    const auto& node = description.datasets[i];
    if (!is_chunked(node)) return false;
    const auto& info = tree.find(node.path)->info;
    if (info.storage == store::StorageKind::chunked && info.chunk_shape != segments.grids[i].chunk()) return false;
  }
  return std::all_of(description.columns.begin(), description.columns.end(), is_chunked);
}

namespace {

bool is_beyond(std::uint64_t file_bytes, std::uint64_t address, std::uint64_t bytes) {
  return bytes > 0 && (address > file_bytes || bytes > file_bytes - address);
}

bool has_chunk_beyond(const check::TreeDataset& dataset, std::uint64_t file_bytes) {
  return std::any_of(dataset.chunks.begin(), dataset.chunks.end(),
                     [&](const auto& each) { return is_beyond(file_bytes, each.address, each.size); });
}

}  // namespace

bool names_chunks_beyond_end(const check::Tree& tree, std::uint64_t file_bytes) {
  return std::any_of(tree.datasets.begin(), tree.datasets.end(),
                     [&](const auto& dataset) { return has_chunk_beyond(dataset, file_bytes); });
}

std::string beyond_end(const check::Tree& tree, std::uint64_t file_bytes) {
  for (const auto& dataset : tree.datasets) {
    const auto& info = dataset.info;
    auto bytes = info.storage == store::StorageKind::contiguous && info.address > 0 ? info.element_bytes : 0;
    for (const auto extent : info.shape)
      if (__builtin_mul_overflow(bytes, extent, &bytes)) bytes = ~std::uint64_t{0};
    if (is_beyond(file_bytes, info.address, bytes) || has_chunk_beyond(dataset, file_bytes))
      return fmt::format("{}: the file ends before its data, at {} bytes", info.paths.front(), file_bytes);
  }
  return {};
}

Error undecided(const check::Tree& tree, const std::string& file) {
  const auto& parts = tree.unreadable;
  const auto why = tree.failure.empty() ? parts.front().path + ": " + parts.front().why : tree.failure;
  return make_error(Errc::refused,
                    "{}: HDF5's structures may be complete but cannot be read ({}); nothing was written. If they are "
                    "lost, `penstock recover --rebuild` rebuilds them from the segments",
                    file, why);
}

}  // namespace penstock::recover
