#include "store/hdf5/plugins/filter_plugin.hpp"

#include <H5PLextern.h>
#include <dlfcn.h>
#include <fmt/ranges.h>
#include <malloc.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>

#include "store/hdf5/handles.hpp"
#include "store/hdf5/plugins/plugin_call.hpp"

namespace penstock::store {
namespace {

using hdf5::done;
using hdf5::LibraryLock;
using hdf5::owned;
using hdf5::PluginCall;

constexpr int filter_blosc = 32001;
constexpr int filter_bitshuffle = 32008;
constexpr std::size_t bitshuffle_values_max = 3;
constexpr int filter_sz = 32017;
constexpr std::string_view parameters_remedy =
    "correct codec.parameters as the plug-in's documentation says, or choose another filter";
constexpr std::size_t values_max = 256;  // what a file's description holds
constexpr std::size_t path_bytes_max = 4096;

/// Where HDF5 itself looks for plug-ins.
std::vector<std::string> library_folders() {
  LibraryLock lock;
  std::vector<std::string> folders;
  unsigned count = 0;
  if (H5PLsize(&count) < 0) return folders;
  for (unsigned i = 0; i < count; ++i) {
    char path[path_bytes_max];
    if (const auto size = H5PLget(i, path, sizeof path); size > 0 && static_cast<std::size_t>(size) < sizeof path)
      folders.emplace_back(path);
  }
  return folders;
}

/// Libraries of a folder, those first whose name tells of the plug-in: to open one may take a while.
std::vector<std::string> libraries_in(const std::string& folder, const std::string& name) {
  std::vector<std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (const auto file = entry->path().filename().string(); file.find(".so") != std::string::npos)
      found.push_back(entry->path().string());
  std::sort(found.begin(), found.end());
  const auto tells = [&](const std::string& path) {
    return !name.empty() && std::filesystem::path(path).filename().string().find(name) != std::string::npos;
  };
  std::stable_partition(found.begin(), found.end(), tells);
  return found;
}

/// The class of a library that is a filter plug-in; null for any other.
const H5Z_class2_t* filter_class(void* library) {
  using GetType = H5PL_type_t (*)();
  using GetInfo = const void* (*)();
  const auto get_type = reinterpret_cast<GetType>(::dlsym(library, "H5PLget_plugin_type"));
  const auto get_info = reinterpret_cast<GetInfo>(::dlsym(library, "H5PLget_plugin_info"));
  if (get_type == nullptr || get_info == nullptr || get_type() != H5PL_TYPE_FILTER) return nullptr;
  return static_cast<const H5Z_class2_t*>(get_info());
}

/// A library of `path` while it is looked at; unloaded unless it is kept.
class OpenedLibrary {
 public:
  // Now rather than when first called: a function that is missing then would end the process.
  explicit OpenedLibrary(const std::string& path) : library_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ != nullptr) return;
    const char* text = ::dlerror();
    why_ = text != nullptr ? text : path;
  }
  ~OpenedLibrary() {
    if (library_ != nullptr) ::dlclose(library_);
  }
  OpenedLibrary(const OpenedLibrary&) = delete;
  OpenedLibrary& operator=(const OpenedLibrary&) = delete;

  const H5Z_class2_t* filter() const { return library_ != nullptr ? filter_class(library_) : nullptr; }
  const std::string& why() const { return why_; }
  void keep() { library_ = nullptr; }

 private:
  void* library_;
  std::string why_;
};

/// Plug-ins whose chunks must take turns, as they keep what they work with in global variables.
std::mutex* turns_of(int id) {
  static std::mutex sz;
  return id == filter_sz ? &sz : nullptr;
}

}  // namespace

struct FilterPlugin::Loaded {
  const H5Z_class2_t* filter = nullptr;
  std::string path;
};

FilterPlugin::FilterPlugin(const FilterSearch& search, const Loaded& loaded)
    : id_(search.id),
      exclusive_(search.exclusive),
      path_(loaded.path),
      name_(loaded.filter->name != nullptr ? loaded.filter->name : search.name),
      class_(loaded.filter) {}

Result<std::shared_ptr<const FilterPlugin>> FilterPlugin::load(const FilterSearch& search) {
  auto folders = search.folders;
  for (auto& folder : library_folders()) folders.push_back(std::move(folder));
  // Blosc would let one thread at a time through; it asks for this with each chunk.
  if (search.id == filter_blosc) ::setenv("BLOSC_NOLOCK", "1", 0);
  std::string refusal;
  for (const auto& folder : folders) {
    for (const auto& path : libraries_in(folder, search.name)) {
      OpenedLibrary library(path);
      if (!library.why().empty()) refusal += "; " + library.why();
      const auto* filter = library.filter();
      if (filter == nullptr || filter->id != search.id) continue;
      if (filter->version != H5Z_CLASS_T_VERS || filter->filter == nullptr || filter->encoder_present == 0)
        return make_error(Errc::unsupported, "filter {}: {} cannot compress, or was made for another HDF5", search.id,
                          path);
      library.keep();
      return std::shared_ptr<const FilterPlugin>(new FilterPlugin(search, {filter, path}));
    }
  }
  return make_error(Errc::not_found,
                    "no plug-in for filter {}{} in {}{}; install it (hdf5plugin has many), or name its folder "
                    "in HDF5_PLUGIN_PATH",
                    search.id, search.name.empty() ? "" : fmt::format(" ({})", search.name), fmt::join(folders, ", "),
                    refusal);
}

Result<FilterSpec> FilterPlugin::settle(const std::vector<unsigned>& values, ElementType type,
                                        const std::vector<std::uint64_t>& chunk_shape) const {
  const auto& filter = *static_cast<const H5Z_class2_t*>(class_);
  // It puts three numbers in front of whatever it is given; with those given too, readers crash.
  if (id_ == filter_bitshuffle && values.size() > bitshuffle_values_max)
    return make_error(Errc::invalid_argument,
                      "{} (filter {}) has {} parameters ([{}]); give at most {}: elements of a block, compression (2 "
                      "LZ4, 3 zstd), level",
                      name_, id_, values.size(), fmt::join(values, ", "), bitshuffle_values_max);
  const auto rank = static_cast<int>(chunk_shape.size());
  const std::vector<hsize_t> chunk(chunk_shape.begin(), chunk_shape.end());
  LibraryLock lock;
  PEN_ASSIGN(const auto list, owned(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make a property list"));
  PEN_TRY(done(H5Pset_chunk(list.get(), rank, chunk.data()), "set the chunk's shape"));
  PEN_TRY(done(H5Pset_filter(list.get(), id_, H5Z_FLAG_OPTIONAL, values.size(), values.data()), "set the filter"));
  PEN_ASSIGN(const auto space, owned(H5Screate_simple(rank, chunk.data(), nullptr), H5Sclose, "make a dataspace"));
  const auto refused = [&](const char* what, const std::string& why) {
    return make_error(Errc::invalid_argument, "{} (filter {}) cannot {} [{}] for chunks of [{}] of {}: {}; {}", name_,
                      id_, what, fmt::join(values, ", "), fmt::join(chunk_shape, ", "), penstock::name(type), why,
                      parameters_remedy);
  };
  {
    PluginCall call;
    if (filter.can_apply != nullptr && filter.can_apply(list.get(), hdf5::type_of(type), space.get()) <= 0)
      return refused("be used with the parameters", call.report());
  }
  {
    PluginCall call;
    if (filter.set_local != nullptr && filter.set_local(list.get(), hdf5::type_of(type), space.get()) < 0)
      return refused("use the parameters", call.report());
  }
  FilterSpec settled{id_, std::vector<unsigned>(values_max)};
  std::size_t count = values_max;
  unsigned flags = 0;
  PEN_TRY(done(H5Pget_filter_by_id2(list.get(), id_, &flags, &count, settled.values.data(), 0, nullptr, nullptr),
               "get the filter's parameters"));
  if (count > values_max)
    return make_error(Errc::unsupported, "filter {} requires {} parameters, which exceeds the maximum of {}", id_,
                      count, values_max);
  settled.values.resize(count);
  return settled;
}

Result<void> FilterPlugin::try_out(const FilterSpec& filter, std::size_t raw_bytes) const {
  FilterScratch scratch;
  std::vector<std::byte> chunk(raw_bytes);
  if (apply(filter, chunk, scratch).ok()) return {};
  // One that keeps values within a part of their range may want a range. No byte makes a number infinite.
  for (std::size_t i = 0; i < raw_bytes; ++i) chunk[i] = static_cast<std::byte>(i % 64);
  const auto applied = apply(filter, chunk, scratch);
  if (applied.ok()) return {};
  return make_error(Errc::invalid_argument, "{}, with the parameters [{}] on any chunk; {}", applied.error().message(),
                    fmt::join(filter.values, ", "), parameters_remedy);
}

Result<void> FilterPlugin::apply(const FilterSpec& filter, Bytes raw, FilterScratch& scratch) const {
  return call(0, filter, raw, scratch);
}

Result<void> FilterPlugin::reverse(const FilterSpec& filter, Bytes stored, std::size_t raw_bytes,
                                   FilterScratch& scratch) const {
  auto undone = call(H5Z_FLAG_REVERSE, filter, stored, scratch);
  if (!undone.ok()) return make_error(Errc::corrupt, "{}", undone.error().message());
  if (scratch.size_ != raw_bytes)
    return make_error(Errc::corrupt, "{} bytes instead of the chunk's {}", scratch.size_, raw_bytes);
  return {};
}

Result<void> FilterPlugin::call(unsigned flags, const FilterSpec& filter, Bytes from, FilterScratch& scratch) const {
  if (threw_) return make_error(Errc::unsupported, "{} (filter {}) is not called again", name_, id_);
  auto memory = std::exchange(scratch.memory_, nullptr);
  scratch.size_ = 0;
  if (memory == nullptr || ::malloc_usable_size(memory.get()) < from.size())
    memory.reset(static_cast<std::byte*>(std::malloc(std::max<std::size_t>(from.size(), 1))));
  if (memory == nullptr) return make_error(Errc::out_of_memory, "no memory for {} bytes", from.size());
  if (!from.empty()) std::memcpy(memory.get(), from.data(), from.size());

  std::unique_lock<std::mutex> turn;
  if (auto* turns = turns_of(id_); turns != nullptr) turn = std::unique_lock(*turns);
  std::optional<LibraryLock> library;
  if (exclusive_) library.emplace();
  PluginCall call;
  void* buffer = memory.release();
  std::size_t buffer_bytes = from.size();
  std::size_t size = 0;
  try {
    size = static_cast<const H5Z_class2_t*>(class_)->filter(flags, filter.values.size(), filter.values.data(),
                                                            from.size(), &buffer_bytes, &buffer);
  } catch (...) {
    // Whose the buffer is cannot be told now; it is given up, once.
    threw_ = true;
    return make_error(Errc::unsupported, "{} (filter {}) threw an exception", name_, id_);
  }
  memory.reset(static_cast<std::byte*>(buffer));
  const auto room = memory ? ::malloc_usable_size(memory.get()) : 0;
  scratch.memory_ = std::move(memory);
  if (size == 0) return make_error(Errc::unsupported, "{} (filter {}) failed: {}", name_, id_, call.report());
  if (size > room)
    return make_error(Errc::unsupported, "{} (filter {}) reports {} bytes in a buffer of {}", name_, id_, size, room);
  scratch.size_ = size;
  return {};
}

std::vector<FoundFilter> find_filters(const std::vector<std::string>& folders) {
  std::vector<FoundFilter> found;
  auto all = folders;
  for (auto& folder : library_folders()) all.push_back(std::move(folder));
  for (const auto& folder : all) {
    for (const auto& path : libraries_in(folder, {})) {
      OpenedLibrary library(path);
      const auto* filter = library.filter();
      if (filter == nullptr || filter->encoder_present == 0) continue;
      if (std::any_of(found.begin(), found.end(), [&](const auto& other) { return other.id == filter->id; })) continue;
      found.push_back({filter->id, filter->name != nullptr ? filter->name : "", path});
    }
  }
  return found;
}

bool keeps_all_values(const FilterSpec& filter) {
  // deflate, shuffle, fletcher32, szip, bzip2, lzf, Blosc, LZ4, bitshuffle, Zstd, JPEG-LS as FCIDECOMP has it. Blosc2
  // can be told to cut values off, ZFP, SZ, SZ3 and SPERR are there for it.
  static const std::set<int> known{1, 2, 3, 4, 307, 32000, 32001, 32004, 32008, 32015, 32018};
  return known.contains(filter.id);
}

}  // namespace penstock::store
