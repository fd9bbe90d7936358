#include "stream/zmq_watch.hpp"

#include "base/clock.hpp"

namespace penstock::stream {
namespace {

constexpr std::int64_t patience_ns = 5'000'000'000;
constexpr int events_of_interest =
    ZMQ_EVENT_CONNECT_DELAYED | ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED;

}  // namespace

Result<void> ZmqWatch::open(void* context, void* socket) {
  const auto address = fmt::format("inproc://watch-{}", socket);
  if (::zmq_socket_monitor(socket, address.c_str(), events_of_interest) != 0) return zmq_error("socket monitor");
  events_.reset(::zmq_socket(context, ZMQ_PAIR));
  if (events_ == nullptr || ::zmq_connect(events_.get(), address.c_str()) != 0) return zmq_error("socket monitor");
  opened_ns_ = monotonic_ns();
  return {};
}

/// Each is a message of two parts: its number, and the address.
void ZmqWatch::take_events() {
  while (!done_) {
    ZmqMessage event;
    if (::zmq_msg_recv(event.get(), events_.get(), ZMQ_DONTWAIT) < 0) return;
    const bool more = event.more();
    if (!more || event.bytes().size() < sizeof(std::uint16_t)) continue;
    const auto number = load_le<std::uint16_t>(event.bytes().data());
    ZmqMessage address;
    (void)::zmq_msg_recv(address.get(), events_.get(), ZMQ_DONTWAIT);
    tried_ = tried_ || number == ZMQ_EVENT_CONNECT_DELAYED || number == ZMQ_EVENT_CONNECTED;
    connected_ = connected_ || number == ZMQ_EVENT_CONNECTED;
    done_ = number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
  }
}

std::optional<Error> ZmqWatch::complaint(const std::string& endpoint) {
  if (done_ || events_ == nullptr) return std::nullopt;
  take_events();
  if (done_ || monotonic_ns() - opened_ns_ < patience_ns) return std::nullopt;
  done_ = true;
  constexpr auto seconds = patience_ns / 1'000'000'000;
  if (connected_)
    return make_error(
        Errc::disconnected,
        "{} accepts connections and does not speak ZeroMQ since {} s: is that the detector's stream port? "
        "It is tried further",
        endpoint, seconds);
  if (tried_)
    return make_error(Errc::disconnected,
                      "nobody answers at {} since {} s: is the detector's stream switched on? It is tried further",
                      endpoint, seconds);
  return make_error(Errc::not_found,
                    "{} could not be tried for {} s: is the host's name known here? It is tried further", endpoint,
                    seconds);
}

}  // namespace penstock::stream
