#include "store/hdf5/reading/reader.hpp"

#include <hdf5.h>

#include <algorithm>
#include <map>
#include <set>

#include "frame/series.hpp"
#include "store/hdf5/handles.hpp"
#include "store/hdf5/reading/read_driver.hpp"
#include "store/hdf5/reading/read_index.hpp"
#include "store/hdf5/reading/read_values.hpp"
#include "store/recovery/journal.hpp"

namespace penstock::store {
namespace {

using namespace hdf5;

constexpr int depth_max = 64;
constexpr std::size_t objects_max = 1'000'000;

class TreeReader {
 public:
  TreeReader(const ReadTreeOptions& options, TreeVisitor& visitor, ReadDriverState& state)
      : options_(options), visitor_(visitor), state_(state) {}

  void read(hid_t file) {
    file_ = file;
    walk(file, "/", 0);
    for (const auto address : order_) read_dataset(datasets_[address]);
  }

 private:
  struct Link {
    std::string name;
    bool hard;
  };

  /// Visits the group at `path` and notes the datasets under it.
  void walk(hid_t parent, const std::string& path, int depth) {
    if (depth > depth_max || seen_.size() > objects_max)
      return visitor_.unreadable(path, make_error(Errc::too_large, "the tree is too deep or too large"));
    Handle object(H5Oopen(parent, depth == 0 ? "/" : path.c_str(), H5P_DEFAULT), H5Oclose);
    if (!object) return visitor_.unreadable(path, library_error("open the object"));
    H5O_info_t info;
    if (H5Oget_info2(object.get(), &info, H5O_INFO_BASIC) < 0)
      return visitor_.unreadable(path, library_error("get its type"));
    if (info.type == H5O_TYPE_DATASET) {
      if (datasets_[info.addr].empty()) order_.push_back(info.addr);
      datasets_[info.addr].push_back(path);
      return;
    }
    if (info.type != H5O_TYPE_GROUP || !seen_.insert(info.addr).second) return;
    visitor_.group(path, read_attributes(object.get()));
    for (const auto& link : links_of(object.get(), path))
      if (link.hard) walk(file_, (path == "/" ? path : path + "/") + link.name, depth + 1);
  }

  std::vector<Link> links_of(hid_t group, const std::string& path) {
    std::vector<Link> links;
    const auto add = [](hid_t, const char* name, const H5L_info_t* info, void* into) -> herr_t {
      static_cast<std::vector<Link>*>(into)->push_back({name, info->type == H5L_TYPE_HARD});
      return 0;
    };
    if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &links) < 0)
      visitor_.unreadable(path, library_error("list the group"));
    return links;
  }

  void read_dataset(const std::vector<std::string>& paths) {
    Handle dataset(H5Dopen2(file_, paths.front().c_str(), H5P_DEFAULT), H5Dclose);
    if (!dataset) return visitor_.unreadable(paths.front(), library_error("open the dataset"));
    auto info = describe(dataset.get(), paths);
    if (!info.ok()) return visitor_.unreadable(paths.front(), info.error());
    visitor_.dataset(*info);
    std::uint64_t chunks_end = 0;
    if (info->storage == StorageKind::chunked) {
      const auto read = read_index(dataset.get(), *info, state_, options_.index_blocks, visitor_);
      if (!read.ok()) visitor_.unreadable(paths.front(), read.error());
      chunks_end = read.ok() ? *read : 0;
    }
    if (wants(*info)) tell_value(dataset.get(), *info, chunks_end);
  }

  Result<DatasetInfo> describe(hid_t dataset, const std::vector<std::string>& paths) {
    DatasetInfo info;
    info.paths = paths;
    Handle type(H5Dget_type(dataset), H5Tclose);
    Handle creation(H5Dget_create_plist(dataset), H5Pclose);
    Handle space(space_of(dataset, creation.get()), H5Sclose);
    if (!type || !space || !creation) return library_error("describe the dataset");
    info.type = element_type_of_hdf5(type.get());
    info.element_bytes = H5Tget_size(type.get());
    const int rank = H5Sget_simple_extent_ndims(space.get());
    if (rank < 0) return library_error("describe the dataset");
    std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
    if (rank > 0) H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
    info.shape.assign(dims.begin(), dims.end());
    PEN_TRY(describe_storage(dataset, creation.get(), info));
    info.attributes = read_attributes(dataset);
    return info;
  }

  /// That of a virtual dataset without opening its sources, as H5Dget_space would: the driver knows one file only.
  static hid_t space_of(hid_t dataset, hid_t creation) {
    std::size_t mappings = 0;
    if (H5Pget_layout(creation) != H5D_VIRTUAL || H5Pget_virtual_count(creation, &mappings) < 0 || mappings == 0)
      return H5Dget_space(dataset);
    return H5Pget_virtual_vspace(creation, 0);
  }

  /// Empty where mappings lead elsewhere, to several datasets, or are more than the elements of a detector.
  static std::string source_in_file(hid_t creation) {
    std::size_t mappings = 0;
    if (H5Pget_virtual_count(creation, &mappings) < 0 || mappings == 0 || mappings > elements_max) return {};
    const auto text_of = [&](auto get, std::size_t mapping) {
      const auto length = get(creation, mapping, nullptr, 0);
      std::string text(length > 0 ? static_cast<std::size_t>(length) : 0, '\0');
      if (length > 0) get(creation, mapping, text.data(), text.size() + 1);
      return text;
    };
    auto source = text_of(H5Pget_virtual_dsetname, 0);
    for (std::size_t mapping = 0; mapping < mappings; ++mapping)
      if (text_of(H5Pget_virtual_filename, mapping) != "." || text_of(H5Pget_virtual_dsetname, mapping) != source)
        return {};
    return source;
  }

  static Result<void> describe_storage(hid_t dataset, hid_t creation, DatasetInfo& info) {
    const auto layout = H5Pget_layout(creation);
    if (layout == H5D_COMPACT) info.storage = StorageKind::compact;
    if (layout == H5D_VIRTUAL) {
      info.storage = StorageKind::virtual_sources;
      info.source = source_in_file(creation);
    }
    if (layout == H5D_CONTIGUOUS) {
      info.storage = H5Pget_external_count(creation) > 0 ? StorageKind::external : StorageKind::contiguous;
      const auto address = H5Dget_offset(dataset);
      info.address = address == HADDR_UNDEF ? 0 : address;
    }
    if (layout != H5D_CHUNKED) return {};
    info.storage = StorageKind::chunked;
    std::vector<hsize_t> chunk(info.shape.size());
    if (H5Pget_chunk(creation, static_cast<int>(chunk.size()), chunk.data()) != static_cast<int>(chunk.size()))
      return make_error(Errc::corrupt, "the rank of the chunks is not that of the dataset");
    info.chunk_shape.assign(chunk.begin(), chunk.end());
    const int filters = H5Pget_nfilters(creation);
    for (int i = 0; i < filters; ++i) {
      unsigned flags = 0;
      std::size_t count = 256;
      std::vector<unsigned> values(count);
      const auto id =
          H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &count, values.data(), 0, nullptr, nullptr);
      if (id < 0) return library_error(fmt::format("get filter {}", i));
      values.resize(std::min<std::size_t>(count, values.size()));
      info.filters.push_back({id, std::move(values)});
    }
    return {};
  }

  bool wants(const DatasetInfo& info) const {
    if (info.storage == StorageKind::virtual_sources || info.storage == StorageKind::external) return false;
    // No plug-in is loaded in here: filters that HDF5 lacks would only fail.
    for (const auto& filter : info.filters)
      if (filter.id >= 256) return false;
    if (options_.wants_value && options_.wants_value(info)) return true;
    std::uint64_t bytes = info.element_bytes;
    for (const auto extent : info.shape) {
      if (extent == 0 || bytes > options_.small_value_bytes / extent) return false;
      bytes *= extent;
    }
    return bytes <= options_.small_value_bytes;
  }

  /// `chunks_end`: one past the number of the last chunk.
  void tell_value(hid_t dataset, const DatasetInfo& info, std::uint64_t chunks_end) {
    auto value = read_value(dataset, options_.value_bytes_max);
    const bool one_dimension = info.storage == StorageKind::chunked && info.shape.size() == 1;
    if (!value.ok() && value.error().code() == Errc::too_large && one_dimension)
      value = read_rows(dataset, std::min(info.shape[0], chunks_end * info.chunk_shape[0]), options_.value_bytes_max);
    if (value.ok()) return visitor_.value(std::move(*value));
    if (value.error().code() != Errc::unsupported) visitor_.unreadable(info.paths.front(), value.error());
  }

  const ReadTreeOptions& options_;
  TreeVisitor& visitor_;
  ReadDriverState& state_;
  hid_t file_ = H5I_INVALID_HID;
  std::set<haddr_t> seen_;
  std::map<haddr_t, std::vector<std::string>> datasets_;
  std::vector<haddr_t> order_;  // of the datasets, as they were met
};

}  // namespace

Result<void> read_tree(Env& env, const std::string& path, const ReadTreeOptions& options, TreeVisitor& visitor) {
  LibraryLock library;
  ReadDriverState state;
  PEN_ASSIGN(state.file, env.open(path, {}));
  if (options.left) {
    PEN_ASSIGN(auto left, unfinished_changes(*state.file));
    state.file = with_changes(std::move(state.file), std::move(left.changes));
  }
  PEN_ASSIGN(state.size, state.file->size());
  PEN_ASSIGN(const auto access_id, make_read_access(state));
  Handle access(access_id, H5Pclose);
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (!file) {
    const auto why = library_error("open it");
    file = Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, access.get()), H5Fclose);
    if (!file) return state.storage_error.value_or(why);
  }
  TreeReader(options, visitor, state).read(file.get());
  if (state.storage_error) return *state.storage_error;
  return {};
}

}  // namespace penstock::store
