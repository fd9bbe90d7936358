#include "detector/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/invariant.hpp"
#include "base/random.hpp"
#include "detector/images/poisson.hpp"
#include "detector/images/spots.hpp"

namespace penstock::detector {
namespace {

constexpr std::uint64_t background_purpose = 0xBAC6;
constexpr std::uint64_t spot_purpose = 0x5109;
constexpr std::uint64_t hot_purpose = 0x4075;
constexpr std::uint64_t hot_count_purpose = 0x4076;
constexpr std::uint64_t dead_purpose = 0xDEAD;

// What a pixel is, in the level map: one of the background's steps of brightness, or none.
constexpr unsigned levels_max = 128;
constexpr std::uint8_t hot_level = 253;
constexpr std::uint8_t dead_level = 254;
constexpr std::uint8_t gap_level = 255;
constexpr std::size_t level_count = 256;

struct HotPixel {
  std::uint64_t pixel = 0;
  double mean = 0;
};

/// An alias table within the table of all levels.
struct LevelTable {
  std::uint32_t first = 0;  // slot
  std::uint32_t slot_shift = 32;
  std::uint32_t rest_mask = 0;
};

double radius_of(const SimulationSpec& spec, std::uint64_t row, std::uint64_t column) {
  const double down = static_cast<double>(row) + 0.5 - spec.beam_row;
  const double right = static_cast<double>(column) + 0.5 - spec.beam_column;
  return std::sqrt(down * down + right * right);
}

/// The background at a distance from the beam, as a share of that at the beam; without logarithms
/// and exponentials, whose last bits differ between libraries.
double profile(const SimulationSpec& spec, double radius) {
  const double far = radius / spec.background_radius;
  const double fall = spec.background_floor + (1 - spec.background_floor) / (1 + far * far);
  const double aside = (radius - spec.ring_radius) / spec.ring_width;
  const double rest = 1 - aside * aside;
  return fall + (rest > 0 ? spec.ring_strength * rest * rest : 0);
}

}  // namespace

struct Simulation::Scene {
  SimulationSpec spec;
  std::vector<std::uint8_t> level;  // of each pixel
  std::vector<AliasSlot> slots;     // of all levels
  LevelTable tables[level_count];
  std::vector<HotPixel> hot;
  PoissonSampler sampler;

  explicit Scene(const SimulationSpec& from) : spec(from) {
    for (auto& table : tables) table = append(AliasTable::constant(0));
    tables[gap_level] = append(AliasTable::constant(static_cast<std::uint32_t>(spec.gap_value)));
    level.resize(spec.rows * spec.columns);
    mark_gaps();
    lay_background();
    place_defects();
  }

  std::uint32_t cap() const { return static_cast<std::uint32_t>(spec.saturation_value); }

  LevelTable append(const AliasTable& table) {
    const auto first = static_cast<std::uint32_t>(slots.size());
    slots.insert(slots.end(), table.slots().begin(), table.slots().end());
    return {first, table.slot_shift(), table.rest_mask()};
  }

  void mark_gaps() {
    for (const auto& gap : spec.gaps)
      for (auto row = gap.row; row < gap.row + gap.rows; ++row)
        std::fill_n(level.begin() + static_cast<std::ptrdiff_t>(row * spec.columns + gap.column), gap.columns,
                    gap_level);
  }

  /// Calls with the pixel and its distance from the beam in whole pixels.
  template <typename Call>
  void for_each_counting(Call call) const {
    for (std::uint64_t row = 0; row < spec.rows; ++row)
      for (std::uint64_t column = 0; column < spec.columns; ++column)
        if (const auto pixel = row * spec.columns + column; level[pixel] != gap_level)
          call(pixel, static_cast<std::size_t>(radius_of(spec, row, column)));
  }

  void lay_background() {
    std::vector<std::uint64_t> pixels_at;  // by radius
    for_each_counting([&](std::uint64_t, std::size_t radius) {
      if (radius >= pixels_at.size()) pixels_at.resize(radius + 1, 0);
      ++pixels_at[radius];
    });
    double sum = 0, low = 0, high = 0;
    std::uint64_t pixels = 0;
    for (std::size_t radius = 0; radius < pixels_at.size(); ++radius) {
      if (pixels_at[radius] == 0) continue;
      const double share = profile(spec, static_cast<double>(radius));
      sum += share * static_cast<double>(pixels_at[radius]);
      low = pixels == 0 ? share : std::min(low, share);
      high = std::max(high, share);
      pixels += pixels_at[radius];
    }
    if (pixels == 0 || !(sum > 0)) return;
    const double scale = spec.background_mean * static_cast<double>(pixels) / sum;
    const auto shares = make_levels(std::max(low, high * 1e-6), high, scale);
    std::vector<std::uint8_t> level_at(pixels_at.size());
    for (std::size_t radius = 0; radius < level_at.size(); ++radius) {
      const auto above = std::upper_bound(shares.begin(), shares.end(), profile(spec, static_cast<double>(radius)));
      level_at[radius] = static_cast<std::uint8_t>(above == shares.begin() ? 0 : above - shares.begin() - 1);
    }
    auto& map = level;
    for_each_counting([&](std::uint64_t pixel, std::size_t radius) { map[pixel] = level_at[radius]; });
  }

  /// Steps of equal ratio from `low` to `high`, each with its table; the lower bounds, rising.
  std::vector<double> make_levels(double low, double high, double scale) {
    double ratio = high / low;
    for (unsigned levels = levels_max; levels > 1; levels /= 2) ratio = std::sqrt(ratio);
    const double half_step = std::sqrt(ratio);
    std::vector<double> bounds;
    for (double bound = low; bounds.size() < levels_max; bound *= ratio) {
      tables[bounds.size()] = append(AliasTable(poisson_weights(bound * half_step * scale), cap()));
      bounds.push_back(bound);
      if (!(ratio > 1)) break;
    }
    return bounds;
  }

  void place_defects() {
    const auto pixels = level.size();
    RandomStream dead(key_of({spec.seed, dead_purpose}));
    for (std::uint64_t n = 0; n < spec.dead_pixels; ++n)
      if (auto& each = level[dead.next_below(pixels)]; each != gap_level) each = dead_level;
    RandomStream bright(key_of({spec.seed, hot_purpose}));
    for (std::uint64_t n = 0; n < spec.hot_pixels; ++n) {
      const auto pixel = bright.next_below(pixels);
      const double mean = 50 / bright.next_unit();
      if (level[pixel] >= hot_level) continue;
      level[pixel] = hot_level;
      hot.push_back({pixel, std::min(mean, PoissonSampler::mean_max)});
    }
  }

  template <typename T>
  void draw_background(std::uint64_t image, T* pixels) const {
    const auto key = key_of({spec.seed, background_purpose, image});
    const auto count = level.size();
    const auto* const map = level.data();
    const auto draw = [this, map](std::size_t pixel, std::uint32_t bits) {
      const auto& table = tables[map[pixel]];
      const auto& slot = slots[table.first + (static_cast<std::uint64_t>(bits) >> table.slot_shift)];
      return static_cast<T>((bits & table.rest_mask) < slot.limit ? slot.below : slot.above);
    };
    std::size_t pixel = 0;
    for (; pixel + 1 < count; pixel += 2) {
      const auto bits = random_at(key, pixel / 2);
      pixels[pixel] = draw(pixel, static_cast<std::uint32_t>(bits));
      pixels[pixel + 1] = draw(pixel + 1, static_cast<std::uint32_t>(bits >> 32));
    }
    if (pixel < count) pixels[pixel] = draw(pixel, static_cast<std::uint32_t>(random_at(key, pixel / 2)));
  }

  template <typename T>
  void add_spots(std::uint64_t image, T* pixels) const {
    RandomStream stream(key_of({spec.seed, spot_purpose, image}));
    const double reach = 3.5 * spec.spot_sigma;
    const auto norm = 1 / (2 * 3.14159265358979323846 * spec.spot_sigma * spec.spot_sigma);
    const auto clip = [](double at, std::uint64_t size) {
      return static_cast<std::uint64_t>(std::clamp(at, 0.0, static_cast<double>(size)));
    };
    for (const auto& spot : spots_of(spec, image))
      for (auto row = clip(spot.row - reach, spec.rows); row < clip(spot.row + reach + 1, spec.rows); ++row)
        for (auto column = clip(spot.column - reach, spec.columns);
             column < clip(spot.column + reach + 1, spec.columns); ++column) {
          const auto pixel = row * spec.columns + column;
          if (level[pixel] >= hot_level) continue;
          const double down = static_cast<double>(row) + 0.5 - spot.row;
          const double right = static_cast<double>(column) + 0.5 - spot.column;
          const double steps = (down * down + right * right) / (2 * spec.spot_sigma * spec.spot_sigma);
          const auto more = sampler.draw(spot.counts * norm * falling_exponential(steps), stream);
          pixels[pixel] = static_cast<T>(std::min<std::uint64_t>(std::uint64_t{more} + pixels[pixel], cap()));
        }
  }

  template <typename T>
  void make(std::uint64_t image, MutableBytes into) const {
    auto* const pixels = reinterpret_cast<T*>(into.data());
    draw_background(image, pixels);
    add_spots(image, pixels);
    for (const auto& each : hot) {
      RandomStream stream(key_of({spec.seed, hot_count_purpose, image, each.pixel}));
      pixels[each.pixel] = static_cast<T>(std::min(sampler.draw(each.mean, stream), cap()));
    }
  }
};

Simulation::Simulation(const SimulationSpec& spec) : scene_(std::make_unique<const Scene>(spec)) {}
Simulation::~Simulation() = default;
Simulation::Simulation(Simulation&&) noexcept = default;
Simulation& Simulation::operator=(Simulation&&) noexcept = default;

Result<Simulation> Simulation::from_json(std::string_view json) {
  PEN_ASSIGN(const auto spec, SimulationSpec::from_json(json));
  return Simulation(spec);
}

const SimulationSpec& Simulation::spec() const { return scene_->spec; }

void Simulation::make(std::uint64_t number, MutableBytes into) const {
  make_image(number % spec().distinct_frames, into);
  if (spec().stamp) stamp_frame(number, into);
}

void Simulation::make_image(std::uint64_t index, MutableBytes into) const {
  PEN_INVARIANT(into.size() == spec().frame_bytes());
  // Every type takes the low bits of the same 32: a negative gap value survives that.
  switch (size_of(spec().type)) {
    case 1: return scene_->make<std::uint8_t>(index, into);
    case 2: return scene_->make<std::uint16_t>(index, into);
    default: return scene_->make<std::uint32_t>(index, into);
  }
}

void stamp_frame(std::uint64_t number, MutableBytes frame) {
  std::byte stamp[8];
  store_le(stamp, number);
  std::copy_n(stamp, std::min(frame.size(), sizeof stamp), frame.begin());
}

}  // namespace penstock::detector
