/// Frames that look and compress like a diffraction detector's, the same on every machine.
///
/// A frame is a Poisson background that falls off around the beam, a ring, Bragg spots that change
/// from image to image, hot and dead pixels, and gaps between modules. It depends on the
/// specification and the frame number alone. A simulation is constant after it was made: threads
/// may share it.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "detector/simulation_spec.hpp"

namespace penstock::detector {

class Simulation {
 public:
  explicit Simulation(const SimulationSpec& spec);
  ~Simulation();
  Simulation(Simulation&&) noexcept;
  Simulation& operator=(Simulation&&) noexcept;

  /// From the JSON text that a start message carries (user_data, /penstock/simulation).
  static Result<Simulation> from_json(std::string_view json);

  const SimulationSpec& spec() const;

  /// Frame `number` as it is sent, its stamp included. `into` holds spec().frame_bytes() bytes.
  void make(std::uint64_t number, MutableBytes into) const;
  /// Image `index` (below spec().distinct_frames), without a stamp.
  void make_image(std::uint64_t index, MutableBytes into) const;

 private:
  struct Scene;
  std::unique_ptr<const Scene> scene_;
};

/// Writes the frame number into the first 8 bytes, little-endian (into all of a smaller frame).
void stamp_frame(std::uint64_t number, MutableBytes frame);

}  // namespace penstock::detector
