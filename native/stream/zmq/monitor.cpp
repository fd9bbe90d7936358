#include "stream/zmq/monitor.hpp"

namespace penstock::stream {

Result<void> ZmqMonitor::open(void* context, void* socket, int events) {
  const auto address = fmt::format("inproc://watch-{}", socket);
  if (::zmq_socket_monitor(socket, address.c_str(), events) != 0) return zmq_error("socket monitor");
  events_.reset(::zmq_socket(context, ZMQ_PAIR));
  if (events_ == nullptr || ::zmq_connect(events_.get(), address.c_str()) != 0) return zmq_error("socket monitor");
  return {};
}

/// Each is a message of two parts: its number with a value, and the address.
std::optional<ZmqEvent> ZmqMonitor::take() {
  constexpr auto event_bytes = sizeof(std::uint16_t) + sizeof(std::uint32_t);
  while (events_ != nullptr) {
    ZmqMessage event;
    if (::zmq_msg_recv(event.get(), events_.get(), ZMQ_DONTWAIT) < 0) return std::nullopt;
    if (!event.more() || event.bytes().size() < event_bytes) continue;
    const auto* bytes = event.bytes().data();
    const ZmqEvent taken{load_le<std::uint16_t>(bytes), load_le<std::uint32_t>(bytes + sizeof(std::uint16_t))};
    ZmqMessage address;
    (void)::zmq_msg_recv(address.get(), events_.get(), ZMQ_DONTWAIT);
    return taken;
  }
  return std::nullopt;
}

}  // namespace penstock::stream
