#include "codec/kernels.hpp"

#if defined(__x86_64__)

#include "codec/transpose_avx512.hpp"

namespace penstock::codec {
namespace {

void transpose(const std::byte* elements, std::byte* planes, std::size_t count, std::size_t element_bytes) {
  std::size_t first = 0;
  switch (element_bytes) {
    case 1: first = transpose_strips<1>(elements, planes, count); break;
    case 2: first = transpose_strips<2>(elements, planes, count); break;
    case 4: first = transpose_strips<4>(elements, planes, count); break;
    case 8: first = transpose_strips<8>(elements, planes, count); break;
    default: break;
  }
  transpose_from(elements, planes, count, element_bytes, first);
}

void untranspose(const std::byte* planes, std::byte* elements, std::size_t count, std::size_t element_bytes) {
  std::size_t first = 0;
  switch (element_bytes) {
    case 1: first = untranspose_strips<1>(planes, elements, count); break;
    case 2: first = untranspose_strips<2>(planes, elements, count); break;
    case 4: first = untranspose_strips<4>(planes, elements, count); break;
    case 8: first = untranspose_strips<8>(planes, elements, count); break;
    default: break;
  }
  untranspose_from(planes, elements, count, element_bytes, first);
}

}  // namespace

const Kernels avx512_kernels{"avx512", transpose, untranspose};

}  // namespace penstock::codec

#endif
