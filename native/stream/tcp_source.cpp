#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <list>
#include <mutex>
#include <thread>

#include "base/threads.hpp"
#include "stream/tcp.hpp"
#include "stream/tcp_connection.hpp"
#include "stream/tcp_frame.hpp"

namespace penstock::stream {
namespace {

using namespace std::chrono_literals;

constexpr auto accept_poll = 100ms;

class TcpSource : public Source {
 public:
  explicit TcpSource(const TcpSourceOptions& options)
      : options_(options), port_(options.port), table_(options.table ? options.table : make_tcp_series_table()) {}
  ~TcpSource() override { stop(); }

  Result<void> start(FrameSink& sink) override {
    PEN_ASSIGN(auto listener, listen_on(options_.host, options_.port, options_.receive_buffer_bytes));
    port_ = listener.port;
    stopping_ = false;
    acceptor_ = std::thread([this, &sink, socket = std::move(listener.socket)]() mutable {
      begin_thread("pen-accept", Role::receive);
      accept(socket, sink);
    });
    return {};
  }

  void stop() override {
    stopping_ = true;
    if (acceptor_.joinable()) acceptor_.join();
    // All are told before any is waited for.
    std::vector<std::thread> stoppers;
    for (auto& connection : connections_) stoppers.emplace_back([&] { connection->stop(); });
    for (auto& stopper : stoppers) stopper.join();
  }

  std::string address() const override { return tcp_address(options_.host, port_); }

 private:
  void accept(Socket& socket, FrameSink& sink) {
    while (!stopping_) {
      std::erase_if(connections_, [](const auto& connection) { return connection->finished(); });
      const auto ready = socket.readable(accept_poll);
      if (!ready.ok() || !*ready) continue;
      Socket client(::accept4(socket.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
      if (client.descriptor() < 0) {
        // Out of descriptors, most likely: the client waits until some are free again.
        spdlog::warn("{}: accept: {}", address(), errno_error(errno, "accept").message());
        std::this_thread::sleep_for(accept_poll);
        continue;
      }
      if (connections_.size() >= options_.connections_max) {
        turn_away(client, sink);
        continue;
      }
      connections_.push_back(std::make_unique<TcpConnection>(std::move(client), options_, *table_, sink));
    }
  }

  void turn_away(Socket& client, FrameSink& sink) {
    const auto why = make_error(Errc::refused, "{} connections are open, which is the limit", connections_.size());
    sink.reject(address(), why);
    TcpControl control;
    control.code = name(why.code());
    control.text = why.message();
    client.set_send_timeout(accept_poll);
    (void)client.send_all(encode_control(TcpKind::error, 0, control));
  }

  const TcpSourceOptions options_;
  std::atomic<std::uint16_t> port_;
  std::atomic<bool> stopping_ = false;
  const std::shared_ptr<TcpSeriesTable> table_;
  // the acceptor's own while it runs
  std::list<std::unique_ptr<TcpConnection>> connections_;
  std::thread acceptor_;
};

}  // namespace

std::shared_ptr<TcpSeriesTable> make_tcp_series_table() { return std::make_shared<TcpSeriesTable>(); }

Result<std::unique_ptr<Source>> make_tcp_source(const TcpSourceOptions& given) {
  auto options = given;
  options.host = address_of(given.host);
  PEN_ASSIGN(const bool loopback, is_loopback(options.host));
  const bool has_token = options.token && !options.token->empty();
  if (!loopback && !has_token)
    return make_error(Errc::refused, "{} is not loopback, and no token is set: give one, or listen on 127.0.0.1",
                      tcp_address(options.host, options.port));
  if (options.token && options.token->empty()) return make_error(Errc::invalid_argument, "token: empty");
  if (options.connections_max == 0) return make_error(Errc::invalid_argument, "connections_max: 0");
  return std::unique_ptr<Source>(std::make_unique<TcpSource>(options));
}

}  // namespace penstock::stream
