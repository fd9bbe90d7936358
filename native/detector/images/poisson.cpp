#include "detector/images/poisson.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace penstock::detector {
namespace {

constexpr std::uint64_t whole = std::uint64_t{1} << 32;

/// Below this share of the most likely count, a count is not worth a slot: 2^-45.
constexpr double negligible = 1.0 / 35184372088832.0;

}  // namespace

CountWeights poisson_weights(double mean) {
  if (!(mean > 0)) return {0, {whole}};
  const auto mode = static_cast<std::uint32_t>(mean);
  // Relative to the mode and by recurrence from there: no exponential function, whose last bit
  // differs between libraries.
  std::vector<double> falling;
  double share = 1.0;
  for (std::uint32_t count = mode; count > 0; --count) {
    share = share * count / mean;
    if (share < negligible) break;
    falling.push_back(share);
  }
  CountWeights result;
  result.first = mode - static_cast<std::uint32_t>(falling.size());
  std::vector<double> shares(falling.rbegin(), falling.rend());
  share = 1.0;
  for (std::uint32_t count = mode; share >= negligible; ++count) {
    shares.push_back(share);
    share = share * mean / (count + 1.0);
  }
  double sum = 0;
  for (const auto each : shares) sum += each;
  std::uint64_t given = 0;
  for (const auto each : shares) {
    result.weights.push_back(static_cast<std::uint64_t>(each / sum * static_cast<double>(whole)));
    given += result.weights.back();
  }
  // Rounding down leaves a few units; the most likely count takes them.
  result.weights[falling.size()] += whole - given;
  return result;
}

AliasTable AliasTable::constant(std::uint32_t value) {
  AliasTable table;
  table.slots_.push_back({0, value, value});
  return table;
}

AliasTable::AliasTable(const CountWeights& counts, std::uint32_t cap) {
  const auto slot_count = std::bit_ceil(counts.weights.size());
  slot_shift_ = 32 - static_cast<unsigned>(std::countr_zero(slot_count));
  const std::uint64_t capacity = std::uint64_t{1} << slot_shift_;
  rest_mask_ = static_cast<std::uint32_t>(capacity - 1);
  slots_.resize(slot_count);

  std::vector<std::uint64_t> left = counts.weights;
  left.resize(slot_count, 0);
  std::vector<std::size_t> poor, rich;
  for (std::size_t slot = 0; slot < slot_count; ++slot) (left[slot] < capacity ? poor : rich).push_back(slot);
  const auto value_of = [&](std::size_t slot) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(counts.first + slot, cap));
  };
  // A slot with less than its capacity is topped up from one with more. The sums are exact, so that
  // nothing is left over at the end.
  while (!poor.empty() && !rich.empty()) {
    const auto needy = poor.back();
    const auto giver = rich.back();
    poor.pop_back();
    slots_[needy] = {static_cast<std::uint32_t>(left[needy]), value_of(needy), value_of(giver)};
    left[giver] -= capacity - left[needy];
    if (left[giver] < capacity) {
      rich.pop_back();
      poor.push_back(giver);
    }
  }
  for (const auto full : rich) slots_[full] = {0, value_of(full), value_of(full)};
}

PoissonSampler::PoissonSampler() {
  constexpr std::uint32_t no_cap = 0xFFFFFFFF;
  for (int power = -4; power <= 20; ++power) tables_.emplace_back(poisson_weights(std::ldexp(1.0, power)), no_cap);
}

}  // namespace penstock::detector
