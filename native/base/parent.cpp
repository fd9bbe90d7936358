#include "base/parent.hpp"

#include <sys/prctl.h>
#include <unistd.h>

namespace penstock {

bool end_with_parent(pid_t parent, int signal) {
  ::prctl(PR_SET_PDEATHSIG, signal);
  // It may have ended before the kernel was asked.
  return ::getppid() == parent;
}

void outlive_parent() { ::prctl(PR_SET_PDEATHSIG, 0); }

}  // namespace penstock
