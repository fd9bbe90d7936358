/// Durations counted in a few fixed buckets, from many threads, without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace penstock {

class TimeHistogram {
 public:
  /// Upper ends of the buckets, in nanoseconds; what takes longer goes into one more.
  static constexpr std::array<std::int64_t, 14> bounds_ns = {
      30'000,      100'000,     300'000,       1'000'000,     3'000'000,      10'000'000,     30'000'000,
      100'000'000, 300'000'000, 1'000'000'000, 3'000'000'000, 10'000'000'000, 30'000'000'000, 100'000'000'000};

  struct Values {
    std::array<std::uint64_t, bounds_ns.size() + 1> counts{};
    std::int64_t sum_ns = 0;

    void add(const Values& other) {
      for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
      sum_ns += other.sum_ns;
    }
    std::uint64_t count() const {
      std::uint64_t all = 0;
      for (const auto in_bucket : counts) all += in_bucket;
      return all;
    }
  };

  void add(std::int64_t ns) {
    std::size_t bucket = 0;
    while (bucket < bounds_ns.size() && ns > bounds_ns[bucket]) ++bucket;
    counts_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_ns_.fetch_add(ns, std::memory_order_relaxed);
  }

  /// Not one moment's where others add meanwhile.
  Values values() const {
    Values now;
    for (std::size_t i = 0; i < now.counts.size(); ++i) now.counts[i] = counts_[i].load(std::memory_order_relaxed);
    now.sum_ns = sum_ns_.load(std::memory_order_relaxed);
    return now;
  }

 private:
  std::array<std::atomic<std::uint64_t>, bounds_ns.size() + 1> counts_{};
  std::atomic<std::int64_t> sum_ns_{0};
};

}  // namespace penstock
