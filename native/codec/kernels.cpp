#include "codec/kernels.hpp"

#include <array>

namespace penstock::codec {
namespace {

struct Supported {
  std::array<const Kernels*, 4> list{&portable_kernels};
  std::size_t count = 1;

  Supported() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    list[count++] = &sse2_kernels;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
        __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("lzcnt"))
      list[count++] = &avx2_kernels;
    else
      return;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("gfni"))
      list[count++] = &avx512_kernels;
#endif
  }
};

const Supported& supported() {
  static const Supported once;
  return once;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& best = *supported().list[supported().count - 1];
  return best;
}

std::span<const Kernels* const> supported_kernels() { return {supported().list.data(), supported().count}; }

}  // namespace penstock::codec
