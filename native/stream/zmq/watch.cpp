#include "stream/zmq/watch.hpp"

#include <utility>

#include "base/time/clock.hpp"

namespace penstock::stream {
namespace {

constexpr std::int64_t patience_ns = 5'000'000'000;
/// ZeroMQ tries again at once after any loss but one through a message that exceeds the limit.
constexpr std::int64_t retry_patience_ns = 500'000'000;
constexpr int handshake_failures =
    ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
constexpr int events_of_interest = ZMQ_EVENT_CONNECT_DELAYED | ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_RETRIED |
                                   ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | handshake_failures;

}  // namespace

Result<void> ZmqWatch::open(void* context, void* socket, bool binds) {
  PEN_TRY(monitor_.open(context, socket, events_of_interest));
  binds_ = binds;
  settled_ = binds;
  opened_ns_ = monotonic_ns();
  return {};
}

void ZmqWatch::take_events() {
  while (const auto event = monitor_.take()) take_event(event->number);
}

void ZmqWatch::take_event(unsigned number) {
  tried_ = tried_ || number == ZMQ_EVENT_CONNECT_DELAYED || number == ZMQ_EVENT_CONNECTED;
  connected_ = connected_ || number == ZMQ_EVENT_CONNECTED;
  settled_ = settled_ || number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
  if ((number & handshake_failures) != 0) handshake_failed_ = true;
  if (number == ZMQ_EVENT_CONNECT_RETRIED) lost_ns_ = 0;
  if (number != ZMQ_EVENT_DISCONNECTED) return;
  if (!std::exchange(handshake_failed_, false)) {
    ++fruitless_;
    if (!binds_) lost_ns_ = monotonic_ns();
  }
}

void ZmqWatch::note_message() {
  take_events();
  fruitless_ = 0;
  fruitless_reported_ = false;
}

bool ZmqWatch::take_given_up() {
  take_events();
  if (lost_ns_ == 0 || monotonic_ns() - lost_ns_ < retry_patience_ns) return false;
  lost_ns_ = 0;
  fruitless_ = 0;
  return true;
}

bool ZmqWatch::take_fruitless() {
  take_events();
  if (fruitless_reported_ || fruitless_ < fruitless_max) return false;
  fruitless_reported_ = true;
  return true;
}

std::optional<Error> ZmqWatch::complaint(const std::string& endpoint) {
  take_events();
  if (settled_ || monotonic_ns() - opened_ns_ < patience_ns) return std::nullopt;
  settled_ = true;
  constexpr auto seconds = patience_ns / 1'000'000'000;
  if (connected_)
    return make_error(Errc::disconnected,
                      "{} accepts connections but has not answered as ZeroMQ for {} s: is it the detector's stream "
                      "port? Still trying",
                      endpoint, seconds);
  if (tried_)
    return make_error(Errc::disconnected,
                      "no answer from {} for {} s: is the detector's stream switched on? Still trying", endpoint,
                      seconds);
  return make_error(Errc::not_found, "{} could not be resolved for {} s: is the host's name correct? Still trying",
                    endpoint, seconds);
}

}  // namespace penstock::stream
