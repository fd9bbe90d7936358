#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <exception>

#include "base/socket.hpp"
#include "recorder/metrics.hpp"

namespace penstock::recorder {
namespace {

constexpr const char* path = "/metrics";

std::string address_of(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

class Server final : public MetricsServer {
 public:
  Server(const std::string& host, std::uint16_t port, std::shared_ptr<prometheus::Collectable> metrics)
      : metrics_(std::move(metrics)), exposer_(address_of(host, port)), host_(host) {
    exposer_.RegisterCollectable(metrics_, path);
  }
  std::string address() const override {
    const auto ports = exposer_.GetListeningPorts();
    return fmt::format("http://{}{}", address_of(host_, ports.empty() ? 0 : ports.front()), path);
  }

 private:
  const std::shared_ptr<prometheus::Collectable> metrics_;  // the exposer holds it weakly
  prometheus::Exposer exposer_;
  const std::string host_;
};

}  // namespace

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(const MetricsConfig& config, MetricsSource source) {
  const auto where = address_of(config.host, config.port);
  const auto loopback = is_loopback(config.host);
  if (!loopback.ok())
    return make_error(Errc::invalid_argument, "metrics.listen {}: {}", where, loopback.error().message());
  if (!*loopback)
    return make_error(Errc::invalid_argument,
                      "metrics.listen is {}, which other machines can reach; metrics are served on loopback only: use "
                      "127.0.0.1, and an SSH tunnel or a reverse proxy that asks for a password",
                      where);
  // An address: the library takes no names.
  const auto host = config.host == "localhost" ? std::string("127.0.0.1") : config.host;
  {
    // The library says only that it failed; this tells why.
    auto probe = listen_on(host, config.port, 0);
    if (!probe.ok()) return make_error(Errc::invalid_argument, "metrics.listen {}: {}", where, probe.error().message());
  }
  try {
    return std::unique_ptr<MetricsServer>(std::make_unique<Server>(host, config.port, make_metrics(std::move(source))));
  } catch (const std::exception& error) {
    return make_error(Errc::invalid_argument, "metrics.listen {} cannot be listened on ({}); choose another port",
                      where, error.what());
  }
}

}  // namespace penstock::recorder
