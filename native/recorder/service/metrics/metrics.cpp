#include "recorder/service/metrics/metrics.hpp"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/time/thread_times.hpp"

namespace penstock::recorder {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

using Label = std::pair<const char*, std::string>;

ClientMetric with(const std::vector<Label>& labels) {
  ClientMetric metric;
  for (const auto& [name, value] : labels) metric.label.push_back({name, value});
  return metric;
}

class Families {
 public:
  void counter(const char* name, const char* help, double value) {
    family(name, help, MetricType::Counter);
    counter(value);
  }
  /// One more of the family that came last.
  void counter(double value, const std::vector<Label>& labels = {}) {
    auto metric = with(labels);
    metric.counter.value = value;
    all.back().metric.push_back(std::move(metric));
  }

  void gauge(const char* name, const char* help, double value) {
    family(name, help, MetricType::Gauge);
    gauge(value);
  }
  void gauge(double value, const std::vector<Label>& labels = {}) {
    auto metric = with(labels);
    metric.gauge.value = value;
    all.back().metric.push_back(std::move(metric));
  }

  void histogram(const TimeHistogram::Values& values, const std::vector<Label>& labels = {}) {
    auto metric = with(labels);
    auto& histogram = metric.histogram;
    histogram.sample_sum = static_cast<double>(values.sum_ns) * 1e-9;
    for (std::size_t i = 0; i < values.counts.size(); ++i) {
      histogram.sample_count += values.counts[i];
      const bool last = i == TimeHistogram::bounds_ns.size();
      const auto bound =
          last ? std::numeric_limits<double>::infinity() : static_cast<double>(TimeHistogram::bounds_ns[i]) * 1e-9;
      histogram.bucket.push_back({histogram.sample_count, bound});
    }
    all.back().metric.push_back(std::move(metric));
  }

  void family(const char* name, const char* help, MetricType type) { all.push_back({name, help, type, {}}); }

  std::vector<MetricFamily> all;
};

double number(std::uint64_t value) { return static_cast<double>(value); }

void add_frames(Families& families, const Snapshot& now) {
  const auto& meters = now.meters;
  families.counter("penstock_images_received_total", "Images received; a frame has one image per channel.",
                   number(meters.frames_received));
  families.counter("penstock_received_bytes_total", "Uncompressed bytes of received frames.", number(meters.raw_bytes));
  families.counter("penstock_images_written_total", "Images written to storage and entered in the file's index.",
                   number(meters.frames_written));
  families.counter("penstock_stored_bytes_total", "Bytes of written frames as stored in the file.",
                   number(meters.stored_bytes));
  families.family("penstock_frame_problems_total", "Anomalies of frames by kind: late, duplicate, or not in the file.",
                  MetricType::Counter);
  const auto& anomalies = meters.anomalies;
  for (const auto& [what, count] : {std::pair{"duplicate", anomalies.duplicate}, std::pair{"late", anomalies.late},
                                    std::pair{"damaged", anomalies.damaged}, std::pair{"dropped", anomalies.dropped},
                                    std::pair{"lost", anomalies.lost}, std::pair{"missing", meters.missing_frames}})
    families.counter(number(count), {{"what", what}});
  families.counter("penstock_messages_rejected_total", "Messages that were rejected with an error.",
                   number(now.rejected));
  families.family("penstock_series_total", "Series that have ended, by outcome; reported by rank 0.",
                  MetricType::Counter);
  families.counter(number(now.complete_series), {{"outcome", "complete"}});
  families.counter(number(now.failed_series), {{"outcome", "problem"}});
  families.counter("penstock_series_refused_total",
                   "Series without a file or with a missing element, because a start was rejected or the file could "
                   "not be created; reported by rank 0.",
                   number(now.refused_series));
  families.gauge("penstock_open_series", "Series that are being recorded or closed.", number(now.open_series));
}

void add_backlog(Families& families, const Snapshot& now) {
  families.gauge("penstock_backlog_frames", "Received frames that are neither in the index nor lost.",
                 number(now.meters.waiting_frames));
  families.gauge("penstock_queue_frames", "Frames that wait for a compression thread.", number(now.queued_frames));
  families.gauge("penstock_queue_segments", "Segments that wait for a writer thread.",
                 number(now.meters.waiting_segments));
  families.gauge("penstock_queue_index_segments", "Written segments that wait for the index.",
                 number(now.meters.index_segments));
  families.gauge("penstock_pool_bytes", "Memory for frames in flight: a part of pool_bytes.", number(now.pool_bytes));
  families.gauge("penstock_pool_used_bytes", "Memory for frames in flight that is in use.",
                 number(now.pool_used_bytes));
  families.gauge("penstock_pool_used_max_bytes", "Peak of the memory for frames in flight that was in use.",
                 number(now.pool_used_bytes_max));
}

void add_times(Families& families, const Snapshot& now) {
  families.counter("penstock_segments_written_total", "Segments written to storage.", number(now.meters.segments));
  families.counter("penstock_segment_bytes_total", "Bytes of segments written to storage, with headers and padding.",
                   number(now.meters.segment_bytes));
  families.counter("penstock_writing_seconds_total", "Time in which at least one segment was being written.",
                   static_cast<double>(now.meters.writing_ns) * 1e-9);
  families.family("penstock_compress_seconds", "Time to compress a frame into its segment.", MetricType::Histogram);
  families.histogram(now.meters.compress);
  families.family("penstock_frame_latency_seconds", "Time from a frame's last byte to its entry in the index.",
                  MetricType::Histogram);
  families.histogram(now.meters.latency);
}

void add_threads(Families& families) {
  constexpr double ns = 1e-9;
  const auto all = times_by_name();
  families.family("penstock_thread_seconds_total", "Lifetime of threads, summed by name.", MetricType::Counter);
  for (const auto& each : all) families.counter(static_cast<double>(each.alive_ns) * ns, {{"thread", each.name}});
  families.family("penstock_thread_state_seconds_total",
                  "Time of threads by name and state: running, delayed (ready, but without a processor), or waiting "
                  "for work, for room in the next queue, for memory of the pool, or for its turn to write. The "
                  "remaining time is spent in blocking calls.",
                  MetricType::Counter);
  for (const auto& each : all) {
    families.counter(static_cast<double>(each.running_ns) * ns, {{"thread", each.name}, {"state", "running"}});
    families.counter(static_cast<double>(each.delayed_ns) * ns, {{"thread", each.name}, {"state", "delayed"}});
    for (std::size_t i = 0; i < waits; ++i)
      families.counter(static_cast<double>(each.waited_ns[i]) * ns,
                       {{"thread", each.name}, {"state", std::string(name(Wait(i)))}});
  }
}

void add_calls(Families& families, const CallWatch& watch) {
  const auto label = [](std::size_t i) { return std::vector<Label>{{"call", std::string(name(Call(i)))}}; };
  families.family("penstock_storage_call_seconds", "Duration of storage calls, by call.", MetricType::Histogram);
  for (std::size_t i = 0; i < first_hdf5_call; ++i) families.histogram(watch.times(Call(i)), label(i));
  families.family("penstock_hdf5_call_seconds", "Duration of HDF5 calls including their storage calls, by call.",
                  MetricType::Histogram);
  for (std::size_t i = first_hdf5_call; i < calls; ++i) families.histogram(watch.times(Call(i)), label(i));
  families.family("penstock_stalls_total", "Calls that took longer than the stall limit or are stalled, by call.",
                  MetricType::Counter);
  for (std::size_t i = 0; i < calls; ++i) families.counter(number(watch.stalls(Call(i))), label(i));
  families.family("penstock_stalled_calls", "Calls that are stalled now, by call.", MetricType::Gauge);
  const auto hanging = watch.hanging();
  for (std::size_t i = 0; i < calls; ++i) families.gauge(number(hanging[i]), label(i));
  families.gauge("penstock_stall_limit_seconds", "Stall limit (stall_limit_ms); 0: stalls are not detected.",
                 std::chrono::duration<double>(watch.limit()).count());
}

class Metrics final : public prometheus::Collectable {
 public:
  explicit Metrics(MetricsSource source) : source_(std::move(source)) {}

  std::vector<MetricFamily> Collect() const override {
    const auto now = source_.snapshot();
    Families families;
    families.family("penstock_build_info", "Always 1; labels give the version and the rank.", MetricType::Gauge);
    families.gauge(1, {{"version", PENSTOCK_VERSION}, {"rank", std::to_string(source_.rank)}});
    add_frames(families, now);
    add_backlog(families, now);
    add_times(families, now);
    add_threads(families);
    add_calls(families, *source_.watch);
    return std::move(families.all);
  }

 private:
  const MetricsSource source_;
};

}  // namespace

std::shared_ptr<prometheus::Collectable> make_metrics(MetricsSource source) {
  return std::make_shared<Metrics>(std::move(source));
}

}  // namespace penstock::recorder
