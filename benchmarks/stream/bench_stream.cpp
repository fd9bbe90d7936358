/// Sends frames to itself over loopback and tells the rate and the processor time of both ends
/// together, one JSON line a case. Options: bench_stream [tcp|zmq] [frame bytes] [total bytes]
/// [send buffer bytes] [receive buffer bytes]; without any, every case.
#include <malloc.h>
#include <sys/resource.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/time/clock.hpp"
#include "frame/sink.hpp"
#include "stream/tcp/tcp.hpp"
#include "stream/zmq/sender.hpp"
#include "stream/zmq/source.hpp"

namespace {

using namespace penstock;
using namespace penstock::stream;

constexpr std::size_t distinct_frames = 8;

/// Lets every frame go at once, and acknowledges it.
class NullSink : public FrameSink {
 public:
  Result<void> begin(Series, std::shared_ptr<AckListener> acks) override {
    acks_ = std::move(acks);
    return {};
  }
  Result<void> put(Frame frame) override {
    // Not before a batch is full, as a store acknowledges segments.
    if (acks_ != nullptr && value(frame.number) % 64 == 63)
      acks_->safe_below(frame.series_unique_id, FrameNumber{value(frame.number) + 1});
    ++frames_;
    return {};
  }
  Result<void> end(const SeriesEnd& end) override {
    if (acks_ != nullptr) acks_->closed(end.unique_id, "");
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
    return {};
  }
  void reject(std::string_view source, const Error& why) override {
    std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(source.size()), source.data(), why.message().c_str());
  }
  BufferPool& pool() override { return pool_; }

  void wait_for_end() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
  }
  std::uint64_t frames() const { return frames_; }

 private:
  BufferPool pool_{std::size_t{256} << 20};
  std::shared_ptr<AckListener> acks_;
  std::atomic<std::uint64_t> frames_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
};

double cpu_seconds(int who_field) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto& time = who_field == 0 ? usage.ru_utime : usage.ru_stime;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

[[noreturn]] void fail(const Error& error) {
  std::fprintf(stderr, "bench_stream: %s\n", error.message().c_str());
  std::exit(1);
}

void check(const Result<void>& result) {
  if (!result.ok()) fail(result.error());
}

template <typename T>
T check(Result<T> result) {
  if (!result.ok()) fail(result.error());
  return std::move(result).value();
}

struct Case {
  std::string kind;
  std::uint64_t frame_bytes = 0;
  std::uint64_t total_bytes = 0;
  int send_buffer_bytes = TcpSenderOptions{}.send_buffer_bytes;
  int receive_buffer_bytes = TcpSourceOptions{}.receive_buffer_bytes;
};

struct Ends {
  std::unique_ptr<Source> source;
  std::unique_ptr<FrameSender> sender;
};

Ends connect(const Case& one, FrameSink& sink) {
  Ends ends;
  if (one.kind == "tcp") {
    TcpSourceOptions source_options;
    source_options.port = 0;
    source_options.receive_buffer_bytes = one.receive_buffer_bytes;
    ends.source = check(make_tcp_source(source_options));
    check(ends.source->start(sink));
    const auto address = ends.source->address();
    TcpSenderOptions options;
    options.port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
    options.send_buffer_bytes = one.send_buffer_bytes;
    options.window_bytes = std::uint64_t{4} << 30;
    ends.sender = check(TcpSender::open(options));
  } else {
    ZmqSenderOptions options;
    options.endpoint = "tcp://127.0.0.1:*";
    ends.sender = check(ZmqSender::open(options));
    ZmqSourceOptions source_options;
    source_options.endpoint = ends.sender->address();
    ends.source = check(make_zmq_source(source_options));
    check(ends.source->start(sink));
  }
  return ends;
}

nlohmann::json run(const Case& one) {
  NullSink sink;
  auto ends = connect(one, sink);
  Series series;
  series.unique_id = "bench";
  series.channels = {"0"};
  series.frame = {ElementType::u16, {1, one.frame_bytes / 2}};
  std::vector<std::vector<std::byte>> pixels(distinct_frames, std::vector<std::byte>(one.frame_bytes));
  for (std::size_t i = 0; i < pixels.size(); ++i) std::fill(pixels[i].begin(), pixels[i].end(), std::byte(i + 1));
  const auto frames = std::max<std::uint64_t>(one.total_bytes / one.frame_bytes, 16);
  series.frames = frames;
  const auto user = cpu_seconds(0);
  const auto system = cpu_seconds(1);
  const auto begun_ns = monotonic_ns();
  check(ends.sender->begin(series));
  Frame frame;
  frame.spec = series.frame;
  for (std::uint64_t number = 0; number < frames; ++number) {
    frame.number = FrameNumber{number};
    frame.payload = pixels[number % distinct_frames];
    check(ends.sender->put(frame));
  }
  check(ends.sender->end());
  sink.wait_for_end();
  const auto seconds = static_cast<double>(monotonic_ns() - begun_ns) / 1e9;
  const auto gigabytes = static_cast<double>(frames * one.frame_bytes) / 1e9;
  return {{"kind", one.kind},
          {"frame_bytes", one.frame_bytes},
          {"frames", frames},
          {"frames_received", sink.frames()},
          {"seconds", seconds},
          {"gigabytes_per_second", gigabytes / seconds},
          {"frames_per_second", static_cast<double>(frames) / seconds},
          {"cpu_seconds_per_gigabyte", (cpu_seconds(0) + cpu_seconds(1) - user - system) / gigabytes},
          {"user_seconds_per_gigabyte", (cpu_seconds(0) - user) / gigabytes},
          {"system_seconds_per_gigabyte", (cpu_seconds(1) - system) / gigabytes},
          {"send_buffer_bytes", one.send_buffer_bytes},
          {"receive_buffer_bytes", one.receive_buffer_bytes}};
}

}  // namespace

int main(int argc, char** argv) {
  // As the recorder does: memory of messages is not returned to the system between them.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_ARENA_MAX, 1);
  std::vector<Case> cases;
  if (argc > 1) {
    Case one{argv[1], 8 << 20, std::uint64_t{4} << 30};
    if (argc > 2) one.frame_bytes = std::strtoull(argv[2], nullptr, 10);
    if (argc > 3) one.total_bytes = std::strtoull(argv[3], nullptr, 10);
    if (argc > 4) one.send_buffer_bytes = std::atoi(argv[4]);
    if (argc > 5) one.receive_buffer_bytes = std::atoi(argv[5]);
    cases = {one};
  } else {
    for (const auto* kind : {"tcp", "zmq"})
      for (const std::uint64_t frame_bytes : {4096, 65536, 1 << 20, 8 << 20, 25'000'000})
        cases.push_back({kind, frame_bytes, std::uint64_t{frame_bytes < 65536 ? 1u : 3u} << 30});
  }
  for (const auto& one : cases) {
    std::printf("%s\n", run(one).dump().c_str());
    std::fflush(stdout);
  }
}
