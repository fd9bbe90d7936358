/// Where detector and sample are: the chains of transformations of the NeXus tree.
///
/// NeXus has McStas axes: z along the beam, y up, x to the left as seen along the beam. What a sender
/// did not send has no node; a chain ends in "." where it is not known further.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frame/series.hpp"
#include "recorder/tree/nexus/nexus_tree.hpp"
#include "store/frame_axes.hpp"
#include "store/layout.hpp"

namespace penstock::recorder {

/// Adds the sample and its axes.
void add_sample(Tree& tree, const Series& series, const std::string& name);

/// Adds the detector's place, its module and its arm's angle, below the detector's group.
void add_detector_geometry(Tree& tree, const Series& series);

/// The axes with an angle per frame, and how the angles follow from each other.
std::vector<store::FrameAxis> frame_axes(const Series& series);

/// The angles of all axes, for a series of `frames` frames.
std::vector<store::ValueNode> axis_values(const Series& series, std::uint64_t frames);

/// The values along the frames that viewers show, below /entry/data: the angle of the axis that turns, else seconds
/// since the first frame. Nothing where neither is known.
std::optional<store::FrameAxis> plot_axis(const Series& series);

}  // namespace penstock::recorder
