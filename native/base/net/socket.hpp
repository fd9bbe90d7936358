/// TCP sockets: owned descriptors, deadlines, and errors with the peer's name.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace penstock {

/// An open descriptor. shut_down() may be called from any thread and wakes those that wait in it.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  int descriptor() const { return descriptor_; }

  /// Waits until `into` is full with `wait_all`, for the low-water mark (at first one byte) without. Fewer bytes than
  /// asked for: the peer has closed (0) or set_receive_timeout passed (`timed_out` if not one byte came).
  Result<std::size_t> receive(MutableBytes into, bool wait_all);
  /// Others wake up, and receive() without `wait_all` returns, only after this many bytes (1: any).
  /// Never more than are still to come, or the wait has no end.
  void set_low_water(std::size_t bytes);
  /// What is there now; 0 if nothing is. `disconnected` once the peer has closed.
  Result<std::size_t> receive_now(MutableBytes into);
  /// Sends some of `pieces` and returns how much; 0 where the send timeout passed.
  Result<std::size_t> send_some(std::span<const iovec> pieces);
  Result<void> send_all(Bytes data);
  /// Waits for something to read; false after `wait`.
  Result<bool> readable(std::chrono::milliseconds wait);
  /// Whether the other end sends no more, or the connection is lost: known at once, however much of it is unread.
  bool has_ended() const;
  /// How long the other end's system has been silent: no data came, and no acknowledgement of any. 0 if not known.
  std::chrono::milliseconds silence() const;

  void set_receive_timeout(std::chrono::milliseconds timeout);
  void set_send_timeout(std::chrono::milliseconds timeout);
  /// No delay for small messages, keep-alive, and buffer sizes (0 leaves one as it is).
  void tune(int send_buffer_bytes, int receive_buffer_bytes);
  /// Ends the connection after this time without an acknowledgement of sent data. Only for one over which little is
  /// sent: a full receive buffer of the peer counts as well.
  void give_up_after(std::chrono::milliseconds silence);
  void shut_down_reading();
  /// The peer sees the end of what was sent; its own data still comes.
  void shut_down_writing();
  void shut_down();

 private:
  int descriptor_;
  std::size_t low_water_bytes_ = 1;
};

struct Listener {
  Socket socket;
  std::uint16_t port = 0;  ///< that was really bound
};

/// Whether every address that `host` stands for is loopback.
Result<bool> is_loopback(const std::string& host);
/// Where `host` is the name of a network interface of this machine, its address (IPv4 where it has one); else `host`.
std::string address_of(const std::string& host);
Result<Listener> listen_on(const std::string& host, std::uint16_t port, int receive_buffer_bytes);
/// One attempt at each address of `host`.
Result<Socket> connect_to(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout);
/// "127.0.0.1:51234"
std::string peer_name(const Socket& socket);
/// "tcp://host:port", with an IPv6 host in brackets.
std::string tcp_address(const std::string& host, std::uint16_t port);

}  // namespace penstock
