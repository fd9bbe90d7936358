/// What a simulated detector sees, as numbers: all that it takes to make the same frames again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/archive.hpp"
#include "base/result.hpp"
#include "frame/array.hpp"

namespace penstock::detector {

/// Pixels [row, row + rows) × [column, column + columns) that are not sensor pixels: between modules.
struct Gap {
  std::uint64_t row = 0;
  std::uint64_t column = 0;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  bool operator==(const Gap&) const = default;
};

/// Lengths in pixels, counts in photons a pixel and frame. detectors/README.md has the defaults.
struct SimulationSpec {
  ElementType type = ElementType::u16;  ///< u8, u16, u32, i16 or i32
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::vector<Gap> gaps;
  std::int64_t gap_value = 0;         ///< by default the largest of an unsigned type, -1 of a signed one
  std::int64_t saturation_value = 0;  ///< no count is higher; by default the largest, less one where unsigned

  std::uint64_t seed = 1;
  std::uint64_t distinct_frames = 16;  ///< frame n shows image n mod distinct_frames
  bool stamp = false;                  ///< the frame number stands in the first 8 bytes, little-endian

  double beam_row = 0;  ///< by default the centre
  double beam_column = 0;
  double background_mean = 3;     ///< counts a pixel, averaged over the frame's area without gaps
  double background_radius = 0;   ///< where it has fallen to half; 0.2 of the diagonal by default
  double background_floor = 0.1;  ///< what is left of it far out, as a share of the centre's
  double ring_radius = 0;         ///< of the ice or solvent ring
  double ring_width = 0;
  double ring_strength = 0.25;  ///< height over the background at the beam, as a share of the latter
  std::uint64_t spots = 0;      ///< approximate number of Bragg spots per frame
  double spot_sigma = 1;
  double spot_counts = 500;  ///< photons in a spot, on average
  std::uint64_t hot_pixels = 0;
  std::uint64_t dead_pixels = 0;

  bool operator==(const SimulationSpec&) const = default;

  /// Fields that are absent take their defaults; unknown ones are errors.
  static Result<SimulationSpec> from_json(std::string_view json);
  /// With every field, so that from_json gives the same again.
  std::string to_json() const;

  ArraySpec frame() const { return {type, {rows, columns}}; }
  std::uint64_t frame_bytes() const { return rows * columns * size_of(type); }
};

constexpr auto distinct_frames_limits = between(1, 1'000'000);

/// Rows, columns, type, gaps and the values of pixels. Of images that are replayed (`any_type`) the type may be one
/// that no detector counts in, which goes to `type`; the values of pixels do not matter then.
void shape_fields(Archive& archive, SimulationSpec& spec, ElementType& type, bool any_type);
/// What is seen; its defaults depend on the shape.
void scene_fields(Archive& archive, SimulationSpec& spec);
void beam_field(Archive& archive, SimulationSpec& spec);

/// The least and the largest value of a type that a detector counts in; false for another type.
bool counting_range(ElementType type, std::int64_t& least, std::int64_t& largest);

}  // namespace penstock::detector
