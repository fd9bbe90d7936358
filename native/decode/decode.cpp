#include "decode/decode.h"

#include "codec/codec.hpp"

extern "C" __attribute__((visibility("default"))) int penstock_decode_chunk(const char* encoding, const void* chunk,
                                                                            size_t chunk_bytes, size_t element_bytes,
                                                                            void* pixels, size_t pixels_bytes) {
  if (encoding == nullptr) return 2;
  const auto known = penstock::encoding_of(encoding);
  if (!known || *known == penstock::Encoding::none) return 2;
  thread_local penstock::CodecScratch scratch;
  const penstock::Bytes from(static_cast<const std::byte*>(chunk), chunk_bytes);
  const penstock::MutableBytes into(static_cast<std::byte*>(pixels), pixels_bytes);
  return penstock::decode(*known, from, element_bytes, into, scratch).ok() ? 0 : 1;
}
