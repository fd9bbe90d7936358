/// What a client library sends to when it is to be the bottleneck: the recorder's TCP source, which lets every frame go
/// at once and acknowledges it. Prints its port, and serves until its standard input ends.
#include <malloc.h>

#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>

#include "stream/tcp/tcp.hpp"

namespace {

using namespace penstock;

class Sink : public FrameSink {
 public:
  Result<void> begin(Series, std::shared_ptr<AckListener> acks) override {
    std::lock_guard lock(mutex_);
    acks_ = std::move(acks);
    return {};
  }
  Result<void> put(Frame frame) override {
    // Some at a time, as a store acknowledges segments.
    if (frame.session != nullptr && value(frame.number) % 8 == 7)
      frame.session->safe_below(frame.series_unique_id, FrameNumber{value(frame.number) + 1});
    last_ = frame.session;
    next_ = value(frame.number) + 1;
    return {};
  }
  Result<void> end(const SeriesEnd& end) override {
    if (last_ != nullptr) last_->safe_below(end.unique_id, FrameNumber{next_});
    last_.reset();
    std::lock_guard lock(mutex_);
    if (acks_ != nullptr) acks_->closed(end.unique_id, "");
    return {};
  }
  void reject(std::string_view, const Error& why) override { std::fprintf(stderr, "%s\n", why.message().c_str()); }
  BufferPool& pool() override { return pool_; }

 private:
  BufferPool pool_{std::size_t{256} << 20};
  std::mutex mutex_;
  std::shared_ptr<AckListener> acks_;
  // One connection at a time.
  std::shared_ptr<AckListener> last_;
  std::uint64_t next_ = 0;
};

}  // namespace

int main() {
  // As the recorder does: memory of messages is not returned to the system between them.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  Sink sink;
  stream::TcpSourceOptions options;
  options.port = 0;
  auto source = stream::make_tcp_source(options);
  if (!source.ok() || !(*source)->start(sink).ok()) return 1;
  std::printf("%s\n", nlohmann::json{{"event", "listening"}, {"address", (*source)->address()}}.dump().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) continue;
  return 0;
}
