/// Sends after which a thread gets no processor until the other end has answered. In one source of a program.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace penstock::testing {

inline thread_local short awaited_event = 0;

/// On this thread, while it lives. `event`: POLLIN for an answer, POLLRDHUP for the end of the connection.
class SlowSends {
 public:
  explicit SlowSends(short event) { awaited_event = event; }
  ~SlowSends() { awaited_event = 0; }
  SlowSends(const SlowSends&) = delete;
  SlowSends& operator=(const SlowSends&) = delete;
};

}  // namespace penstock::testing

/// In place of the C library's.
extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  const auto sent = ::syscall(SYS_sendmsg, socket, message, flags);
  pollfd answer{socket, penstock::testing::awaited_event, 0};
  if (answer.events != 0) ::poll(&answer, 1, 60'000);
  return sent;
}
