#include "store/hdf5/virtual.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "store/hdf5/tree.hpp"
#include "store/hdf5/values.hpp"

namespace penstock::store::hdf5 {
namespace {

using Dimensions = std::vector<hsize_t>;

/// HDF5 reads all of a dataset's mappings when it opens it, some microseconds each. Where there are more, they stand in
/// datasets of their own (parts), of which a reader opens those that it needs.
constexpr std::size_t mappings_max = 4096;
constexpr const char* parts_path = "/entry/penstock/parts";

/// In the names of a mapping's source, file and dataset, %b is the number of the block, and %% a per cent sign.
std::string escaped(const std::string& name) {
  std::string result;
  for (const char c : name) result += c == '%' ? std::string("%%") : std::string(1, c);
  return result;
}

Dimensions with_frames(const ChunkedNode& node, hsize_t frames) {
  Dimensions dimensions{frames};
  dimensions.insert(dimensions.end(), node.frame_shape.begin(), node.frame_shape.end());
  return dimensions;
}

Result<Handle> simple_space(const Dimensions& dimensions, const Dimensions& dimensions_max) {
  return owned(H5Screate_simple(static_cast<int>(dimensions.size()), dimensions.data(), dimensions_max.data()),
               H5Sclose, "make a dataspace");
}

/// A part of a frame.
struct Rectangle {
  std::array<hsize_t, 2> first;
  std::array<hsize_t, 2> extent;
};

/// `count` frames from `first` on, `stride` apart, of `extent`: all of them, or the same part of each.
Result<Handle> frames_space(const ChunkedNode& node, std::uint64_t extent, std::uint64_t first, std::uint64_t stride,
                            std::uint64_t count, const std::optional<Rectangle>& part = {}) {
  const auto dimensions = with_frames(node, extent);
  PEN_ASSIGN(auto space, simple_space(dimensions, dimensions));
  Dimensions start(dimensions.size(), 0), step(dimensions.size(), 1), blocks(dimensions.size(), 1);
  auto block = with_frames(node, 1);
  if (part) {
    std::copy(part->first.begin(), part->first.end(), start.end() - 2);
    std::copy(part->extent.begin(), part->extent.end(), block.end() - 2);
  }
  start[0] = first;
  step[0] = stride;
  blocks[0] = count;
  if (stride == 1) std::swap(blocks[0], block[0]);
  for (std::size_t i = 1; i < step.size(); ++i) step[i] = block[i];
  if (stride == 1) step[0] = block[0];
  PEN_TRY(done(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), step.data(), blocks.data(), block.data()),
               "select frames"));
  return space;
}

Result<Handle> properties_of(const ChunkedNode& node) {
  PEN_ASSIGN(auto properties, owned(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make a property list"));
  PEN_TRY(declare_fill(properties.get(), node.type, node.fill));
  return properties;
}

Result<void> create(hid_t file, const std::string& path, ElementType type, hid_t space, hid_t properties) {
  PEN_TRY(make_parents(file, path));
  PEN_ASSIGN(const auto naming, name_properties(H5P_LINK_CREATE, path));
  PEN_ASSIGN(const auto dataset,
             owned(H5Dcreate2(file, path.c_str(), type_of(type), space, naming.get(), properties, H5P_DEFAULT),
                   H5Dclose, fmt::format("create {}", path)));
  return {};
}

/// The first `frames` frames of the dataset are those of the runs, which count from frame `first`.
Result<void> create_of_runs(hid_t file, const std::string& path, const ChunkedNode& node, const Members& members,
                            std::span<const MemberRun> runs, std::uint64_t first, std::uint64_t frames) {
  PEN_ASSIGN(const auto properties, properties_of(node));
  for (const auto& run : runs) {
    PEN_ASSIGN(const auto here, frames_space(node, frames, run.first - first, run.stride, run.count));
    const auto rows = run.row + (run.count - 1) * run.stride + 1;
    PEN_ASSIGN(const auto there, frames_space(node, rows, run.row, run.stride, run.count));
    PEN_TRY(done(H5Pset_virtual(properties.get(), here.get(), escaped(members.file_name(run.member)).c_str(),
                                escaped(node.path).c_str(), there.get()),
                 "map frames of a member"));
  }
  const auto dimensions = with_frames(node, frames);
  PEN_ASSIGN(const auto space, simple_space(dimensions, dimensions));
  return create(file, path, node.type, space.get(), properties.get());
}

struct Part {
  std::span<const MemberRun> runs;
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

/// Runs of one stretch lie among each other, so a part ends only where all of its runs have.
std::vector<Part> parts_of(std::span<const MemberRun> runs) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto end = runs[i].first + (runs[i].count - 1) * runs[i].stride + 1;
    const bool apart = parts.empty() || runs[i].first >= parts.back().end;
    if (parts.empty() || (apart && parts.back().runs.size() >= mappings_max))
      parts.push_back({runs.subspan(i, 0), runs[i].first, runs[i].first});
    auto& part = parts.back();
    part.runs = std::span(part.runs.data(), part.runs.size() + 1);
    part.end = std::max(part.end, end);
  }
  return parts;
}

Result<void> create_of_parts(hid_t file, const ChunkedNode& node, const Members& members,
                             std::span<const MemberRun> runs, std::uint64_t frames) {
  PEN_ASSIGN(const auto properties, properties_of(node));
  const auto name = node.path.substr(node.path.rfind('/') + 1);
  std::size_t number = 0;
  for (const auto& part : parts_of(runs)) {
    const auto path = fmt::format("{}/{}_{}", parts_path, name, number++);
    const auto count = part.end - part.first;
    PEN_TRY(create_of_runs(file, path, node, members, part.runs, part.first, count));
    PEN_ASSIGN(const auto here, frames_space(node, frames, part.first, 1, count));
    PEN_ASSIGN(const auto there, frames_space(node, count, 0, 1, count));
    PEN_TRY(done(H5Pset_virtual(properties.get(), here.get(), ".", escaped(path).c_str(), there.get()), "map a part"));
  }
  const auto dimensions = with_frames(node, frames);
  PEN_ASSIGN(const auto space, simple_space(dimensions, dimensions));
  return create(file, node.path, node.type, space.get(), properties.get());
}

Result<void> remove(hid_t file, const std::string& path) {
  if (H5Lexists(file, path.c_str(), H5P_DEFAULT) <= 0) return {};
  return done(H5Ldelete(file, path.c_str(), H5P_DEFAULT), fmt::format("replace {}", path));
}

Result<void> make_empty(hid_t file, const ChunkedNode& node, std::uint64_t frames) {
  PEN_TRY(make_chunked(file, node));
  PEN_ASSIGN(const auto dataset, open_chunked(file, node.path));
  const auto dimensions = with_frames(node, frames);
  return done(H5Dset_extent(dataset.get(), dimensions.data()), fmt::format("grow {}", node.path));
}

/// Of the node's dataset or the assembled one, with the frame's dimensions last.
Dimensions growing(const ChunkedNode& node, const std::vector<std::uint64_t>& frame_shape, hsize_t length) {
  Dimensions dimensions{length};
  if (!node.scan_shape.empty()) dimensions.insert(dimensions.end(), node.scan_shape.begin() + 1, node.scan_shape.end());
  dimensions.insert(dimensions.end(), frame_shape.begin(), frame_shape.end());
  return dimensions;
}

/// A rectangle of every frame that there will be.
Result<Handle> band_space(const ChunkedNode& node, const std::vector<std::uint64_t>& frame_shape,
                          std::array<hsize_t, 2> first, std::array<hsize_t, 2> extent) {
  PEN_ASSIGN(auto space, simple_space(growing(node, frame_shape, 0), growing(node, frame_shape, H5S_UNLIMITED)));
  auto counts = growing(node, frame_shape, H5S_UNLIMITED);
  Dimensions start(counts.size(), 0);
  std::copy(first.begin(), first.end(), start.end() - 2);
  std::copy(extent.begin(), extent.end(), counts.end() - 2);
  PEN_TRY(done(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, counts.data(), nullptr),
               "select a band"));
  return space;
}

/// The pixels between gaps: where they are in a frame with the gaps, and in a stored one.
struct Band {
  std::array<hsize_t, 2> shown;
  std::array<hsize_t, 2> stored;
  std::array<hsize_t, 2> extent;
};

std::vector<Band> bands_of(const ChunkedNode& node) {
  const auto& assembled = *node.assembled;
  const auto rows = node.frame_shape[node.frame_shape.size() - 2] / (assembled.row_gaps.size() + 1);
  const auto columns = node.frame_shape.back() / (assembled.column_gaps.size() + 1);
  std::vector<Band> bands;
  for (std::size_t i = 0, row_at = 0; i <= assembled.row_gaps.size(); ++i) {
    for (std::size_t j = 0, column_at = 0; j <= assembled.column_gaps.size(); ++j) {
      bands.push_back({{row_at, column_at}, {i * rows, j * columns}, {rows, columns}});
      if (j < assembled.column_gaps.size()) column_at += columns + assembled.column_gaps[j];
    }
    if (i < assembled.row_gaps.size()) row_at += rows + assembled.row_gaps[i];
  }
  return bands;
}

}  // namespace

Result<void> make_assembled(hid_t file, const ChunkedNode& node) {
  const auto& assembled = *node.assembled;
  const auto shape = assembled.frame_shape(node.frame_shape);
  const auto source = escaped(node.path);
  PEN_ASSIGN(const auto properties, properties_of(node));
  for (const auto& band : bands_of(node)) {
    PEN_ASSIGN(const auto here, band_space(node, shape, band.shown, band.extent));
    PEN_ASSIGN(const auto there, band_space(node, node.frame_shape, band.stored, band.extent));
    PEN_TRY(done(H5Pset_virtual(properties.get(), here.get(), ".", source.c_str(), there.get()), "map an element"));
  }
  PEN_ASSIGN(const auto space, simple_space(growing(node, shape, 0), growing(node, shape, H5S_UNLIMITED)));
  PEN_TRY(create(file, assembled.path, node.type, space.get(), properties.get()));
  return write_attributes(file, assembled.path, node.attributes);
}

Result<void> make_subset(hid_t file, const ChunkedNode& node, const Subset& subset, std::span<const FrameRun> runs,
                         std::span<const LinkNode> links) {
  // Where the source is a virtual dataset that grows, as that with gaps, HDF5 reads only fill values.
  auto shown = node;
  if (node.assembled) shown.frame_shape = node.assembled->frame_shape(node.frame_shape);
  std::uint64_t frames = 0;
  for (const auto& run : runs) frames += run.count;
  PEN_ASSIGN(const auto properties, properties_of(node));
  const auto source = escaped(node.path);
  std::uint64_t at = 0;
  const auto map = [&](const FrameRun& run, const std::optional<Rectangle>& part_here,
                       const std::optional<Rectangle>& part_there) -> Result<void> {
    PEN_ASSIGN(const auto here, frames_space(shown, frames, at, 1, run.count, part_here));
    const auto rows = run.first + (run.count - 1) * run.stride + 1;
    PEN_ASSIGN(const auto there, frames_space(node, rows, run.first, run.stride, run.count, part_there));
    return done(H5Pset_virtual(properties.get(), here.get(), ".", source.c_str(), there.get()), "map frames");
  };
  for (const auto& run : runs) {
    if (!node.assembled) PEN_TRY(map(run, std::nullopt, std::nullopt));
    if (node.assembled)
      for (const auto& band : bands_of(node))
        PEN_TRY(map(run, Rectangle{band.shown, band.extent}, Rectangle{band.stored, band.extent}));
    at += run.count;
  }
  PEN_TRY(remove(file, subset.path));
  const auto dimensions = with_frames(shown, frames);
  PEN_ASSIGN(const auto space, simple_space(dimensions, dimensions));
  PEN_TRY(create(file, subset.path, node.type, space.get(), properties.get()));
  for (const auto& link : links)
    if (link.target == subset.path && H5Lexists(file, link.path.c_str(), H5P_DEFAULT) > 0)
      PEN_TRY(replace_link(file, link));
  return write_attributes(file, subset.path, subset.attributes);
}

Result<void> make_virtual(hid_t file, const ChunkedNode& node, const Members& members) {
  if (members.frames == 0 || members.ranks > 1) return make_chunked(file, node);
  PEN_ASSIGN(const auto properties, properties_of(node));
  PEN_ASSIGN(const auto here, simple_space(with_frames(node, 0), with_frames(node, H5S_UNLIMITED)));
  const auto block = with_frames(node, members.frames);
  Dimensions start(block.size(), 0), blocks(block.size(), 1);
  blocks[0] = H5S_UNLIMITED;
  PEN_TRY(done(H5Sselect_hyperslab(here.get(), H5S_SELECT_SET, start.data(), block.data(), blocks.data(), block.data()),
               "select the frames of all members"));
  PEN_ASSIGN(const auto there, frames_space(node, members.frames, 0, 1, members.frames));
  const auto name = escaped(members.stem) + "%b" + escaped(members.suffix);
  PEN_TRY(done(H5Pset_virtual(properties.get(), here.get(), name.c_str(), escaped(node.path).c_str(), there.get()),
               "map the members"));
  PEN_TRY(create(file, node.path, node.type, here.get(), properties.get()));
  return write_attributes(file, node.path, node.attributes);
}

Result<void> complete_virtual(hid_t file, const ChunkedNode& node, const Members& members,
                              std::span<const MemberRun> runs, std::uint64_t frames, std::span<const LinkNode> links) {
  PEN_TRY(remove(file, node.path));
  for (const auto& link : links) PEN_TRY(remove(file, link.path));
  if (runs.empty())
    PEN_TRY(make_empty(file, node, frames));
  else if (runs.size() <= mappings_max)
    PEN_TRY(create_of_runs(file, node.path, node, members, runs, 0, frames));
  else
    PEN_TRY(create_of_parts(file, node, members, runs, frames));
  if (!runs.empty()) PEN_TRY(write_attributes(file, node.path, node.attributes));
  for (const auto& link : links) PEN_TRY(make_link(file, link));
  return {};
}

}  // namespace penstock::store::hdf5
