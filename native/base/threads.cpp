#include "base/threads.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "base/time/thread_times.hpp"

namespace penstock {
namespace {

constexpr std::size_t words_max = 1024;  // 65536 processors, more than the kernel can be built for

std::array<CpuMask, roles>& table() {
  static std::array<CpuMask, roles> masks;
  return masks;
}

// The kernel's own calls: the library's masks end at 1024 processors. A thread that cannot go there (its cgroup has
// lost the processor meanwhile) stays where it is.
void go_to(const CpuMask& cpus) {
  if (!cpus.empty()) (void)::syscall(SYS_sched_setaffinity, 0, cpus.size() * sizeof(unsigned long), cpus.data());
}

CpuMask here() {
  CpuMask cpus(words_max);
  const auto bytes = ::syscall(SYS_sched_getaffinity, 0, cpus.size() * sizeof(unsigned long), cpus.data());
  cpus.resize(bytes > 0 ? static_cast<std::size_t>(bytes) / sizeof(unsigned long) : 0);
  return cpus;
}

}  // namespace

void set_cpus(Role role, CpuMask cpus) { table()[static_cast<std::size_t>(role)] = std::move(cpus); }

void begin_thread(const char* name, Role role) {
  go_to(table()[static_cast<std::size_t>(role)]);
  pthread_setname_np(pthread_self(), name);  // who sees it sees the final processors, too
  begin_account(name);
}

InRole::InRole(Role role) {
  const auto& cpus = table()[static_cast<std::size_t>(role)];
  if (cpus.empty()) return;
  before_ = here();
  go_to(cpus);
}

InRole::~InRole() { go_to(before_); }

}  // namespace penstock
