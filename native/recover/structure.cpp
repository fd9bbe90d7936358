#include "recover/structure.hpp"

#include <algorithm>

#include "check/names.hpp"
#include "recover/completion.hpp"

namespace penstock::recover {

std::string missing_part(const check::Tree& tree, const Segments& segments) {
  const auto& description = segments.description;
  const auto is_chunked = [&](const auto& node) {
    const auto* found = tree.find(node.path);
    return found != nullptr && (found->info.storage == store::StorageKind::chunked ||
                                found->info.storage == store::StorageKind::virtual_sources);
  };
  for (std::size_t i = 0; i < description.datasets.size(); ++i) {
    const auto& node = description.datasets[i];
    if (!is_chunked(node)) return node.path;
    const auto& info = tree.find(node.path)->info;
    if (info.storage == store::StorageKind::chunked && info.chunk_shape != segments.grids[i].chunk()) return node.path;
  }
  const auto& columns = description.columns;
  const auto missing = std::find_if_not(columns.begin(), columns.end(), is_chunked);
  return missing == columns.end() ? std::string() : missing->path;
}

bool is_usable(const check::Tree& tree, const Segments& segments) {
  return tree.failure.empty() && tree.unreadable.empty() && missing_part(tree, segments).empty();
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

Error changed_by_another(const std::string& missing, const std::string& file) {
  return make_error(
      Errc::refused,
      "{} was finished, and another program changed it: {} is missing, or differs from its description; nothing was "
      "written. Copy the file again from its source, or, if it is the only copy, rebuild what is outside its frames, "
      "as it was recorded, with `penstock recover --rebuild`. That removes what other programs added: copy it first",
      file, missing);
}

void report_removed_mark(const check::Tree& tree, const Segments& segments, const std::string& file,
                         check::Findings& findings) {
  if (segments.no_description || !segments.description.sealed || was_completed(tree)) return;
  findings.add({check::Level::error, "the file lacks the mark of an unfinished file", file,
                "the mark, because the recorder did not finish closing the file",
                "none, as after h5clear or after a closing that failed",
                "a program that opened the file may have cut off frames that HDF5's index did not have yet: restore "
                "the file from another copy"});
}

void report_damaged_id(const check::Tree& tree, const Segments& segments, check::Findings& findings) {
  const auto* value = tree.root_attribute(check::file_id_attribute);
  if (segments.no_description || tree.root_attribute(check::format_attribute) == nullptr) return;
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  const auto of_segments = store::format::to_hex(segments.file_id);
  if (text != nullptr && *text == of_segments) return;
  findings.add({check::Level::error, "the file's identity is corrupt", fmt::format("/@{}", check::file_id_attribute),
                fmt::format("{}, as its segments have", of_segments), text == nullptr ? "none" : *text,
                "copy the file again from its source; `penstock recover --rebuild` corrects it if this is the only "
                "copy"});
}

}  // namespace penstock::recover
