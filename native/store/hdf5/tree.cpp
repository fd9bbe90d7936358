#include "store/hdf5/tree.hpp"

#include <algorithm>

#include "store/hdf5/plugins/filter_names.hpp"
#include "store/hdf5/subsets.hpp"
#include "store/hdf5/values.hpp"
#include "store/hdf5/virtual.hpp"

namespace penstock::store::hdf5 {
namespace {

/// A filter that HDF5 does not bring is declared optional, with its full parameters and its name: readers find it by
/// its number, and one that has it may still not read what was stored past it. Those that every HDF5 has are mandatory.
Result<void> declare_filter(hid_t properties, const FilterSpec& filter) {
  if (filter.id >= H5Z_FILTER_RESERVED) PEN_TRY(name_filter(filter.id));
  const auto flag = filter.id < H5Z_FILTER_RESERVED ? H5Z_FLAG_MANDATORY : H5Z_FLAG_OPTIONAL;
  return done(
      H5Pset_filter(properties, filter.id, static_cast<unsigned>(flag), filter.values.size(), filter.values.data()),
      fmt::format("declare filter {}", filter.id));
}

/// `fixed` are the dimensions behind the first, which grows from 0.
Result<void> make_growing(hid_t file, const std::string& path, hid_t type, const std::vector<hsize_t>& chunk,
                          const std::vector<hsize_t>& fixed, hid_t properties) {
  PEN_TRY(make_parents(file, path));
  const auto rank = static_cast<int>(chunk.size());
  std::vector<hsize_t> dimensions{0};
  dimensions.insert(dimensions.end(), fixed.begin(), fixed.end());
  auto dimensions_max = dimensions;
  dimensions_max[0] = H5S_UNLIMITED;
  PEN_TRY(done(H5Pset_chunk(properties, rank, chunk.data()), "set the chunk's shape"));
  PEN_ASSIGN(const auto space, owned(H5Screate_simple(rank, dimensions.data(), dimensions_max.data()), H5Sclose,
                                     "make a growing dataspace"));
  PEN_ASSIGN(const auto naming, name_properties(H5P_LINK_CREATE, path));
  PEN_ASSIGN(const auto dataset,
             owned(H5Dcreate2(file, path.c_str(), type, space.get(), naming.get(), properties, H5P_DEFAULT), H5Dclose,
                   "create the dataset"));
  return {};
}

/// Makes the contiguous dataset of a large array, whose bytes are in the file already. Nothing is written there, also
/// no fill value.
Result<void> make_placed(hid_t file, const ValueNode& node, DriverContext& context) {
  const auto& spec = std::get<ArrayValue>(node.value).spec;
  const std::vector<hsize_t> dimensions(spec.shape.begin(), spec.shape.end());
  PEN_TRY(make_parents(file, node.path));
  if (H5Lexists(file, node.path.c_str(), H5P_DEFAULT) > 0)
    PEN_TRY(done(H5Ldelete(file, node.path.c_str(), H5P_DEFAULT), "replace a value"));
  PEN_ASSIGN(const auto properties, creation_properties(H5P_DATASET_CREATE));
  PEN_TRY(done(H5Pset_layout(properties.get(), H5D_CONTIGUOUS), "set the layout"));
  PEN_TRY(done(H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY), "set the time of allocation"));
  PEN_TRY(done(H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER), "set the time of filling"));
  std::uint64_t bytes = size_of(spec.type);
  for (const auto extent : dimensions) bytes *= extent;
  PEN_ASSIGN(const auto space, owned(H5Screate_simple(static_cast<int>(dimensions.size()), dimensions.data(), nullptr),
                                     H5Sclose, "make a dataspace"));
  PEN_ASSIGN(const auto naming, name_properties(H5P_LINK_CREATE, node.path));
  context.placement = DriverContext::Placement{node.place->address, bytes, false};
  auto dataset = owned(
      H5Dcreate2(file, node.path.c_str(), type_of(spec.type), space.get(), naming.get(), properties.get(), H5P_DEFAULT),
      H5Dclose, "create the dataset");
  const bool placed = context.placement->taken || bytes == 0;
  context.placement.reset();
  PEN_TRY(context.outcome(dataset.ok() ? Result<void>{} : Result<void>(dataset.error())));
  if (!placed) return make_error(Errc::internal, "HDF5 did not ask for the location of {}", node.path);
  return write_attributes(file, node.path, node.attributes);
}

Result<Handle> type_of_rows(ElementType type, std::size_t text_bytes) {
  if (text_bytes == 0) return owned(H5Tcopy(type_of(type)), H5Tclose, "copy a type");
  PEN_ASSIGN(auto text, owned(H5Tcopy(H5T_C_S1), H5Tclose, "make a string type"));
  PEN_TRY(done(H5Tset_size(text.get(), text_bytes), "set a string's length"));
  PEN_TRY(done(H5Tset_strpad(text.get(), H5T_STR_NULLPAD), "set a string's padding"));
  PEN_TRY(done(H5Tset_cset(text.get(), H5T_CSET_UTF8), "set a string's character set"));
  return text;
}

Result<Handle> open_with_cache(hid_t file, const std::string& path, std::size_t slots, std::size_t bytes) {
  PEN_ASSIGN(const auto access, owned(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose, "make a property list"));
  PEN_TRY(done(H5Pset_chunk_cache(access.get(), slots, bytes, H5D_CHUNK_CACHE_W0_DEFAULT), "set a chunk cache"));
  return owned(H5Dopen2(file, path.c_str(), access.get()), H5Dclose, fmt::format("open {}", path));
}

}  // namespace

Result<void> declare_fill(hid_t properties, ElementType type, const std::vector<std::byte>& fill) {
  if (fill.empty()) return {};
  if (fill.size() != size_of(type))
    return make_error(Errc::invalid_argument, "the fill value has {} bytes; {} has {}", fill.size(), name(type),
                      size_of(type));
  return done(H5Pset_fill_value(properties, type_of(type), fill.data()), "set a fill value");
}

Result<void> make_chunked(hid_t file, const ChunkedNode& node) {
  if (node.fixed_dimensions().size() + 1 > H5S_MAX_RANK)
    return make_error(Errc::invalid_argument, "{} dimensions; at most {} are possible",
                      node.fixed_dimensions().size() + 1, H5S_MAX_RANK);
  PEN_ASSIGN(const auto grid, node.grid());
  const std::vector<hsize_t> chunk(grid.chunk().begin(), grid.chunk().end());
  const auto dimensions = node.fixed_dimensions();
  const std::vector<hsize_t> fixed(dimensions.begin(), dimensions.end());
  PEN_ASSIGN(const auto properties, creation_properties(H5P_DATASET_CREATE));
  PEN_TRY(declare_fill(properties.get(), node.type, node.fill));
  for (const auto& filter : node.filters) PEN_TRY(declare_filter(properties.get(), filter));
  PEN_TRY(make_growing(file, node.path, type_of(node.type), chunk, fixed, properties.get()));
  return write_attributes(file, node.path, node.attributes);
}

Result<void> make_column(hid_t file, const ColumnNode& node, std::size_t columns) {
  PEN_ASSIGN(const auto properties, creation_properties(H5P_DATASET_CREATE));
  if (node.text_bytes == 0) PEN_TRY(declare_fill(properties.get(), node.type, node.fill));
  PEN_ASSIGN(const auto type, type_of_rows(node.type, node.text_bytes));
  const hsize_t rows = std::clamp<hsize_t>(column_chunk_bytes(columns) / node.row_bytes(), 1, column_chunk_rows);
  const std::vector<hsize_t> fixed(node.shape.begin(), node.shape.end());
  auto chunk = fixed;
  chunk.insert(chunk.begin(), rows);
  PEN_TRY(make_growing(file, node.path, type.get(), chunk, fixed, properties.get()));
  return write_attributes(file, node.path, node.attributes);
}

Result<void> make_tree(hid_t file, const FileLayout& layout, DriverContext& context) {
  for (const auto& group : layout.groups) {
    PEN_TRY(make_group(file, group.path));
    PEN_TRY(write_attributes(file, group.path, group.attributes));
  }
  for (const auto& node : layout.values) {
    const bool placed = node.place && std::holds_alternative<ArrayValue>(node.value);
    PEN_TRY(placed ? make_placed(file, node, context) : write_value(file, node), "{}", node.path);
  }
  for (const auto& node : layout.chunked) {
    PEN_TRY(layout.members ? make_virtual(file, node, *layout.members) : make_chunked(file, node), "dataset {}",
            node.path);
    if (node.assembled) PEN_TRY(make_assembled(file, node), "dataset {}", node.assembled->path);
  }
  if (layout.subsets) PEN_TRY(Subsets(layout).make(file), "datasets of some of the frames");
  for (const auto& node : layout.columns)
    PEN_TRY(make_column(file, node, layout.columns.size()), "column {}", node.path);
  for (const auto& node : layout.links) PEN_TRY(make_link(file, node));
  return {};
}

Result<Handle> open_chunked(hid_t file, const std::string& path) { return open_with_cache(file, path, 1, 0); }

Result<Handle> open_column(hid_t file, const std::string& path, std::size_t cache_bytes) {
  return open_with_cache(file, path, 13, cache_bytes);
}

}  // namespace penstock::store::hdf5
