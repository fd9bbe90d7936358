#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <sstream>
#include <thread>

#include "base/net/lobby.hpp"
#include "base/net/socket.hpp"
#include "base/threads.hpp"
#include "recorder/service/metrics/metrics.hpp"

namespace penstock::recorder {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view path = "/metrics";
constexpr std::string_view end_of_head = "\r\n\r\n";
constexpr std::size_t request_bytes_max = 8 << 10;
/// Requests that are not complete yet; for more the oldest is cut off.
constexpr std::size_t waiting_max = 64;
constexpr auto request_patience = 2s;
/// For a client that does not read its answer, which the system's own buffer holds mostly.
constexpr auto send_patience = 1s;
constexpr auto poll_interval = 100ms;

std::string address_of(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

bool is_whole_request(Bytes bytes) {
  return bytes.size() >= request_bytes_max || text_of(bytes).find(end_of_head) != std::string_view::npos;
}

std::string answer_of(std::string_view status, std::string_view type, std::string_view body, bool with_body) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}", status,
                     type, body.size(), with_body ? body : std::string_view());
}

/// One thread: a request that is complete is answered in a moment, and others take no thread while they come in.
class Server final : public MetricsServer {
 public:
  Server(const std::string& host, Listener listener, std::shared_ptr<prometheus::Collectable> metrics)
      : metrics_(std::move(metrics)), host_(host), port_(listener.port) {
    thread_ = std::thread([this, socket = std::move(listener.socket)] {
      begin_thread("pen-metrics", Role::other);
      serve(socket);
    });
  }
  ~Server() override {
    stopping_ = true;
    thread_.join();
  }
  std::string address() const override { return fmt::format("http://{}{}", address_of(host_, port_), path); }

 private:
  void serve(const Socket& listener) {
    Lobby lobby({.is_complete = is_whole_request,
                 .look_bytes = request_bytes_max,
                 .patience = request_patience,
                 .guests_max = waiting_max});
    while (!stopping_) {
      auto visit = lobby.visit(listener, poll_interval);
      if (!visit.ok()) {
        spdlog::warn("metrics: {}", visit.error().message());
        std::this_thread::sleep_for(poll_interval);
        continue;
      }
      for (auto& client : visit->ready) {
        client.set_send_timeout(send_patience);
        const auto answer = answer_to(client);
        (void)client.send_all(std::as_bytes(std::span(answer)));
        client.shut_down_writing();
      }
    }
  }

  std::string answer_to(Socket& client) const {
    std::array<std::byte, request_bytes_max> buffer;
    const auto got = client.receive_now(buffer);
    if (!got.ok()) return {};
    const auto request = text_of(Bytes(buffer).first(*got));
    const bool is_head = request.starts_with("HEAD ");
    if (request.find(end_of_head) == std::string_view::npos)
      return answer_of("431 Request Header Fields Too Large", "text/plain", "the request is too long\n", true);
    if (!is_head && !request.starts_with("GET "))
      return answer_of("405 Method Not Allowed", "text/plain", "use GET\n", true);
    const auto target = request.substr(is_head ? 5 : 4);
    const auto asked = target.substr(0, target.find_first_of(" ?\r"));
    if (asked != path)
      return answer_of("404 Not Found", "text/plain", fmt::format("metrics are at {}\n", path), !is_head);
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, metrics_->Collect());
    return answer_of("200 OK", "text/plain; version=0.0.4; charset=utf-8", text.str(), !is_head);
  }

  const std::shared_ptr<prometheus::Collectable> metrics_;
  const std::string host_;
  const std::uint16_t port_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(const MetricsConfig& config, MetricsSource source) {
  const auto where = address_of(config.host, config.port);
  const auto loopback = is_loopback(config.host);
  if (!loopback.ok())
    return make_error(Errc::invalid_argument, "metrics.listen {}: {}", where, loopback.error().message());
  if (!*loopback)
    return make_error(Errc::invalid_argument,
                      "metrics.listen {} is reachable from other machines; metrics are served on loopback only: use "
                      "127.0.0.1 with an SSH tunnel, or a reverse proxy with a password",
                      where);
  auto listener = listen_on(config.host, config.port, 0);
  if (!listener.ok())
    return make_error(Errc::invalid_argument, "metrics.listen {}: {}", where, listener.error().message());
  return std::unique_ptr<MetricsServer>(
      std::make_unique<Server>(config.host, std::move(*listener), make_metrics(std::move(source))));
}

}  // namespace penstock::recorder
