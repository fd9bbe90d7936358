/// The recorder's metrics, in Prometheus' text format over HTTP (docs/reference/metrics.md).
///
/// Served on a thread of its own, on loopback only: HTTP here has neither a token nor encryption.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/files/call_watch.hpp"
#include "base/result.hpp"
#include "recorder/config/config.hpp"
#include "recorder/service/metrics/totals.hpp"

namespace prometheus {
class Collectable;
}

namespace penstock::recorder {

/// What the metrics are made of at each request. `snapshot` may be called from any thread; `watch` outlives it.
struct MetricsSource {
  std::function<Snapshot()> snapshot;
  const CallWatch* watch = nullptr;
  unsigned rank = 0;
};

std::shared_ptr<prometheus::Collectable> make_metrics(MetricsSource source);

class MetricsServer {
 public:
  /// Listens from its start to its destruction, which waits for requests that are being answered. `invalid_argument`
  /// where the address cannot be listened on, or is not loopback.
  static Result<std::unique_ptr<MetricsServer>> start(const MetricsConfig& config, MetricsSource source);
  virtual ~MetricsServer() = default;
  /// "http://127.0.0.1:9810/metrics"
  virtual std::string address() const = 0;
};

}  // namespace penstock::recorder
