/// HDF5 filter plug-ins, called from our own threads beside HDF5 rather than inside it.
///
/// A plug-in is a shared library with a function that changes a buffer and two that fit its parameters to a
/// dataset. settle() calls those two, through HDF5, and is for setting up. apply() and reverse() call the first
/// one and may run in many threads at once: they never enter HDF5 (plugin_call.hpp) and hold no lock, but where
/// the plug-in is known to keep state of its own.
///
/// Plug-ins are code of somebody else in this process: what they write is checked, that they do not crash cannot
/// be. They stay loaded until the process ends.
#pragma once

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "codec/codec.hpp"
#include "frame/array.hpp"

namespace penstock::store {

/// Memory of one thread, from malloc(), because plug-ins free and replace it. Holds about one chunk.
class FilterScratch {
 public:
  Bytes bytes() const { return {memory_.get(), size_}; }

 private:
  friend class FilterPlugin;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;  ///< of the last result
};

/// Which plug-in, and where it is looked for.
struct FilterSearch {
  int id = 0;                        ///< registered with the HDF Group
  std::string name;                  ///< possibly from the file's name; may be empty
  std::vector<std::string> folders;  ///< before those of HDF5 itself (HDF5_PLUGIN_PATH, or its default)
  /// Each call waits until nobody is in HDF5: for a plug-in that calls it also where nothing fails.
  bool exclusive = false;
};

class FilterPlugin {
 public:
  /// `not_found` names the folders, `unsupported` a plug-in that cannot be used.
  static Result<std::shared_ptr<const FilterPlugin>> load(const FilterSearch& search);

  int id() const { return id_; }
  /// As the plug-in calls itself.
  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }

  /// The complete parameters for chunks of this shape, from the ones that a user gives: what a file declares. An
  /// error (`invalid_argument`) where the plug-in refuses them, or such chunks.
  Result<FilterSpec> settle(const std::vector<unsigned>& values, ElementType type,
                            const std::vector<std::uint64_t>& chunk_shape) const;

  /// Whether it filters anything of `raw_bytes` with these parameters: some plug-ins take wrong ones without a word,
  /// and fail on every chunk. `invalid_argument` where it does not.
  Result<void> try_out(const FilterSpec& filter, std::size_t raw_bytes) const;

  /// Filters `raw`; the result is scratch.bytes(), until the next call. An error where the plug-in fails, which it
  /// may do for a chunk that it cannot make smaller.
  Result<void> apply(const FilterSpec& filter, Bytes raw, FilterScratch& scratch) const;
  /// The other way, to exactly `raw_bytes` in scratch.bytes(). Only for chunks that can be trusted to be what the
  /// plug-in made: it may crash on others.
  Result<void> reverse(const FilterSpec& filter, Bytes stored, std::size_t raw_bytes, FilterScratch& scratch) const;

 private:
  struct Loaded;
  FilterPlugin(const FilterSearch& search, const Loaded& loaded);
  Result<void> call(unsigned flags, const FilterSpec& filter, Bytes from, FilterScratch& scratch) const;

  const int id_;
  const bool exclusive_;
  const std::string path_;
  const std::string name_;
  const void* const class_;  ///< H5Z_class2_t, alive as long as the process
  mutable std::atomic<bool> threw_{false};
};

struct FoundFilter {
  int id = 0;
  std::string name;  ///< as the plug-in calls itself
  std::string path;
};

/// What can be loaded from `folders` and from where HDF5 looks; of two with one number only the first.
std::vector<FoundFilter> find_filters(const std::vector<std::string>& folders);

/// Whether all values come back from the filter as they went in, whatever its parameters; false where that is not
/// known. Of filters that are registered with the HDF Group.
bool keeps_all_values(const FilterSpec& filter);

}  // namespace penstock::store
