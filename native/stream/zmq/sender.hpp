/// Sends Stream V2 messages over ZeroMQ PUSH, as a detector does. Without acknowledgements: what a
/// receiver took but did not store is lost.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/bytes.hpp"
#include "stream/sender.hpp"

namespace penstock::stream {

struct ZmqSenderOptions {
  std::string endpoint = "tcp://127.0.0.1:31001";  ///< port 0 or * takes a free one
  bool bind = true;
  int messages_max = 4;                    ///< that wait for each receiver inside ZeroMQ
  std::chrono::milliseconds linger{5000};  ///< for what is unsent when the sender goes
  /// put() and begin() wait at most this long for a receiver to connect or to take messages; 0 is for ever.
  std::chrono::milliseconds wait{0};
};

/// put() sends a large frame with enough `headroom` for the message's head without copying it, and
/// holds its owner until ZeroMQ is done with it, which may be after the sender has gone.
class ZmqSender : public FrameSender {
 public:
  static Result<std::unique_ptr<ZmqSender>> open(const ZmqSenderOptions& options);

  /// Sends a whole encoded message without copying it; `owner` is held until it is sent.
  virtual Result<void> put_message(Bytes message, std::shared_ptr<const void> owner) = 0;
};

}  // namespace penstock::stream
