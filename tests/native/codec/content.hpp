/// Pixels for tests: kinds of content that make codecs behave differently.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"

namespace penstock::test {

enum class Content { zeros, ones, random, sparse, gradient, background, masked, repeated };
constexpr Content all_contents[] = {Content::zeros,    Content::ones,       Content::random, Content::sparse,
                                    Content::gradient, Content::background, Content::masked, Content::repeated};

inline std::string_view name(Content content) {
  switch (content) {
    case Content::zeros: return "zeros";
    case Content::ones: return "ones";
    case Content::random: return "random";
    case Content::sparse: return "sparse";
    case Content::gradient: return "gradient";
    case Content::background: return "background";
    case Content::masked: return "masked";
    case Content::repeated: return "repeated";
  }
  return "";
}

/// `count` elements; the same for the same seed.
inline std::vector<std::byte> make_content(Content content, std::size_t count, std::size_t element_bytes,
                                           std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::poisson_distribution<std::uint64_t> counts(content == Content::sparse ? 0.01 : 0.4);
  std::vector<std::byte> bytes(count * element_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t pixel = 0;
    switch (content) {
      case Content::zeros: break;
      case Content::ones: pixel = ~std::uint64_t{0}; break;
      case Content::random: pixel = random(); break;
      case Content::sparse:
      case Content::background: pixel = counts(random); break;
      case Content::gradient: pixel = i; break;
      case Content::masked: pixel = i / 100 % 7 == 3 ? ~std::uint64_t{0} : counts(random); break;
      case Content::repeated: pixel = (i % 37) * 0x0102030405060708u; break;
    }
    std::memcpy(bytes.data() + i * element_bytes, &pixel, element_bytes);
  }
  return bytes;
}

}  // namespace penstock::test
