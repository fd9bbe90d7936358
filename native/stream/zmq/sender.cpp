#include "stream/zmq/sender.hpp"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "base/time/clock.hpp"
#include "frame/pool.hpp"
#include "stream/messages/image_of.hpp"
#include "stream/messages/message.hpp"
#include "stream/zmq/monitor.hpp"
#include "stream/zmq/socket.hpp"

namespace penstock::stream {
namespace {

constexpr int send_poll_ms = 100;
/// Messages on their way are bounded by the high-water mark; this only keeps their memory for reuse.
constexpr std::size_t pool_budget_bytes = std::size_t{4} << 30;
/// Below this a message is cheaper allocated than taken from the pool.
constexpr std::size_t pooled_bytes_min = 32 << 10;
/// Below this a copy costs less than handing memory over and back.
constexpr std::size_t uncopied_bytes_min = 64 << 10;

using Owner = std::shared_ptr<const void>;

void release_owner(void*, void* hint) { delete static_cast<Owner*>(hint); }

/// The host as it was given; the port that was really bound.
std::string bound_address(void* socket, const std::string& given) {
  auto bound = last_endpoint(socket, given);
  const auto given_port = given.rfind(':'), bound_port = bound.rfind(':');
  if (given_port == std::string::npos || bound_port == std::string::npos) return bound;
  return given.substr(0, given_port) + bound.substr(bound_port);
}

/// The connections that there are.
class Receivers {
 public:
  /// As ZmqMonitor::open().
  Result<void> open(void* context, void* socket) {
    return monitor_.open(context, socket, ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED);
  }

  bool any() {
    while (const auto event = monitor_.take()) {
      if (event->number == ZMQ_EVENT_DISCONNECTED)
        connections_.erase(event->value);
      else
        connections_.insert(event->value);
    }
    return !connections_.empty();
  }

 private:
  ZmqMonitor monitor_;
  std::set<std::uint32_t> connections_;
};

/// The time without a receiver.
class ReceiverWait {
 public:
  explicit ReceiverWait(const ZmqSenderOptions& options) : options_(options) {}

  /// Nobody is connected: an error once that has lasted too long, and from then on.
  Result<void> go_on(const std::string& address) {
    const auto now_ns = monotonic_ns();
    const auto patience = had_one_ ? options_.reconnect_timeout : options_.connect_timeout;
    if (!waiting_) {
      waiting_ = true;
      told_ = false;
      give_up_ns_ = after(now_ns, patience);
      tell_ns_ = had_one_ ? now_ns : after(now_ns, sender_first_wait);
    }
    if (now_ns >= give_up_ns_)
      return make_error(Errc::timed_out, "{}: {} within {} s ({})", address,
                        had_one_ ? "the receiver is gone, and no receiver connected again" : "no receiver connected",
                        std::chrono::duration<double>(patience).count(),
                        had_one_ ? "--reconnect-timeout" : "--connect-timeout");
    if (options_.on_wait && now_ns >= tell_ns_) {
      options_.on_wait({address, patience, std::chrono::nanoseconds(give_up_ns_ - now_ns)});
      tell_ns_ = after(now_ns, sender_wait_interval);
      told_ = true;
    }
    return {};
  }

  /// Somebody is connected, or has taken a message.
  void end(const std::string& address) {
    if (std::exchange(waiting_, false) && told_) options_.on_wait({address, {}, {}, true});
  }

  /// From here on it is a receiver that was lost.
  void note_message() { had_one_ = true; }

 private:
  static std::int64_t after(std::int64_t now_ns, std::chrono::nanoseconds time) { return now_ns + time.count(); }

  const ZmqSenderOptions& options_;
  bool had_one_ = false;
  bool waiting_ = false;
  bool told_ = false;
  std::int64_t give_up_ns_ = 0;
  std::int64_t tell_ns_ = 0;
};

class ZmqSenderSession : public ZmqSender {
 public:
  explicit ZmqSenderSession(const ZmqSenderOptions& options)
      : options_(options), address_(options.endpoint), wait_(options_), pool_(pool_budget_bytes) {}

  Result<void> open() {
    context_ = make_zmq_context();
    if (context_ == nullptr) return zmq_error("ZeroMQ context");
    socket_.reset(::zmq_socket(context_.get(), ZMQ_PUSH));
    if (socket_ == nullptr) return zmq_error("ZeroMQ socket");
    PEN_TRY(set(ZMQ_SNDHWM, options_.messages_max, "ZMQ_SNDHWM"));
    PEN_TRY(set(ZMQ_LINGER, static_cast<int>(options_.linger.count()), "ZMQ_LINGER"));
    PEN_TRY(set(ZMQ_SNDTIMEO, send_poll_ms, "ZMQ_SNDTIMEO"));
    PEN_TRY(set(ZMQ_IPV6, 1, "ZMQ_IPV6"));
    const auto& endpoint = options_.endpoint;
    PEN_TRY(receivers_.open(context_.get(), socket_.get()));
    const int failed =
        options_.bind ? ::zmq_bind(socket_.get(), endpoint.c_str()) : ::zmq_connect(socket_.get(), endpoint.c_str());
    if (failed != 0) return zmq_error(fmt::format("{} {}", options_.bind ? "bind" : "connect to", endpoint));
    if (options_.bind) address_ = bound_address(socket_.get(), endpoint);
    return {};
  }

  Result<void> begin(const Series& series) override {
    series_ = series;
    return send_copy(encode_start(series));
  }

  Result<void> put(const Frame& frame) override { return put(frame, 0); }
  /// Some of its pixels do not come.
  Result<void> put_cut(const Frame& frame) override {
    return put(frame, std::min<std::size_t>(8, frame.payload.size()));
  }

  Result<void> put(const Frame& frame, std::size_t cut_bytes) {
    PEN_TRY(fill_image(frame, series_, image_), "frame {}", value(frame.number));
    encode_image_around(image_, pieces_);
    // One part must lie in one piece of memory: the head goes before the pixels, or they are copied behind it.
    if (cut_bytes == 0 && frame.payload.size() >= uncopied_bytes_min && frame.headroom.size() >= pieces_.text.size())
      return put_in_place(frame);
    const auto pixels = frame.payload.first(frame.payload.size() - cut_bytes);
    const auto size = pieces_.text.size() + pixels.size();
    ZmqMessage message;
    PEN_TRY(allocate(message, size));
    auto* to = static_cast<std::byte*>(::zmq_msg_data(message.get()));
    std::copy(pieces_.text.begin(), pieces_.text.end(), to);
    std::memcpy(to + pieces_.text.size(), pixels.data(), pixels.size());
    return send(message);
  }

  Result<void> put_message(Bytes bytes, std::shared_ptr<const void> owner) override {
    ZmqMessage message;
    PEN_TRY(wrap(message, bytes, std::move(owner)));
    return send(message);
  }

  Result<void> flush() override { return {}; }
  Result<void> end() override { return send_copy(encode_end({series_.id, series_.unique_id})); }

  /// ZeroMQ does not tell when a message has left; what is unsent when the sender goes has `linger`.
  Result<Receipt> finish(std::chrono::nanoseconds) override { return Receipt{}; }
  Receipt receipt() const override { return {}; }
  void cancel() override { cancelled_ = true; }
  std::string address() const override { return address_; }

 private:
  Result<void> set(int option, int value, std::string_view what) {
    if (::zmq_setsockopt(socket_.get(), option, &value, sizeof value) != 0) return zmq_error(what);
    return {};
  }

  Result<void> put_in_place(const Frame& frame) {
    const auto head = frame.headroom.last(pieces_.text.size());
    std::ranges::copy(pieces_.text, head.begin());
    ZmqMessage message;
    PEN_TRY(wrap(message, Bytes(head.data(), head.size() + frame.payload.size()), frame.owner));
    return send(message);
  }

  static Result<void> wrap(ZmqMessage& message, Bytes bytes, Owner owner) {
    auto hint = std::make_unique<Owner>(std::move(owner));
    if (::zmq_msg_init_data(message.get(), const_cast<std::byte*>(bytes.data()), bytes.size(), &release_owner,
                            hint.get()) != 0)
      return zmq_error("ZeroMQ message");
    (void)hint.release();
    return {};
  }

  Result<void> allocate(ZmqMessage& message, std::size_t size) {
    if (size < pooled_bytes_min) {
      if (::zmq_msg_init_size(message.get(), size) != 0) return zmq_error("ZeroMQ message");
      return {};
    }
    PEN_ASSIGN(auto buffer, pool_.acquire(size, std::chrono::nanoseconds(0)));
    const Bytes bytes = buffer->bytes();
    return wrap(message, bytes, std::move(buffer));
  }

  Result<void> send_copy(Bytes bytes) {
    ZmqMessage message;
    if (::zmq_msg_init_size(message.get(), bytes.size()) != 0) return zmq_error("ZeroMQ message");
    std::memcpy(::zmq_msg_data(message.get()), bytes.data(), bytes.size());
    return send(message);
  }

  Result<void> send(ZmqMessage& message) {
    for (;;) {
      if (cancelled_) return make_error(Errc::cancelled, "{}: cancelled", address_);
      const bool sent = ::zmq_msg_send(message.get(), socket_.get(), 0) >= 0;
      if (!sent && ::zmq_errno() != EAGAIN && ::zmq_errno() != EINTR)
        return zmq_error(fmt::format("send to {}", address_));
      // Without a receiver ZeroMQ takes no message where it binds. One that connects is sent to before anybody asks.
      const bool is_connected = receivers_.any() || sent;
      if (is_connected) wait_.end(address_);
      if (sent) wait_.note_message();
      if (sent) return {};
      if (!is_connected) PEN_TRY(wait_.go_on(address_));
    }
  }

  const ZmqSenderOptions options_;
  std::string address_;
  ReceiverWait wait_;
  BufferPool pool_;
  ZmqContext context_;
  ZmqSocket socket_;
  Receivers receivers_;
  std::atomic<bool> cancelled_ = false;
  Series series_;
  ImageMessage image_;
  ImagePieces pieces_;
};

}  // namespace

Result<std::unique_ptr<ZmqSender>> ZmqSender::open(const ZmqSenderOptions& options) {
  if (options.messages_max < 1) return make_error(Errc::invalid_argument, "messages_max: {}", options.messages_max);
  auto session = std::make_unique<ZmqSenderSession>(options);
  PEN_TRY(session->open());
  return std::unique_ptr<ZmqSender>(std::move(session));
}

}  // namespace penstock::stream
