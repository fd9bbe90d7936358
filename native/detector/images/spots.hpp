/// Bragg spots: the nodes of a lattice that an image lights up.
#pragma once

#include <cstdint>
#include <vector>

#include "detector/simulation_spec.hpp"

namespace penstock::detector {

struct Spot {
  double row = 0;
  double column = 0;
  double counts = 0;  ///< photons expected in all of it
};

/// The spots of image `index`: about spec.spots of them, some of them beyond the edges by a little.
std::vector<Spot> spots_of(const SimulationSpec& spec, std::uint64_t index);

/// exp(-x) for x ≥ 0 from additions, multiplications and divisions only: no library decides its last bit.
double falling_exponential(double x);

}  // namespace penstock::detector
