/// Latencies in buckets whose width grows with the value: quantiles to within 3 %.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace penstock::recorder {

/// Nanoseconds from 0 to 2^63. Not synchronised.
class Histogram {
 public:
  void add(std::int64_t ns) {
    const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0));
    ++buckets_[bucket_of(value)];
    ++count_;
    max_ = std::max(max_, value);
  }

  std::uint64_t count() const { return count_; }
  std::uint64_t max_ns() const { return max_; }

  /// The upper end of the bucket that holds the value of rank ceil(q · count), at most the maximum;
  /// 0 without values. `q` from 0 to 1.
  std::uint64_t quantile_ns(double q) const {
    if (count_ == 0) return 0;
    const auto rank =
        std::clamp<std::uint64_t>(static_cast<std::uint64_t>(q * static_cast<double>(count_) + 0.999999), 1, count_);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (seen >= rank) return std::min(upper_end_of(i), max_);
    }
    return max_;
  }

 private:
  // 32 buckets an octave; values below 32 have a bucket each.
  static constexpr int sub_bits = 5;
  static constexpr std::uint64_t sub_count = 1 << sub_bits;

  static std::size_t bucket_of(std::uint64_t value) {
    if (value < sub_count) return value;
    const int octave = static_cast<int>(std::bit_width(value)) - 1 - sub_bits;
    return (octave + 1) * sub_count + ((value >> octave) - sub_count);
  }
  static std::uint64_t upper_end_of(std::size_t bucket) {
    if (bucket < sub_count) return bucket;
    const auto octave = bucket / sub_count - 1;
    return ((bucket % sub_count + sub_count + 1) << octave) - 1;
  }

  std::array<std::uint64_t, (64 - sub_bits + 1) * sub_count> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace penstock::recorder
