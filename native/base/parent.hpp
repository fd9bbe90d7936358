/// A program that another one started does not outlive it.
#pragma once

#include <sys/types.h>

namespace penstock {

/// Asks the kernel to send `signal` when the thread that started this process ends, as prctl(2) has it. False
/// where `parent` is gone already: nobody waits for this process any more. Call it before other work.
bool end_with_parent(pid_t parent, int signal);

/// Takes end_with_parent() back: what is under way is finished, whether or not the parent is still there.
void outlive_parent();

}  // namespace penstock
