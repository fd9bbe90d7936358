#include <spdlog/spdlog.h>

#include <atomic>
#include <list>
#include <thread>

#include "base/net/lobby.hpp"
#include "base/threads.hpp"
#include "stream/tcp/connection.hpp"
#include "stream/tcp/frame.hpp"
#include "stream/tcp/tcp.hpp"

namespace penstock::stream {
namespace {

using namespace std::chrono_literals;

constexpr auto accept_poll = 100ms;

class TcpSource : public Source {
 public:
  explicit TcpSource(const TcpSourceOptions& options)
      : options_(options),
        port_(options.port),
        table_(options.table ? options.table : make_tcp_series_table()),
        places_(options.connections_max, options.hello_timeout, *table_) {}
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
    Lobby lobby({.is_complete = is_first_message,
                 .look_bytes = hello_look_bytes,
                 .patience = options_.hello_timeout,
                 .guests_max = options_.strangers_max});
    while (!stopping_) {
      std::erase_if(connections_, [](const auto& connection) { return connection->finished(); });
      auto visit = lobby.visit(socket, accept_poll);
      if (!visit.ok()) {
        // Out of descriptors, most likely: the client waits until some are free again.
        spdlog::warn("{}: {}", address(), visit.error().message());
        std::this_thread::sleep_for(accept_poll);
        continue;
      }
      for (auto& client : visit->ready) {
        wait_for_readers();
        connections_.push_back(std::make_unique<TcpConnection>(std::move(client), options_, places_, *table_, sink));
      }
      table_->set_guests(lobby.guests());
      for (auto& stranger : visit->gone)
        turn_away(
            stranger.socket, sink,
            stranger.late
                ? make_error(Errc::timed_out, "hello: did not arrive within {} ms", options_.hello_timeout.count())
                : make_error(
                      Errc::no_place,
                      "{} connections without a hello are open, which is the limit: closing this one, the oldest",
                      options_.strangers_max));
    }
  }

  /// Of hellos that are there and not read yet, only so many at a time get a thread; each takes two seconds at most.
  void wait_for_readers() {
    constexpr std::size_t readers_max = 64;
    while (!stopping_ && connections_.size() >= options_.connections_max + readers_max) {
      std::this_thread::sleep_for(1ms);
      std::erase_if(connections_, [](const auto& connection) { return connection->finished(); });
    }
  }

  void turn_away(Socket& client, FrameSink& sink, const Error& why) {
    sink.turn_away(fmt::format("tcp {}", peer_name(client)), why);
    TcpControl control;
    control.code = name(why.code());
    control.text = why.message();
    client.set_send_timeout(std::chrono::milliseconds(1));
    (void)client.send_all(encode_control(TcpKind::error, 0, control));
  }

  const TcpSourceOptions options_;
  std::atomic<std::uint16_t> port_;
  std::atomic<bool> stopping_ = false;
  const std::shared_ptr<TcpSeriesTable> table_;
  TcpPlaces places_;
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
    return make_error(Errc::refused,
                      "{} is reachable from other machines and requires a token: set one, or listen on 127.0.0.1",
                      tcp_address(options.host, options.port));
  if (options.token && options.token->empty()) return make_error(Errc::invalid_argument, "token: empty");
  if (options.connections_max == 0) return make_error(Errc::invalid_argument, "connections_max: 0");
  if (options.strangers_max == 0) return make_error(Errc::invalid_argument, "strangers_max: 0");
  if (options.lag.lag_max.count() <= 0) return make_error(Errc::invalid_argument, "lag_max: not positive");
  if (options.lag.rate_min_bytes_per_s == 0) return make_error(Errc::invalid_argument, "rate_min_bytes_per_s: 0");
  return std::unique_ptr<Source>(std::make_unique<TcpSource>(options));
}

}  // namespace penstock::stream
