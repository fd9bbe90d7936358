#include "codec/kernels.hpp"

#include <gtest/gtest.h>

#include "content.hpp"

namespace penstock::codec {
namespace {

using test::Content;
using test::make_content;

/// Bit by bit, as the format describes it.
std::vector<std::byte> transposed_slowly(const std::vector<std::byte>& elements, std::size_t element_bytes) {
  const std::size_t count = elements.size() / element_bytes;
  std::vector<std::byte> planes(elements.size());
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t b = 0; b < element_bytes; ++b)
      for (std::size_t k = 0; k < 8; ++k)
        if ((elements[i * element_bytes + b] & (std::byte{1} << k)) != std::byte{0})
          planes[(8 * b + k) * (count / 8) + i / 8] |= std::byte{1} << (i % 8);
  return planes;
}

TEST(Kernels, IncludePortableAndBest) {
  const auto supported = supported_kernels();
  ASSERT_FALSE(supported.empty());
  EXPECT_STREQ(supported.front()->name, "portable");
  EXPECT_EQ(supported.back(), &kernels());
}

TEST(Kernels, TransposeAsTheFormatSays) {
  for (const Kernels* kernel : supported_kernels()) {
    for (const std::size_t element_bytes : {1u, 2u, 4u, 8u}) {
      for (const std::size_t count : {8u, 16u, 24u, 120u, 128u, 256u, 264u, 504u, 512u, 520u, 1024u, 1536u, 4096u}) {
        SCOPED_TRACE(testing::Message() << kernel->name << ", " << count << " elements of " << element_bytes);
        const auto elements = make_content(Content::random, count, element_bytes, count);
        // One byte more on each end, at odd addresses, to see writes beyond.
        std::vector<std::byte> planes(elements.size() + 2, std::byte{0x5a});
        kernel->transpose(elements.data(), planes.data() + 1, count, element_bytes);
        EXPECT_EQ(planes.front(), std::byte{0x5a});
        EXPECT_EQ(planes.back(), std::byte{0x5a});
        EXPECT_EQ(std::vector(planes.begin() + 1, planes.end() - 1), transposed_slowly(elements, element_bytes));

        std::vector<std::byte> back(elements.size() + 2, std::byte{0x5a});
        kernel->untranspose(planes.data() + 1, back.data() + 1, count, element_bytes);
        EXPECT_EQ(back.front(), std::byte{0x5a});
        EXPECT_EQ(back.back(), std::byte{0x5a});
        EXPECT_EQ(std::vector(back.begin() + 1, back.end() - 1), elements);
      }
    }
  }
}

}  // namespace
}  // namespace penstock::codec
