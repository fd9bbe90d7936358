#ifdef _WIN32
#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0602
#endif
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <winsock2.h>
#include <ws2tcpip.h>
#else
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE
#define _DARWIN_C_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#endif

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "client/net.h"

enum { PIECES_MAX = 16, SEND_BUFFER_BYTES = 1 << 20 };

static int bounded_ms(int64_t milliseconds) {
  if (milliseconds < 0) return 0;
  return milliseconds > 3600000 ? 3600000 : (int)milliseconds;
}

#ifdef _WIN32

int pst_net_begin(void) {
  WSADATA data;
  return WSAStartup(MAKEWORD(2, 2), &data);
}

void pst_net_end(void) { (void)WSACleanup(); }

static void say_error(char* why, size_t why_bytes, int error) {
  (void)snprintf(why, why_bytes, "Winsock error %d", error);
}
static int last_error(void) { return WSAGetLastError(); }
static int is_pending(int error) { return error == WSAEWOULDBLOCK || error == WSAEINPROGRESS; }
static int is_interrupted(int error) { return error == WSAEINTR; }
static int make_nonblocking(pst_socket socket) {
  u_long on = 1;
  return ioctlsocket((SOCKET)socket, FIONBIO, &on);
}
void pst_net_close(pst_socket socket) { (void)closesocket((SOCKET)socket); }

int pst_net_wait(pst_socket socket, int wanted, int64_t timeout_ms) {
  /* A set of Winsock is a list of sockets: their numbers have no bound. */
  fd_set reading, writing, failing;
  struct timeval limit;
  int found = 0;
  FD_ZERO(&reading);
  FD_ZERO(&writing);
  FD_ZERO(&failing);
  if (wanted & PST_READABLE) FD_SET((SOCKET)socket, &reading);
  if (wanted & PST_WRITABLE) FD_SET((SOCKET)socket, &writing);
  FD_SET((SOCKET)socket, &failing);
  limit.tv_sec = bounded_ms(timeout_ms) / 1000;
  limit.tv_usec = bounded_ms(timeout_ms) % 1000 * 1000;
  if (select(0, &reading, &writing, &failing, &limit) <= 0) return 0;
  if (FD_ISSET((SOCKET)socket, &reading) || FD_ISSET((SOCKET)socket, &failing)) found |= PST_READABLE;
  if (FD_ISSET((SOCKET)socket, &writing)) found |= PST_WRITABLE;
  return found;
}

int64_t pst_net_send(pst_socket socket, const pst_piece* pieces, size_t count) {
  WSABUF buffers[PIECES_MAX];
  DWORD sent = 0;
  size_t i;
  if (count > PIECES_MAX) count = PIECES_MAX;
  for (i = 0; i < count; ++i) {
    buffers[i].buf = (char*)(uintptr_t)pieces[i].data;
    buffers[i].len = pieces[i].bytes > (1u << 30) ? (1u << 30) : (ULONG)pieces[i].bytes;
    if (buffers[i].len < pieces[i].bytes) count = i + 1; /* the rest comes later */
  }
  if (WSASend((SOCKET)socket, buffers, (DWORD)count, &sent, 0, NULL, NULL) == 0) return (int64_t)sent;
  return is_pending(last_error()) || is_interrupted(last_error()) ? 0 : -1;
}

static int64_t receive_now(pst_socket socket, void* into, size_t bytes) {
  return recv((SOCKET)socket, (char*)into, bytes > INT_MAX ? INT_MAX : (int)bytes, 0);
}

int64_t pst_now_ms(void) { return (int64_t)GetTickCount64(); }

int64_t pst_realtime_ns(void) {
  FILETIME time;
  ULARGE_INTEGER ticks;
  GetSystemTimeAsFileTime(&time);
  ticks.LowPart = time.dwLowDateTime;
  ticks.HighPart = time.dwHighDateTime;
  /* Ticks of 100 ns since 1601. */
  return ((int64_t)ticks.QuadPart - INT64_C(116444736000000000)) * 100;
}

void pst_sleep_ms(int64_t milliseconds) { Sleep((DWORD)bounded_ms(milliseconds)); }
uint64_t pst_process_id(void) { return GetCurrentProcessId(); }

#else

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

int pst_net_begin(void) { return 0; }
void pst_net_end(void) {}

static void say_error(char* why, size_t why_bytes, int error) {
  (void)snprintf(why, why_bytes, "%s", error == ECONNREFUSED ? "connection refused" : strerror(error));
}
static int last_error(void) { return errno; }
static int is_pending(int error) { return error == EINPROGRESS || error == EAGAIN || error == EWOULDBLOCK; }
static int is_interrupted(int error) { return error == EINTR; }
static int make_nonblocking(pst_socket socket) {
  (void)fcntl((int)socket, F_SETFD, FD_CLOEXEC);
  return fcntl((int)socket, F_SETFL, O_NONBLOCK);
}
void pst_net_close(pst_socket socket) { (void)close((int)socket); }

int pst_net_wait(pst_socket socket, int wanted, int64_t timeout_ms) {
  struct pollfd one;
  int found = 0;
  one.fd = (int)socket;
  one.events = 0;
  one.revents = 0;
  if (wanted & PST_READABLE) one.events |= POLLIN;
  if (wanted & PST_WRITABLE) one.events |= POLLOUT;
  if (poll(&one, 1, bounded_ms(timeout_ms)) <= 0) return 0;
  if (one.revents & ~POLLOUT) found |= PST_READABLE; /* also of what went wrong: a read tells */
  if (one.revents & POLLOUT) found |= PST_WRITABLE;
  return found;
}

int64_t pst_net_send(pst_socket socket, const pst_piece* pieces, size_t count) {
  struct iovec vectors[PIECES_MAX];
  struct msghdr message;
  ssize_t sent;
  size_t i;
  if (count > PIECES_MAX) count = PIECES_MAX;
  for (i = 0; i < count; ++i) {
    vectors[i].iov_base = (void*)(uintptr_t)pieces[i].data;
    vectors[i].iov_len = pieces[i].bytes;
  }
  memset(&message, 0, sizeof(message));
  message.msg_iov = vectors;
  message.msg_iovlen = count;
  sent = sendmsg((int)socket, &message, MSG_NOSIGNAL);
  if (sent >= 0) return (int64_t)sent;
  return is_pending(last_error()) || is_interrupted(last_error()) ? 0 : -1;
}

static int64_t receive_now(pst_socket socket, void* into, size_t bytes) {
  return (int64_t)recv((int)socket, into, bytes, 0);
}

int64_t pst_now_ms(void) {
  struct timespec time;
  (void)clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

int64_t pst_realtime_ns(void) {
  struct timespec time;
  (void)clock_gettime(CLOCK_REALTIME, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void pst_sleep_ms(int64_t milliseconds) {
  struct timespec time;
  time.tv_sec = bounded_ms(milliseconds) / 1000;
  time.tv_nsec = bounded_ms(milliseconds) % 1000 * 1000000L;
  (void)nanosleep(&time, NULL);
}
uint64_t pst_process_id(void) { return (uint64_t)getpid(); }

#endif

int64_t pst_net_receive(pst_socket socket, void* into, size_t bytes) {
  const int64_t got = receive_now(socket, into, bytes);
  if (got > 0) return got;
  if (got == 0) return -1;
  return is_pending(last_error()) || is_interrupted(last_error()) ? 0 : -1;
}

#ifdef _WIN32
typedef SOCKET pst_handle;
#else
typedef int pst_handle;
#endif

#if defined(TCP_KEEPIDLE) || defined(TCP_KEEPALIVE)
static void keep_alive_after(pst_handle handle, int option, int value) {
  (void)setsockopt(handle, IPPROTO_TCP, option, (const char*)&value, sizeof(value));
}
#endif

static void tune(pst_socket socket) {
  const int on = 1;
  const int buffer_bytes = SEND_BUFFER_BYTES;
  const pst_handle handle = (pst_handle)socket;
  /* A courtesy: everything works without. */
  (void)setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, (const char*)&on, sizeof(on));
  (void)setsockopt(handle, SOL_SOCKET, SO_KEEPALIVE, (const char*)&on, sizeof(on));
  /* A recorder whose machine is gone is noticed within half a minute. */
#ifdef TCP_KEEPIDLE
  keep_alive_after(handle, TCP_KEEPIDLE, 10);
#elif defined(TCP_KEEPALIVE)
  keep_alive_after(handle, TCP_KEEPALIVE, 10);
#endif
#ifdef TCP_KEEPINTVL
  keep_alive_after(handle, TCP_KEEPINTVL, 5);
#endif
#ifdef TCP_KEEPCNT
  keep_alive_after(handle, TCP_KEEPCNT, 4);
#endif
  (void)setsockopt(handle, SOL_SOCKET, SO_SNDBUF, (const char*)&buffer_bytes, sizeof(buffer_bytes));
#ifdef SO_NOSIGPIPE
  (void)setsockopt(handle, SOL_SOCKET, SO_NOSIGPIPE, (const char*)&on, sizeof(on));
#endif
}

/* Until `give_up_ms`, whatever signals come meanwhile; 0 if it was in vain. */
static int wait_until_writable(pst_socket socket, int64_t give_up_ms) {
  int found;
  do {
    found = pst_net_wait(socket, PST_WRITABLE, give_up_ms - pst_now_ms());
  } while (found == 0 && pst_now_ms() < give_up_ms);
  return found;
}

static int connect_socket(pst_socket socket, const struct addrinfo* to, int64_t give_up_ms) {
  int error = 0;
  const pst_handle handle = (pst_handle)socket;
#ifdef _WIN32
  int size = sizeof(error);
#else
  socklen_t size = sizeof(error);
#endif
  if (make_nonblocking(socket) != 0) return last_error();
  if (connect(handle, to->ai_addr, (socklen_t)to->ai_addrlen) == 0) return 0;
  if (!is_pending(last_error())) return last_error();
  if (wait_until_writable(socket, give_up_ms) == 0)
#ifdef _WIN32
    return WSAETIMEDOUT;
#else
    return ETIMEDOUT;
#endif
  if (getsockopt(handle, SOL_SOCKET, SO_ERROR, (char*)&error, &size) != 0) return last_error();
  return error;
}

pst_socket pst_net_connect(const char* host, const char* port, int64_t timeout_ms, char* why, size_t why_bytes) {
  struct addrinfo hints;
  struct addrinfo* found = NULL;
  const struct addrinfo* each;
  const int64_t give_up_ms = pst_now_ms() + timeout_ms;
  int addresses = 0;
  int failed;
  memset(&hints, 0, sizeof(hints));
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  failed = getaddrinfo(host, port, &hints, &found);
  if (failed != 0) {
    (void)snprintf(why, why_bytes, "the name cannot be resolved (error %d)", failed);
    return PST_NO_SOCKET;
  }
  (void)snprintf(why, why_bytes, "it has no address");
  for (each = found; each != NULL; each = each->ai_next) ++addresses;
  for (each = found; each != NULL; each = each->ai_next, --addresses) {
    const int64_t now_ms = pst_now_ms();
    /* One that does not answer leaves time for the others. */
    const int64_t share_ms = give_up_ms > now_ms ? (give_up_ms - now_ms) / addresses : 0;
    const pst_socket one = (pst_socket)socket(each->ai_family, each->ai_socktype, each->ai_protocol);
    int error;
    if (one == PST_NO_SOCKET) {
      say_error(why, why_bytes, last_error());
      continue;
    }
    error = connect_socket(one, each, now_ms + share_ms);
    if (error == 0) {
      freeaddrinfo(found);
      tune(one);
      return one;
    }
    say_error(why, why_bytes, error);
    pst_net_close(one);
  }
  freeaddrinfo(found);
  return PST_NO_SOCKET;
}
