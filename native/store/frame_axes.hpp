/// Values along the frames that follow from the number of frames, which is known when a series ends.
///
/// A file lists the rules at `frame_axes_path`, so that a recovery writes the values that the recorder would have
/// written. One line per dataset, with tabs between its fields: the path, and one of
///
///   steps, first value, step         one value per frame, instead of the value that is there
///   plot, first value, step, units   the same, for a dataset that is not there yet; its group gets NXdata's attributes
///   repeat, frames per value         the values that are there, again from the first one, for a scan that goes on
///
/// Knows no HDF5 and performs no I/O. Lines may be hostile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/layout.hpp"
#include "store/store.hpp"

namespace penstock::store {

inline constexpr const char* frame_axes_path = "/entry/penstock/frame_axes";
/// Of all axes with the same rule together: a hostile number of frames takes no more memory.
constexpr std::uint64_t axis_values_max = std::uint64_t{1} << 24;

struct FrameAxis {
  enum class Rule { steps, plot, repeat };
  Rule rule = Rule::steps;
  std::string path;
  double first = 0;  ///< of steps and plot
  double step = 0;
  std::string units = {};              ///< of plot
  std::uint64_t frames_per_value = 1;  ///< of repeat
};

std::string line_of(const FrameAxis& axis);
/// Returns nullopt if the line is not understood.
std::optional<FrameAxis> frame_axis_from(std::string_view line);
/// Returns the axes that a file with these values lists: of plot and of repeat the first one.
std::vector<FrameAxis> frame_axes_in(const std::vector<ValueNode>& values);

/// Returns how many values an axis of steps has, of `axes` in the file: one per frame, at least one, and at most its
/// share of axis_values_max.
std::uint64_t steps_of(std::uint64_t frames, std::size_t axes);
/// Returns first, first + step, …
Value steps(const FrameAxis& axis, std::uint64_t count);
/// Returns the length that the axis needs, if `values` are too few for so many frames.
std::optional<std::uint64_t> repeated_length(const FrameAxis& axis, const ArrayValue& values, std::uint64_t frames);
ArrayValue repeated(const ArrayValue& values, std::uint64_t length);
/// Adds the axis of a plot: a position for each frame, because viewers reject a plot whose axis has another length.
/// Adds nothing if the series has no frames, or more than an axis can have.
void add_plot_axis(const FrameAxis& axis, std::uint64_t frames, std::size_t frame_dimensions, FinalValues& values);

}  // namespace penstock::store
