/// Poisson counts out of 32 uniform bits, the same on every machine.
///
/// The probabilities are worked out with additions, multiplications and divisions only (which IEEE
/// 754 defines to the last bit), rounded to multiples of 2^-32 that add up to one, and laid into an
/// alias table of integers. A draw costs one table look-up. Tables are constant after construction
/// and may be shared by threads.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::detector {

/// The counts that a distribution covers, and the probability of each in units of 2^-32.
struct CountWeights {
  std::uint32_t first = 0;
  std::vector<std::uint64_t> weights;  ///< adds up to 2^32
};

/// The Poisson distribution of `mean` (0 … 2^20). Counts whose probability is far below 2^-32 are left out.
CountWeights poisson_weights(double mean);

/// One slot of an alias table: the upper bits of a draw choose the slot, the lower ones decide.
struct AliasSlot {
  std::uint32_t limit = 0;  ///< lower bits below it give `below`, others give `above`
  std::uint32_t below = 0;
  std::uint32_t above = 0;
};

class AliasTable {
 public:
  /// Values beyond `cap` are drawn as `cap`.
  AliasTable(const CountWeights& counts, std::uint32_t cap);
  /// A table that always gives `value`.
  static AliasTable constant(std::uint32_t value);

  std::uint32_t draw(std::uint32_t bits) const {
    const auto& slot = slots_[static_cast<std::uint64_t>(bits) >> slot_shift_];
    return (bits & rest_mask_) < slot.limit ? slot.below : slot.above;
  }

  const std::vector<AliasSlot>& slots() const { return slots_; }
  unsigned slot_shift() const { return slot_shift_; }
  std::uint32_t rest_mask() const { return rest_mask_; }

 private:
  AliasTable() = default;

  std::vector<AliasSlot> slots_;
  unsigned slot_shift_ = 32;
  std::uint32_t rest_mask_ = 0xFFFFFFFF;
};

/// Poisson counts of any mean up to 2^20, in steps of 1/16: the sum of independent draws whose means
/// are powers of two. Slower than one table, and for few pixels only (spots).
class PoissonSampler {
 public:
  PoissonSampler();

  template <typename Stream>
  std::uint32_t draw(double mean, Stream& stream) const {
    if (!(mean > 0)) return 0;
    const auto steps = static_cast<std::uint64_t>((mean < mean_max ? mean : mean_max) * 16.0 + 0.5);
    std::uint32_t count = 0;
    for (std::size_t bit = 0; bit < tables_.size(); ++bit)
      if ((steps >> bit) & 1U) count += tables_[bit].draw(stream.next32());
    return count;
  }

  static constexpr double mean_max = 1 << 20;

 private:
  std::vector<AliasTable> tables_;  // table i has the mean 2^i / 16
};

}  // namespace penstock::detector
