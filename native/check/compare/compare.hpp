/// Compares pixels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "frame/array.hpp"

namespace penstock::check {

struct PixelDifference {
  std::uint64_t position = 0;  ///< in the runs that were compared
  std::string expected;
  std::string actual;
};

struct PixelDifferences {
  std::uint64_t count = 0;
  std::vector<PixelDifference> first;  ///< at most `pixel_differences_kept`
};

constexpr std::size_t pixel_differences_kept = 4;

/// Compares two runs of `count` pixels. Of types of the same width the bits are compared (a detector
/// that counts in signed numbers may send them as unsigned ones) unless only one is floating; of
/// others the values. NaN equals NaN.
void compare_pixels(ElementType expected_type, const std::byte* expected, ElementType actual_type,
                    const std::byte* actual, std::uint64_t count, std::uint64_t position, PixelDifferences& into);

}  // namespace penstock::check
