/// Frames of elements that stand apart: stored as if they touched, and shown with the gaps.
///
/// docs/explanation/decisions/0037-gaps-between-elements.md explains why.
#pragma once

#include <cstdint>
#include <vector>

#include "frame/mosaic.hpp"
#include "frame/series.hpp"
#include "store/layout.hpp"

namespace penstock::recorder {

/// Where the frames are stored of which the layout's datasets of frames show more than is there.
inline constexpr const char* elements_path = "/entry/penstock/elements";
/// As NXmx has it: bit 0 of a pixel mask is "gap (pixel with no sensor)", in numbers of 32 bits.
constexpr std::uint64_t gap_mask_bit = 1;
constexpr ElementType gap_mask_type = ElementType::u32;

/// Where there are gaps: what `layout` has as datasets of frames, with the gaps in them, becomes virtual, and the
/// frames get datasets of their own at elements_path.
void store_apart(store::FileLayout& layout, const Series& series, const Mosaic& mosaic);

/// Of the assembled frame: `gap` in the gaps, 0 elsewhere. `type` is as wide as the number `gap` needs.
NamedArray in_gaps(const Mosaic& mosaic, const std::string& channel, ElementType type, std::uint64_t gap);

/// What in_gaps() takes for all channels of the series.
std::uint64_t gap_map_bytes(const Mosaic& mosaic, const Series& series, ElementType type);

}  // namespace penstock::recorder
