/// Points of frames in a scan, from the file's column.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "check/subject.hpp"

namespace penstock::check {

constexpr const char* places_path = "/entry/penstock/place";
constexpr std::uint64_t no_place = ~std::uint64_t{0};

/// By frame; `no_place` for missing frames. Returns nullopt if the file's frames are not a scan.
std::optional<std::vector<std::uint64_t>> places_of(const Tree& tree);

/// By place, of `count` places.
std::vector<std::uint64_t> frames_at(const std::vector<std::uint64_t>& places, std::uint64_t count);

}  // namespace penstock::check
