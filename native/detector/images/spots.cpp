#include "detector/images/spots.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.hpp"

namespace penstock::detector {
namespace {

constexpr std::uint64_t lattice_purpose = 0x5107;
constexpr std::uint64_t node_purpose = 0x5108;
/// Of the nodes of the lattice an image lights up one in four.
constexpr double lit_share = 0.25;
/// No spot holds more than so many times the average.
constexpr double brightness_max = 60;

struct Lattice {
  double along_row, along_column;    // first basis vector
  double across_row, across_column;  // second basis vector
  double origin_row, origin_column;
};

/// The same cell for all images, turned by a random angle; its origin moves with the image.
Lattice lattice_of(const SimulationSpec& spec, std::uint64_t index) {
  const auto area = static_cast<double>(spec.rows) * static_cast<double>(spec.columns);
  const double cell_area = area * lit_share / static_cast<double>(spec.spots);
  RandomStream shape(key_of({spec.seed, lattice_purpose}));
  // A rational parametrisation of the circle spares the sine and cosine of a library.
  const double t = shape.next_unit();
  const double cosine = (1 - t * t) / (1 + t * t);
  const double sine = 2 * t / (1 + t * t);
  const double stretch = 0.7 + 0.6 * shape.next_unit();
  const double length = std::sqrt(cell_area * stretch);
  const double width = cell_area / length;
  RandomStream place(key_of({spec.seed, lattice_purpose, index + 1}));
  Lattice lattice{};
  lattice.along_row = length * sine;
  lattice.along_column = length * cosine;
  lattice.across_row = width * cosine;
  lattice.across_column = -width * sine;
  lattice.origin_row = spec.beam_row + length * place.next_unit();
  lattice.origin_column = spec.beam_column + length * place.next_unit();
  return lattice;
}

/// The steps k for which place + k * step lies within bounds.
struct Span {
  double least = -1e9;
  double most = 1e9;

  void clip(double place, double step, double low, double high) {
    if (std::fabs(step) < 1e-9) {
      if (place < low || place > high) most = least - 1;
      return;
    }
    const double first = (low - place) / step;
    const double second = (high - place) / step;
    least = std::max(least, std::min(first, second));
    most = std::min(most, std::max(first, second));
  }
};

std::uint64_t number_of(double whole) { return static_cast<std::uint64_t>(static_cast<std::int64_t>(whole)); }

}  // namespace

double falling_exponential(double x) {
  // exp(-x) = exp(x / 256)^-256; the series converges fast for the small argument.
  if (x > 700) return 0;
  const double small = x / 256;
  double sum = 1, term = 1;
  for (int order = 1; order <= 20; ++order) {
    term = term * small / order;
    sum += term;
  }
  for (int doubling = 0; doubling < 8; ++doubling) sum *= sum;
  return 1 / sum;
}

std::vector<Spot> spots_of(const SimulationSpec& spec, std::uint64_t index) {
  std::vector<Spot> spots;
  if (spec.spots == 0 || spec.spot_counts <= 0) return spots;
  const auto lattice = lattice_of(spec, index);
  const double rows = static_cast<double>(spec.rows);
  const double columns = static_cast<double>(spec.columns);
  const double margin = 4 * spec.spot_sigma;
  const double area = lattice.along_column * lattice.across_row - lattice.along_row * lattice.across_column;
  // The steps along the first basis vector that the corners of the frame are away from the origin.
  double h_least = std::numeric_limits<double>::infinity();
  double h_most = -h_least;
  for (const double row : {-margin, rows + margin})
    for (const double column : {-margin, columns + margin}) {
      const double down = row - lattice.origin_row;
      const double right = column - lattice.origin_column;
      const double h = (right * lattice.across_row - down * lattice.across_column) / area;
      h_least = std::min(h_least, h);
      h_most = std::max(h_most, h);
    }
  for (double h = std::floor(h_least); h <= std::ceil(h_most); h += 1) {
    const double row = lattice.origin_row + h * lattice.along_row;
    const double column = lattice.origin_column + h * lattice.along_column;
    Span steps;
    steps.clip(row, lattice.across_row, -margin, rows + margin);
    steps.clip(column, lattice.across_column, -margin, columns + margin);
    for (double k = std::ceil(steps.least); k <= steps.most; k += 1) {
      const Spot spot{row + k * lattice.across_row, column + k * lattice.across_column, 0};
      RandomStream node(key_of({spec.seed, node_purpose, index, number_of(h), number_of(k)}));
      if (node.next_unit() >= lit_share) continue;
      // Few bright ones and many faint ones: 1 / sqrt(u) has the mean 2 and a long tail.
      const double brightness = std::min(brightness_max, 0.5 / std::sqrt(node.next_unit()));
      spots.push_back({spot.row, spot.column, spec.spot_counts * brightness});
    }
  }
  return spots;
}

}  // namespace penstock::detector
