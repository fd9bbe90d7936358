/// System calls of one kind whose outcome the test decides: the kernel stops the caller and asks, through seccomp.
///
/// Everything else is the real thing: the file, its file system, and the calls that the test lets pass.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

namespace penstock::testing {

/// What the call returns, a negative errno for an error; nothing: the kernel goes on with it.
using Answer = std::optional<std::int64_t>;

/// The first piece of a call whose second argument is an array of them. The kernel copies it: that the caller wrote it
/// before it was stopped is known to the kernel, and not to a thread sanitizer.
inline iovec first_piece(const seccomp_data& call) {
  iovec piece{};
  const iovec into{&piece, sizeof piece};
  const iovec from{reinterpret_cast<void*>(call.args[1]), sizeof piece};
  (void)::process_vm_readv(::getpid(), &into, 1, &from, 1, 0);
  return piece;
}

/// A filter stays with its thread and those that this one makes. A descriptor by which the kernel asks; −1 where this
/// machine, or its container, does not allow that.
inline int ask_about(int number) {
  sock_filter rules[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<std::uint32_t>(number)},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_USER_NOTIF},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog filter{sizeof rules / sizeof rules[0], rules};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter));
}

inline void answer_one(int asking, const std::function<Answer(const seccomp_data&)>& answer) {
  seccomp_notif question{};
  if (::ioctl(asking, SECCOMP_IOCTL_NOTIF_RECV, &question) != 0) return;
  const auto decided = answer(question.data);
  seccomp_notif_resp reply{};
  reply.id = question.id;
  if (!decided)
    reply.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  else if (*decided < 0)
    reply.error = static_cast<std::int32_t>(*decided);
  else
    reply.val = *decided;
  (void)::ioctl(asking, SECCOMP_IOCTL_NOTIF_SEND, &reply);
}

/// Does `work` on a thread of its own, whose calls of this number `answer` decides, on the caller's thread. False, and
/// nothing was done, where calls cannot be decided here.
inline bool with_answers(int number, const std::function<Answer(const seccomp_data&)>& answer,
                         const std::function<void()>& work) {
  std::atomic<int> asking{-2};
  std::atomic<bool> done{false};
  std::thread worker([&] {
    asking = ask_about(number);
    if (asking >= 0) work();
    done = true;
  });
  while (asking == -2) std::this_thread::yield();
  const int descriptor = asking;
  while (!done) {
    pollfd asked{descriptor, POLLIN, 0};
    if (descriptor >= 0 && ::poll(&asked, 1, 20) > 0 && (asked.revents & POLLIN) != 0) answer_one(descriptor, answer);
  }
  worker.join();
  if (descriptor >= 0) ::close(descriptor);
  return descriptor >= 0;
}

}  // namespace penstock::testing
