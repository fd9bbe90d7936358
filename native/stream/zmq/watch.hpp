/// What happens to the connections of a socket, which ZeroMQ reports nowhere else: no peer is found that speaks
/// ZeroMQ, a message exceeds ZMQ_MAXMSGSIZE, peers connect and send nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "stream/zmq/monitor.hpp"

namespace penstock::stream {

/// For the thread of the socket.
class ZmqWatch {
 public:
  /// Connections lost one after another without a message in between, from which on take_fruitless() reports them.
  static constexpr unsigned fruitless_max = 3;

  /// Before the socket binds or connects; it outlives this or is closed after close().
  Result<void> open(void* context, void* socket, bool binds);
  void close() { monitor_.close(); }

  /// For each message received.
  void note_message();

  /// Returns once, when a socket that connects has found no peer for some seconds, what the problem is.
  std::optional<Error> complaint(const std::string& endpoint);

  /// Returns true once for each time that ZeroMQ gave up a peer that it connected to: after a message above
  /// ZMQ_MAXMSGSIZE it closes the connection and does not connect again. The caller connects again.
  bool take_given_up();

  /// Returns true once when fruitless_max connections were lost in a row; again after the next message.
  bool take_fruitless();

 private:
  void take_events();
  void take_event(unsigned number);

  ZmqMonitor monitor_;
  bool binds_ = false;
  std::int64_t opened_ns_ = 0;
  bool settled_ = false;    ///< a peer was there, or it was reported that there is none
  bool tried_ = false;      ///< the name means an address
  bool connected_ = false;  ///< the peer accepts connections

  bool handshake_failed_ = false;  ///< of the connection that is lost next
  unsigned fruitless_ = 0;
  bool fruitless_reported_ = false;
  std::int64_t lost_ns_ = 0;  ///< a connection was lost, and ZeroMQ has not tried again since; 0: none
};

}  // namespace penstock::stream
