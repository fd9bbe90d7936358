#include "codec/kernels.hpp"

#include <array>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace penstock::codec {
namespace {

#if defined(__x86_64__)
/// What __builtin_cpu_supports() of older compilers has no name for.
bool has_lzcnt() {
  constexpr unsigned extended_features = 0x80000001u;
  constexpr unsigned lzcnt_bit = 1u << 5;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(extended_features, &eax, &ebx, &ecx, &edx) != 0 && (ecx & lzcnt_bit) != 0;
}
#endif

struct Supported {
  std::array<const Kernels*, 4> list{&portable_kernels};
  std::size_t count = 1;

  Supported() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    list[count++] = &sse2_kernels;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
        __builtin_cpu_supports("popcnt") && has_lzcnt())
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
