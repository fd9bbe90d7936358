#include "store/hdf5/subsets.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <optional>

#include "store/frame_runs.hpp"
#include "store/hdf5/virtual.hpp"

namespace penstock::store::hdf5 {
namespace {

/// HDF5 reads all mappings of a dataset when it opens it, and goes through them whenever it reads a frame.
constexpr std::size_t mappings_max = 4096;
constexpr std::size_t rows_a_batch = 4096;
constexpr auto received = std::byte{1}, partial = std::byte{5};
constexpr std::int16_t nowhere = -1;

/// Of each run of frames.
std::size_t mappings_a_run(const ChunkedNode& node) {
  return node.assembled ? (node.assembled->row_gaps.size() + 1) * (node.assembled->column_gaps.size() + 1) : 1;
}

Result<ColumnId> column_at(const std::vector<ColumnNode>& columns, const std::string& path, std::size_t bytes) {
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i].path == path && (bytes == 0 ? columns[i].text_bytes > 0 : columns[i].row_bytes() == bytes))
      return ColumnId{static_cast<std::uint16_t>(i)};
  return make_error(Errc::malformed, "there is no column {} as datasets of some of the frames need it", path);
}

}  // namespace

/// Which frames each of the subsets has.
struct Subsets::Found {
  std::vector<FrameRuns> runs;
};

Subsets::Subsets(const FileLayout& layout)
    : subsets_(*layout.subsets), frames_(layout.chunked.front()), columns_(layout.columns) {
  const auto is_one = [&](const LinkNode& link) {
    return std::any_of(subsets_.datasets.begin(), subsets_.datasets.end(),
                       [&](const auto& subset) { return subset.path == link.target; });
  };
  std::copy_if(layout.links.begin(), layout.links.end(), std::back_inserter(links_), is_one);
}

Result<void> Subsets::make(hid_t file) const {
  for (const auto& subset : subsets_.datasets) PEN_TRY(make_subset(file, frames_, subset, {}, {}), "{}", subset.path);
  return {};
}

Result<Subsets::Found> Subsets::find_frames(hid_t file, Columns& columns) const {
  PEN_ASSIGN(const auto choice, column_at(columns_, subsets_.choice, 0));
  PEN_ASSIGN(const auto states, column_at(columns_, subsets_.states, 1));
  PEN_ASSIGN(const auto numbers, column_at(columns_, subsets_.numbers, sizeof nowhere));
  const auto text_bytes = columns_[static_cast<std::size_t>(choice)].text_bytes;
  std::map<std::string, std::int16_t, std::less<>> positions;
  for (const auto& subset : subsets_.datasets)
    positions.emplace(subset.path, static_cast<std::int16_t>(positions.size()));
  Found found{std::vector(subsets_.datasets.size(), FrameRuns(mappings_max / mappings_a_run(frames_)))};
  for (std::uint64_t first = 0;; first += rows_a_batch) {
    PEN_ASSIGN(const auto state, columns.rows(file, states, first, rows_a_batch));
    PEN_ASSIGN(const auto text, columns.rows(file, choice, first, rows_a_batch));
    if (state.empty()) return found;
    std::vector<std::int16_t> rows(state.size(), nowhere);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (state[i] != received && state[i] != partial) continue;
      auto path = as_text(Bytes(text)).substr(std::min(i * text_bytes, text.size()), text_bytes);
      path = path.substr(0, path.find('\0'));
      const auto known = positions.find(path);
      rows[i] = known == positions.end() ? std::int16_t{0} : known->second;
      found.runs[static_cast<std::size_t>(rows[i])].add(first + i);
    }
    PEN_TRY(columns.put(file, numbers, {first}, std::as_bytes(std::span(rows))));
  }
}

Result<void> Subsets::complete(hid_t file, Columns& columns) const {
  PEN_ASSIGN(const auto found, find_frames(file, columns));
  const auto& all = frames_.assembled ? frames_.assembled->path : frames_.path;
  for (std::size_t i = 0; i < subsets_.datasets.size(); ++i) {
    auto subset = subsets_.datasets[i];
    const auto& runs = found.runs[i];
    if (runs.too_many()) {
      spdlog::warn("{} stays empty: its frames need more than {} mappings. Their numbers are the rows of {} with {}",
                   subset.path, mappings_max, subsets_.numbers, i);
      subset.attributes.push_back(
          {left_empty_attribute, fmt::format("its frames are those in {} with {} in {}", all, i, subsets_.numbers)});
    }
    const auto list = runs.too_many() ? std::vector<FrameRun>() : runs.list();
    PEN_TRY(make_subset(file, frames_, subset, list, links_), "{}", subset.path);
  }
  return {};
}

}  // namespace penstock::store::hdf5
