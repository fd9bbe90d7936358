#include "recorder/tree/element_starts.hpp"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "recorder/tree/gaps.hpp"
#include "recorder/tree/nexus/nexus.hpp"

namespace penstock::recorder {

bool ElementStarts::begin(const Series& start) {
  if (!spec_.has_elements() || !start.element) return false;
  Maps maps;
  if (keeps_maps_) maps = {start.pixel_mask, start.flatfield};
  std::lock_guard lock(mutex_);
  return begun_.emplace(start.element->number, std::move(maps)).second;
}

std::set<std::uint32_t> ElementStarts::begun() const {
  std::lock_guard lock(mutex_);
  std::set<std::uint32_t> begun;
  for (const auto& [number, maps] : begun_) begun.insert(number);
  return begun;
}

std::uint64_t ElementStarts::map_bytes() const {
  std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [number, maps] : begun_)
    for (const auto* arrays : {&maps.pixel_mask, &maps.flatfield})
      for (const auto& array : *arrays) bytes += array.data.size();
  return bytes;
}

void ElementStarts::add_assembled_maps(std::vector<store::ValueNode>& values) const {
  const auto& mosaic = spec_.mosaic();
  const auto add = [&](const char* name, std::vector<NamedArray> Maps::*maps, std::size_t at_least,
                       std::uint64_t in_gap) {
    std::map<std::string, NamedArray> assembled;
    std::map<std::string, std::size_t> brought;
    for (const auto& [number, element] : begun_)
      for (const auto& array : element.*maps) {
        if (!spec_.maps_have_room(array.spec.type)) continue;
        auto& into = assembled[array.channel];
        if (into.data.empty()) into = in_gaps(mosaic, array.channel, array.spec.type, in_gap);
        if (array.spec.type != into.spec.type || array.spec.shape != spec_.series().frame.shape) {
          spdlog::warn("{}: the {} of element {} differs in type or shape from the first; it is left out", spec_.path(),
                       name, number);
          continue;
        }
        mosaic.put(array.data, size_of(array.spec.type), number, into.data);
        ++brought[array.channel];
      }
    for (auto& [channel, array] : assembled)
      if (brought[channel] >= at_least)
        values.push_back(map_value(spec_.series(), name, std::move(array), assembled.size()));
  };
  std::lock_guard lock(mutex_);
  add("pixel_mask", &Maps::pixel_mask, 1, gap_mask_bit);
  add("flatfield", &Maps::flatfield, mosaic.elements(), 1);
}

}  // namespace penstock::recorder
