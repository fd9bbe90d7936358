#include "recorder/service/memory/kept_memory.hpp"

#include <malloc.h>
#include <unistd.h>

#include <cstdio>

namespace penstock::recorder {
namespace {

constexpr std::int64_t look_ns = 100'000'000;
/// After a look that brought little: the memory is in use.
constexpr std::int64_t long_look_ns = 500'000'000;
constexpr std::uint64_t worthwhile_bytes = 2 << 20;

/// 0 if the system does not tell.
std::uint64_t resident_bytes() {
  auto* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long all = 0, resident = 0;
  const bool read = std::fscanf(file, "%llu %llu", &all, &resident) == 2;
  std::fclose(file);
  return read ? resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

void KeptMemory::tick(std::int64_t now_ns) {
  if (now_ns < next_ns_) return;
  next_ns_ = now_ns + look_ns;
  const auto before = resident_bytes();
  if (before <= bytes_wanted_) return;
  ::malloc_trim(0);
  if (resident_bytes() + worthwhile_bytes > before) next_ns_ = now_ns + long_look_ns;
}

}  // namespace penstock::recorder
