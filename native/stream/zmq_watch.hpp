/// Whether a socket that connects has found a peer that speaks ZeroMQ: the library tries again and again, and says
/// nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "stream/zmq_socket.hpp"

namespace penstock::stream {

/// For the thread of the socket.
class ZmqWatch {
 public:
  /// Before the socket connects; it outlives this or is closed after close().
  Result<void> open(void* context, void* socket);
  void close() { events_.reset(); }
  /// Once, when there has been no peer for some seconds: what is amiss.
  std::optional<Error> complaint(const std::string& endpoint);

 private:
  void take_events();

  ZmqSocket events_;
  std::int64_t opened_ns_ = 0;
  bool done_ = false;       ///< a peer was there, or it was told that there is none
  bool tried_ = false;      ///< the name means an address
  bool connected_ = false;  ///< somebody accepts connections
};

}  // namespace penstock::stream
