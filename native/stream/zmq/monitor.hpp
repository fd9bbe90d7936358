/// What ZeroMQ reports of the connections of a socket.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "stream/zmq/socket.hpp"

namespace penstock::stream {

struct ZmqEvent {
  unsigned number = 0;      ///< ZMQ_EVENT_…
  std::uint32_t value = 0;  ///< of most events the descriptor of the connection
};

/// For the thread of the socket, which takes the events often: ZeroMQ waits where more than a few hundred are left.
class ZmqMonitor {
 public:
  /// Before the socket binds or connects; it outlives this or is closed after close(). `events` are the ones to take.
  Result<void> open(void* context, void* socket, int events);
  void close() { events_.reset(); }

  /// Returns the next event, if there is one.
  std::optional<ZmqEvent> take();

 private:
  ZmqSocket events_;
};

}  // namespace penstock::stream
