/// ZeroMQ's C interface with owned handles and errors as values.
#pragma once

#include <zmq.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "base/errno_words.hpp"
#include "base/result.hpp"

namespace penstock::stream {

struct ZmqContextEnd {
  void operator()(void* context) const { ::zmq_ctx_term(context); }
};
struct ZmqSocketClose {
  void operator()(void* socket) const { ::zmq_close(socket); }
};
using ZmqContext = std::unique_ptr<void, ZmqContextEnd>;
using ZmqSocket = std::unique_ptr<void, ZmqSocketClose>;

inline Error zmq_error(std::string_view what) {
  return make_error(Errc::io, "{}: {}", what, reason_of_errno(::zmq_errno()));
}

/// A context of its own; null where there is none to be had, as zmq_ctx_new() returns it. From any thread.
///
/// libzmq initialises the transports that are compiled into it (PGM) with the first context of a process and shuts
/// them down with the last one. libpgm counts its users, but initialises and shuts down without a lock: a context that
/// one thread ends while another thread makes one may destroy what was just initialised. One context, which has no
/// threads as it has no sockets, therefore lives as long as the process.
inline ZmqContext make_zmq_context() {
  [[maybe_unused]] static void* const kept = ::zmq_ctx_new();
  return ZmqContext(::zmq_ctx_new());
}

/// A message; moved, never copied.
class ZmqMessage {
 public:
  ZmqMessage() { ::zmq_msg_init(&message_); }
  ~ZmqMessage() { ::zmq_msg_close(&message_); }
  ZmqMessage(ZmqMessage&& other) noexcept : ZmqMessage() { ::zmq_msg_move(&message_, &other.message_); }
  ZmqMessage& operator=(ZmqMessage&& other) noexcept {
    if (this != &other) ::zmq_msg_move(&message_, &other.message_);
    return *this;
  }

  zmq_msg_t* get() { return &message_; }
  bool more() const { return ::zmq_msg_more(&message_) != 0; }
  Bytes bytes() { return {static_cast<const std::byte*>(::zmq_msg_data(&message_)), ::zmq_msg_size(&message_)}; }

 private:
  zmq_msg_t message_;
};

/// "tcp://…" with the port that was really bound or connected to.
inline std::string last_endpoint(void* socket, const std::string& otherwise) {
  char text[256] = {};
  std::size_t size = sizeof text;
  if (::zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, text, &size) != 0 || text[0] == '\0') return otherwise;
  return text;
}

}  // namespace penstock::stream
