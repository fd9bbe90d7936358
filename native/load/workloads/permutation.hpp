/// The numbers below a bound in another order, each once, without a list of them.
#pragma once

#include <bit>
#include <cstdint>

#include "base/random.hpp"

namespace penstock::load {

/// A Feistel network over the next even power of two, walked until it meets a number below the bound: at most four
/// steps on average. Another key gives another order.
class Permutation {
 public:
  Permutation(std::uint64_t bound, std::uint64_t key)
      : bound_(bound),
        half_bits_(static_cast<int>(std::bit_width(bound - 1) + 1) / 2),
        mask_((std::uint64_t{1} << half_bits_) - 1),
        key_(key) {}

  /// `number` is below the bound, which is at most 2^62.
  std::uint64_t at(std::uint64_t number) const {
    do number = once(number);
    while (number >= bound_);
    return number;
  }

 private:
  std::uint64_t once(std::uint64_t number) const {
    std::uint64_t left = number >> half_bits_, right = number & mask_;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const auto next = left ^ (random_at(key_, (round << 32) ^ right) & mask_);
      left = right;
      right = next;
    }
    return (left << half_bits_) | right;
  }

  std::uint64_t bound_;
  int half_bits_;
  std::uint64_t mask_;
  std::uint64_t key_;
};

}  // namespace penstock::load
