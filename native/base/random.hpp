/// Random numbers that are the same on every machine: a counter in, well-mixed bits out.
///
/// The generator is a 64-bit counter passed through a bijective mixer (the finaliser of
/// "splitmix64"). Any number of a stream is reached without making those before it, so frames,
/// rows and pixels can be made in any order and by any thread.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace penstock {

/// Odd and without pattern: the golden ratio in 64 bits. Streams step by it.
constexpr std::uint64_t stream_step = 0x9E3779B97F4A7C15;

constexpr std::uint64_t mix(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  return bits ^ (bits >> 31);
}

/// A key for one purpose, out of the numbers that name it (seed, purpose, frame …).
constexpr std::uint64_t key_of(std::initializer_list<std::uint64_t> names) {
  std::uint64_t key = 0;
  for (const auto part : names) key = mix(key + stream_step) ^ mix(part + 2 * stream_step);
  return mix(key);
}

/// Number `index` of the stream `key`: 64 uniform bits.
constexpr std::uint64_t random_at(std::uint64_t key, std::uint64_t index) {
  return mix(key + (index + 1) * stream_step);
}

/// Numbers one after another.
class RandomStream {
 public:
  explicit constexpr RandomStream(std::uint64_t key) : key_(key) {}
  constexpr std::uint64_t next() { return random_at(key_, index_++); }
  constexpr std::uint32_t next32() { return static_cast<std::uint32_t>(next() >> 32); }
  /// Uniform in (0, 1): 32 bits and half a step, which a double holds exactly.
  constexpr double next_unit() { return (static_cast<double>(next32()) + 0.5) / 4294967296.0; }
  /// In [0, bound) for a bound up to 2^32; uniform but for a bias of at most bound / 2^32.
  constexpr std::uint64_t next_below(std::uint64_t bound) { return (next32() * bound) >> 32; }

 private:
  std::uint64_t key_;
  std::uint64_t index_ = 0;
};

}  // namespace penstock
