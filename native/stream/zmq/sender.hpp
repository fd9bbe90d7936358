/// Sends Stream V2 messages over ZeroMQ PUSH, as a detector does. Without acknowledgements: what a
/// receiver took but did not store is lost.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/bytes.hpp"
#include "stream/sender.hpp"

namespace penstock::stream {

struct ZmqSenderOptions {
  std::string endpoint = "tcp://127.0.0.1:31001";  ///< port 0 or * takes a free one
  bool bind = true;
  int messages_max = 4;                              ///< that wait for each receiver inside ZeroMQ
  std::chrono::milliseconds linger{5000};            ///< for what is unsent when the sender goes
  std::chrono::milliseconds connect_timeout{10000};  ///< to have the first receiver
  /// After the last one was lost the same. One that is connected and takes no messages may take as long as it likes.
  std::chrono::milliseconds reconnect_timeout{10000};
  /// Called every second of waiting for a receiver (for the first one, after half a second), and when there is one
  /// again. On the thread that uses the sender.
  std::function<void(const SenderWait&)> on_wait = {};
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
