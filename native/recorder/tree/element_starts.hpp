/// The start messages of a detector's elements: which have come, and the masks and flat fields that they brought.
///
/// All calls are safe from several threads.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "frame/series.hpp"
#include "recorder/series/series_spec.hpp"
#include "store/layout.hpp"

namespace penstock::recorder {

class ElementStarts {
 public:
  /// `keeps_maps` where the file is completed: by the coordinator. `spec` outlives it.
  ElementStarts(const SeriesSpec& spec, bool keeps_maps) : spec_(spec), keeps_maps_(keeps_maps) {}

  /// The stream of an element begins, as its start message, with masks decoded, announces it. False if there are no
  /// elements, or if that one's stream has begun before.
  bool begin(const Series& start);
  std::set<std::uint32_t> begun() const;
  /// Memory of the masks and flat fields, in bytes.
  std::uint64_t map_bytes() const;
  /// Adds masks of the assembled frame, in which an element that brought none masks nothing, and flat fields that all
  /// elements brought.
  void add_assembled_maps(std::vector<store::ValueNode>& values) const;

 private:
  struct Maps {
    std::vector<NamedArray> pixel_mask;
    std::vector<NamedArray> flatfield;
  };

  const SeriesSpec& spec_;
  const bool keeps_maps_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, Maps> begun_;  // guarded by mutex_
};

}  // namespace penstock::recorder
