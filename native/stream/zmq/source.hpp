/// Receives Stream V2 and Stream V1 messages over ZeroMQ PULL; each message shows of which kind it is.
///
/// Frames point into the message that ZeroMQ received, with no copy; its bytes are counted against
/// the sink's pool, and while the pool is full nothing more is taken from the network. What cannot
/// be understood is rejected and the next message is read: no message ends the source.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "frame/sink.hpp"
#include "stream/messages/message.hpp"

namespace penstock::stream {

struct ZmqSourceOptions {
  std::string endpoint = "tcp://127.0.0.1:31001";
  bool bind = false;  ///< a detector binds and its receivers connect
  /// For start messages that wait for the first image of their series; what comes beyond it goes without tables.
  std::uint64_t waiting_bytes_max = std::uint64_t{512} << 20;
  int messages_max = 2;  ///< that ZeroMQ may hold besides the pool, each at most limits.message_bytes_max()
  /// Stream V1 needs one recorder: the name that a series gets there no other one could know.
  bool alone = true;
  /// What comes from here is this element's, whether its start messages say so or not; one that names another is
  /// refused.
  std::optional<ElementPlace> element = {};
  MessageLimits limits;
};

/// The source listens or connects in start(); address() has the port only after that.
Result<std::unique_ptr<Source>> make_zmq_source(const ZmqSourceOptions& options);

}  // namespace penstock::stream
