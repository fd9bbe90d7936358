#include "base/net/socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

namespace penstock {
namespace {

/// That nobody has accepted yet: where it is full, newcomers wait for a second and more.
constexpr int connections_waiting_max = 1024;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> resolve(const std::string& host, std::uint16_t port, bool passive) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  // It may answer later, like a host that starts again.
  if (failure == EAI_AGAIN)
    return make_error(Errc::timed_out, "host \"{}\": the name server does not answer; give an address instead", host);
  if (failure != 0)
    return make_error(Errc::not_found, "host \"{}\": {}; give an address or a name that resolves", host,
                      failure == EAI_NONAME ? "the name does not resolve" : "the name cannot be looked up");
  return Addresses(found, &::freeaddrinfo);
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
  if (address->sa_family != AF_INET6) return false;
  const auto& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) return v6.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6);
}

template <typename T>
void set_option(int descriptor, int level, int option, T value) {
  // Best effort: a socket without the option works, more slowly.
  (void)::setsockopt(descriptor, level, option, &value, sizeof value);
}

timeval to_timeval(std::chrono::milliseconds timeout) {
  return {static_cast<time_t>(timeout.count() / 1000), static_cast<suseconds_t>(timeout.count() % 1000 * 1000)};
}

Error connection_error(int errnum, std::string_view what) {
  switch (errnum) {
    case ECONNRESET:
    case EPIPE:
    case ECONNREFUSED:
    case ENOTCONN:
    case ESHUTDOWN:
    case ECONNABORTED:
    // A host that starts again, or a switch: it may be back.
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETRESET:
    case ENETUNREACH:
    case ETIMEDOUT: return Error(Errc::disconnected, errno_error(errnum, what).message());
    default: return errno_error(errnum, what);
  }
}

Result<Socket> connect_one(const addrinfo& address, const std::string& name, std::chrono::milliseconds timeout) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.descriptor() < 0) return errno_error(errno, "socket");
  if (::connect(socket.descriptor(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return connection_error(errno, fmt::format("connect to {}", name));
    pollfd wait{socket.descriptor(), POLLOUT, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(timeout.count()));
    if (ready <= 0) return make_error(Errc::timed_out, "connect to {}: no answer within {} ms", name, timeout.count());
    int failure = 0;
    socklen_t size = sizeof failure;
    (void)::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure != 0) return connection_error(failure, fmt::format("connect to {}", name));
  }
  const int flags = ::fcntl(socket.descriptor(), F_GETFL);
  (void)::fcntl(socket.descriptor(), F_SETFL, flags & ~O_NONBLOCK);
  return socket;
}

Error bind_error(int errnum, const std::string& name) {
  if (errnum == EADDRNOTAVAIL)
    return make_error(Errc::invalid_argument,
                      "listen on {}: this machine does not have the address; give one of its addresses", name);
  if (errnum == EADDRINUSE)
    return make_error(Errc::refused,
                      "listen on {}: the port is in use, perhaps by another program of this kind: stop that one, or "
                      "choose another port",
                      name);
  if (errnum == EACCES)
    return make_error(Errc::permission,
                      "listen on {}: permission denied: ports below 1024 require root; choose another", name);
  return errno_error(errnum, fmt::format("listen on {}", name));
}

Result<Listener> listen_one(const addrinfo& address, const std::string& name, int receive_buffer_bytes) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int descriptor = socket.descriptor();
  if (descriptor < 0) return errno_error(errno, "socket");
  set_option(descriptor, SOL_SOCKET, SO_REUSEADDR, 1);
  // Before listening, so that accepted connections announce a window of that size.
  if (receive_buffer_bytes > 0) set_option(descriptor, SOL_SOCKET, SO_RCVBUF, receive_buffer_bytes);
  if (::bind(descriptor, address.ai_addr, address.ai_addrlen) != 0) return bind_error(errno, name);
  if (::listen(descriptor, connections_waiting_max) != 0) return errno_error(errno, fmt::format("listen on {}", name));
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return errno_error(errno, "getsockname");
  const auto port = bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                                : reinterpret_cast<sockaddr_in*>(&bound)->sin_port;
  return Listener{std::move(socket), ntohs(port)};
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}
Socket::Socket(Socket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), low_water_bytes_(other.low_water_bytes_) {}
Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    low_water_bytes_ = other.low_water_bytes_;
  }
  return *this;
}

Result<std::size_t> Socket::receive(MutableBytes into, bool wait_all) {
  for (;;) {
    const auto got = ::recv(descriptor_, into.data(), into.size(), wait_all ? MSG_WAITALL : 0);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return make_error(Errc::timed_out, "nothing came");
    return connection_error(errno, "receive");
  }
}

void Socket::set_low_water(std::size_t bytes) {
  if (bytes == low_water_bytes_) return;
  set_option(descriptor_, SOL_SOCKET, SO_RCVLOWAT, static_cast<int>(bytes));
  low_water_bytes_ = bytes;
}

Result<std::size_t> Socket::receive_now(MutableBytes into) {
  for (;;) {
    const auto got = ::recv(descriptor_, into.data(), into.size(), MSG_DONTWAIT);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) return make_error(Errc::disconnected, "the peer closed the connection");
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    return connection_error(errno, "receive");
  }
}

Result<std::size_t> Socket::send_some(std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  for (;;) {
    const auto sent = ::sendmsg(descriptor_, &message, MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    return connection_error(errno, "send");
  }
}

Result<void> Socket::send_all(Bytes data) {
  while (!data.empty()) {
    const iovec piece{const_cast<std::byte*>(data.data()), data.size()};
    PEN_ASSIGN(const auto sent, send_some(std::span(&piece, 1)));
    if (sent == 0) return make_error(Errc::timed_out, "the peer does not read what is sent to it");
    data = data.subspan(sent);
  }
  return {};
}

Result<bool> Socket::readable(std::chrono::milliseconds wait) {
  pollfd poll{descriptor_, POLLIN, 0};
  const int ready = ::poll(&poll, 1, static_cast<int>(wait.count()));
  if (ready < 0 && errno != EINTR) return errno_error(errno, "poll");
  return ready > 0;
}

bool Socket::has_ended() const {
  pollfd poll{descriptor_, POLLRDHUP, 0};
  return ::poll(&poll, 1, 0) > 0 && (poll.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

std::chrono::milliseconds Socket::silence() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(descriptor_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  return std::chrono::milliseconds(std::min(info.tcpi_last_data_recv, info.tcpi_last_ack_recv));
}

void Socket::set_receive_timeout(std::chrono::milliseconds timeout) {
  set_option(descriptor_, SOL_SOCKET, SO_RCVTIMEO, to_timeval(timeout));
}
void Socket::set_send_timeout(std::chrono::milliseconds timeout) {
  set_option(descriptor_, SOL_SOCKET, SO_SNDTIMEO, to_timeval(timeout));
}

void Socket::tune(int send_buffer_bytes, int receive_buffer_bytes) {
  set_option(descriptor_, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(descriptor_, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(descriptor_, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(descriptor_, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(descriptor_, IPPROTO_TCP, TCP_KEEPCNT, 4);
  if (send_buffer_bytes > 0) set_option(descriptor_, SOL_SOCKET, SO_SNDBUF, send_buffer_bytes);
  if (receive_buffer_bytes > 0) set_option(descriptor_, SOL_SOCKET, SO_RCVBUF, receive_buffer_bytes);
}

void Socket::give_up_after(std::chrono::milliseconds silence) {
  set_option(descriptor_, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(silence.count()));
}

void Socket::shut_down_reading() { (void)::shutdown(descriptor_, SHUT_RD); }
void Socket::shut_down_writing() { (void)::shutdown(descriptor_, SHUT_WR); }
void Socket::shut_down() { (void)::shutdown(descriptor_, SHUT_RDWR); }

Result<bool> is_loopback(const std::string& host) {
  PEN_ASSIGN(const auto addresses, resolve(host, 0, true));
  for (const auto* address = addresses.get(); address != nullptr; address = address->ai_next)
    if (!is_loopback(address->ai_addr)) return false;
  return true;
}

std::string address_of(const std::string& host) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return host;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> interfaces(first, &::freeifaddrs);
  std::string v6;
  for (const auto* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || host != each->ifa_name) continue;
    const bool is_v4 = each->ifa_addr->sa_family == AF_INET;
    if (!is_v4 && each->ifa_addr->sa_family != AF_INET6) continue;
    std::array<char, NI_MAXHOST> text{};
    const socklen_t size = is_v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(each->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (is_v4) return text.data();
    if (v6.empty()) v6 = text.data();
  }
  return v6.empty() ? host : v6;
}

Result<Listener> listen_on(const std::string& host, std::uint16_t port, int receive_buffer_bytes) {
  PEN_ASSIGN(const auto addresses, resolve(host, port, true));
  return listen_one(*addresses, tcp_address(host, port), receive_buffer_bytes);
}

Result<Socket> connect_to(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout) {
  PEN_ASSIGN(const auto addresses, resolve(host, port, false));
  auto failure = make_error(Errc::not_found, "host \"{}\" has no address", host);
  for (const auto* address = addresses.get(); address != nullptr; address = address->ai_next) {
    auto socket = connect_one(*address, tcp_address(host, port), timeout);
    if (socket.ok()) return socket;
    failure = socket.error();
  }
  return failure;
}

std::string peer_name(const Socket& socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(socket.descriptor(), reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "unknown";
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&peer), size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "unknown";
  return fmt::format("{}:{}", host, port);
}

std::string tcp_address(const std::string& host, std::uint16_t port) {
  return host.find(':') == std::string::npos ? fmt::format("tcp://{}:{}", host, port)
                                             : fmt::format("tcp://[{}]:{}", host, port);
}

}  // namespace penstock
