#include "codec/kernels.hpp"
#include "codec/lz4_decoder.hpp"
#include "codec/lz4_encoder.hpp"
#include "codec/lz4_words.hpp"
#include "codec/transpose_portable.hpp"

namespace penstock::codec {
namespace {

void transpose(const std::byte* elements, std::byte* planes, std::size_t count, std::size_t element_bytes) {
  transpose_from(elements, planes, count, element_bytes, 0);
}

void untranspose(const std::byte* planes, std::byte* elements, std::size_t count, std::size_t element_bytes) {
  untranspose_from(planes, elements, count, element_bytes, 0);
}

}  // namespace

const Kernels portable_kernels{"portable", transpose, untranspose, lz4_encode_with<Words>, lz4_decode_with<Words>};

}  // namespace penstock::codec
