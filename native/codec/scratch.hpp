/// What one thread of the codec keeps between calls.
#pragma once

#include <libdeflate.h>
#include <zstd.h>

#include <cstdint>
#include <memory>
#include <new>

#include "codec/codec.hpp"
#include "codec/kernels.hpp"

namespace penstock {

/// Grows to the largest request and stays there; cache-line aligned, contents are rubbish.
class ScratchMemory {
 public:
  /// Null if memory is exhausted.
  std::byte* at_least(std::size_t bytes) {
    if (bytes > size_) {
      memory_.reset(static_cast<std::byte*>(::operator new[](bytes, alignment, std::nothrow)));
      size_ = memory_ ? bytes : 0;
    }
    return memory_.get();
  }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, alignment); }
  };
  std::unique_ptr<std::byte[], Free> memory_;
  std::size_t size_ = 0;
};

template <auto free>
struct FreeWith {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};

struct CodecScratch::Impl {
  ScratchMemory planes;     ///< a bit-transposed block
  ScratchMemory lz4_state;  ///< of liblz4
  codec::Lz4Table table;
  std::unique_ptr<ZSTD_CCtx, FreeWith<ZSTD_freeCCtx>> zstd_compressor;
  std::unique_ptr<ZSTD_DCtx, FreeWith<ZSTD_freeDCtx>> zstd_decompressor;
  int deflate_level = 0;  ///< of `deflate_compressor`
  std::unique_ptr<libdeflate_compressor, FreeWith<libdeflate_free_compressor>> deflate_compressor;
  std::unique_ptr<libdeflate_decompressor, FreeWith<libdeflate_free_decompressor>> deflate_decompressor;
};

}  // namespace penstock
