#include "base/invariant.hpp"

#include <cstdio>
#include <cstdlib>

namespace penstock {

void invariant_broken(const char* condition, const char* file, int line) noexcept {
  std::fprintf(
      stderr, "internal error: %s:%d: the invariant %s is broken; the process ends, so that nothing wrong is written\n",
      file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace penstock
