/// What a thread is called, and on which processors it runs, by what it does.
#pragma once

#include <vector>

namespace penstock {

enum class Role { receive, compress, write, index, other };
constexpr unsigned roles = 5;

/// Processors as the kernel numbers them, a bit each; empty: wherever the thread that starts it may run.
using CpuMask = std::vector<unsigned long>;

/// For the whole process, before the threads that it concerns begin.
void set_cpus(Role role, CpuMask cpus);

/// The first thing that a thread does. `name` has at most 15 characters. Begins its account of waits
/// (thread_times.hpp).
void begin_thread(const char* name, Role role);

/// In the scope of this object the calling thread is where a role's threads are: so are those that a library starts
/// meanwhile, which inherit it.
class InRole {
 public:
  explicit InRole(Role role);
  ~InRole();
  InRole(const InRole&) = delete;
  InRole& operator=(const InRole&) = delete;

 private:
  CpuMask before_;
};

}  // namespace penstock
