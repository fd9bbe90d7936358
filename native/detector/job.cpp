#include "detector/job.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/fields.hpp"
#include "base/time/clock.hpp"
#include "detector/element_feeds.hpp"
#include "detector/faulty_sender.hpp"
#include "detector/feed.hpp"
#include "detector/file_sender.hpp"
#include "detector/images/ratio.hpp"
#include "detector/sending_work.hpp"
#include "detector/watcher.hpp"
#include "stream/spread_sender.hpp"
#include "stream/tcp/tcp.hpp"
#include "stream/zmq/sender.hpp"

namespace penstock::detector {
namespace {

/// Counters that the sending thread writes and progress reads.
struct Counters {
  std::atomic<std::uint64_t> frames{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> late{0};
  std::atomic<std::int64_t> late_max_ns{0};
};

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

std::uint64_t window_bytes_of(const ToTcp& tcp) {
  return tcp.window_bytes > 0 ? tcp.window_bytes : stream::default_window_bytes();
}

void tell_wait(const EventSink& emit, const stream::SenderWait& wait) {
  const auto seconds_of = [](std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); };
  emit("waiting", {{"address", wait.address},
                   {"seconds", seconds_of(wait.patience)},
                   {"seconds_left", seconds_of(wait.left)},
                   {"over", wait.over},
                   {"reason", wait.reason}});
}

using Senders = std::vector<std::unique_ptr<stream::FrameSender>>;

/// One for each element, or for each peer.
Result<Senders> open_tcp(const ToTcp& tcp, const DetectorPlan& plan, const JobContext& context) {
  stream::TcpSenderOptions options;
  options.token = tcp.token;
  options.client = "penstock-detector " + plan.detector_name;
  options.connect_timeout = milliseconds_of(plan.connect_timeout_s);
  options.reconnect_timeout = milliseconds_of(plan.reconnect_timeout_s);
  options.on_wait = [&context](const stream::SenderWait& wait) { tell_wait(context.emit, wait); };
  const auto streams = plan.elements ? plan.elements->count() : tcp.peers.size();
  options.window_bytes = window_bytes_of(tcp) / streams;
  Senders senders;
  for (std::size_t i = 0; i < streams; ++i) {
    const auto& peer = tcp.peers[i % tcp.peers.size()];
    options.host = peer.host;
    options.port = peer.port;
    PEN_ASSIGN(auto sender, stream::TcpSender::open(options));
    senders.push_back(std::move(sender));
  }
  return senders;
}

Result<Senders> open_zmq(const ToZmq& zmq, const DetectorPlan& plan, const JobContext& context) {
  Senders senders;
  for (const auto& endpoint : zmq.endpoints) {
    stream::ZmqSenderOptions options;
    options.endpoint = endpoint;
    options.connect_timeout = milliseconds_of(plan.connect_timeout_s);
    options.reconnect_timeout = milliseconds_of(plan.reconnect_timeout_s);
    options.on_wait = [&context](const stream::SenderWait& wait) { tell_wait(context.emit, wait); };
    PEN_ASSIGN(auto sender, stream::ZmqSender::open(options));
    senders.push_back(std::move(sender));
  }
  return senders;
}

Result<std::unique_ptr<stream::FrameSender>> open_sender(const DetectorPlan& plan, const JobContext& context) {
  if (const auto* files = std::get_if<ToFiles>(&plan.to)) return open_file_sender(context.env, *files);
  const auto* tcp = std::get_if<ToTcp>(&plan.to);
  PEN_ASSIGN(auto senders,
             tcp != nullptr ? open_tcp(*tcp, plan, context) : open_zmq(std::get<ToZmq>(plan.to), plan, context));
  if (!plan.elements) return stream::make_spread_sender(std::move(senders));
  const auto told = plan.elements_told ? stream::ElementTold::in_start : stream::ElementTold::nowhere;
  return stream::make_element_sender(std::move(senders), *plan.elements, told);
}

/// Null where nothing is to go wrong; else it takes the sender.
Result<std::unique_ptr<FaultySender>> make_faulty(std::unique_ptr<stream::FrameSender>& sender,
                                                  const DetectorPlan& plan, const JobContext& context) {
  if (!plan.faults) return std::unique_ptr<FaultySender>();
  const auto* tcp = std::get_if<ToTcp>(&plan.to);
  FaultySetting setting;
  setting.sums = tcp != nullptr;
  if (plan.elements)
    setting.elements = plan.elements->count();
  else if (tcp != nullptr)
    setting.receivers = tcp->peers.size();
  return FaultySender::open(std::move(sender), plan.faults, setting, context.clock);
}

/// "prepare" events, a few a second and the last one.
class PrepareEvents {
 public:
  explicit PrepareEvents(const EventSink& emit) : emit_(emit) {}

  void tell(std::string_view what, std::uint64_t done, std::uint64_t total) {
    const auto now_ns = monotonic_ns();
    if (done != total && now_ns < next_ns_) return;
    next_ns_ = now_ns + 200'000'000;
    emit_("prepare", {{"what", what}, {"done", done}, {"total", total}});
  }

 private:
  const EventSink& emit_;
  std::int64_t next_ns_ = 0;
};

/// One feed, or one for each element.
using Feeds = std::vector<std::unique_ptr<Feed>>;

Result<Feeds> one_feed(Result<std::unique_ptr<Feed>> feed) {
  if (!feed) return std::move(feed).error();
  Feeds feeds;
  feeds.push_back(std::move(*feed));
  return feeds;
}

Result<Feeds> simulate(DetectorPlan& plan, const FeedOptions& options, PrepareEvents& events) {
  if (plan.ratio) {
    events.tell("background", 0, 1);
    PEN_ASSIGN(const auto fit, background_for_ratio(plan.simulation, *plan.ratio));
    plan.simulation.background_mean = fit.background_mean;
    spdlog::info("a background of {:.4g} counts per pixel compresses by {:.2f}", fit.background_mean, fit.ratio);
    events.tell("background", 1, 1);
  }
  // Whoever checks the recording makes the same frames from this.
  const auto description = Json::parse(plan.simulation.to_json());
  plan.series.user_data_json = Json{{"penstock", {{"simulation", description}}}}.dump();
  const Simulation simulation(plan.simulation);
  auto with_stamp = options;
  with_stamp.stamp = plan.simulation.stamp;
  if (plan.elements) return simulated_elements(simulation, *plan.elements, with_stamp);
  return one_feed(Feed::simulated(simulation, with_stamp));
}

Result<Feeds> replay(DetectorPlan& plan, const FeedOptions& options) {
  PEN_ASSIGN(auto images, NpyImages::open(*plan.replay), "replay");
  const auto& announced = plan.series.frame;
  if (images->frame() != announced)
    return make_error(Errc::mismatch, "replay: {} has images of {} × {} {}, the detector has {} × {} {}", *plan.replay,
                      images->frame().shape[0], images->frame().shape[1], name(images->frame().type),
                      announced.shape[0], announced.shape[1], name(announced.type));
  plan.series.user_data_json = Json{{"penstock", {{"replay", {{"images", images->count()}}}}}}.dump();
  if (plan.elements) return replayed_elements(*images, *plan.elements, options);
  return one_feed(Feed::replayed(std::move(images), options));
}

Result<Feeds> prepare(DetectorPlan& plan, const JobContext& context) {
  PrepareEvents events(context.emit);
  FeedOptions options;
  options.encoding = plan.encoding;
  options.threads = plan.threads;
  const auto* tcp = std::get_if<ToTcp>(&plan.to);
  options.held_bytes = tcp != nullptr ? window_bytes_of(*tcp) : 0;
  options.frames = plan.frames;
  options.headroom = std::holds_alternative<ToZmq>(plan.to);
  options.stop = &context.stop;
  options.progress = [&events](std::uint64_t done, std::uint64_t total) { events.tell("images", done, total); };
  return plan.replay ? replay(plan, options) : simulate(plan, options, events);
}

/// The series on its way.
class Sending {
 public:
  /// `faulty` is the sender, where it is one.
  Sending(const DetectorPlan& plan, const JobContext& context, const Feeds& feeds, stream::FrameSender& sender,
          const FaultySender* faulty)
      : plan_(plan),
        context_(context),
        feeds_(feeds),
        sender_(sender),
        faulty_(faulty),
        pacer_(plan.rate_hz, context.clock),
        watcher_(sender, context.stop, [this] { tell_progress(); }) {}

  Result<void> run() {
    PEN_TRY(begin());
    tell_start();
    start_ns_ = monotonic_ns();
    work_.begin();
    auto sent = send();
    watcher_.quiet();
    tell_end(sent);
    return sent;
  }

 private:
  /// Returns once somebody has taken the start message.
  Result<void> begin() {
    watcher_.set_deadline(plan_.connect_timeout_s);
    auto begun = sender_.begin(plan_.series);
    if (!begun && watcher_.expired())
      return make_error(Errc::timed_out, "{}: {} within {} s (--connect-timeout)", sender_.address(),
                        std::holds_alternative<ToTcp>(plan_.to)
                            ? "connected and sent the start message, but received no answer"
                            : "no receiver connected",
                        plan_.connect_timeout_s);
    watcher_.clear_deadline();
    return begun;
  }

  Result<void> send() {
    auto frames = send_frames();
    sent_ns_ = monotonic_ns();
    work_.end();
    // The receiver learns of the end even so: its file is complete but for the frames that are missing.
    auto ended = sender_.end();
    auto receipt = ended.ok() ? sender_.finish(milliseconds_of(plan_.finish_timeout_s)) : std::move(ended).error();
    if (!frames) return frames;
    if (!receipt) return std::move(receipt).error();
    if (!receipt->problem.empty()) return make_error(Errc::io, "the receiver reports: {}", receipt->problem);
    if (receipt->refused > 0)
      return make_error(Errc::refused, "the receiver rejected {} messages; the first: {}", receipt->refused,
                        receipt->first_refusal);
    if (receipt->unacknowledged > 0)
      return make_error(Errc::refused, "the receiver has closed the series without {} of the frames that were sent",
                        receipt->unacknowledged);
    return {};
  }

  Result<void> send_frames() {
    const auto stopped = [this] { return context_.stop.load(); };
    const auto exposure_ns = plan_.rate_hz > 0 ? static_cast<std::int64_t>(1e9 / plan_.rate_hz) : -1;
    pacer_.start();
    for (std::uint64_t number = 0; number < plan_.frames; ++number) {
      const bool due = work_.waits([&] { return pacer_.wait_for(number, stopped); });
      if (!due) return make_error(Errc::cancelled, "stopped after {} of {} frames", number, plan_.frames);
      for (std::uint32_t element = 0; element < feeds_.size(); ++element) {
        auto frame = feeds_[element]->frame(number);
        if (plan_.elements) frame.element = element;
        if (exposure_ns >= 0) {
          frame.exposure_start_ns = pacer_.due_ns(number) - pacer_.start_ns();
          frame.exposure_stop_ns = frame.exposure_start_ns + exposure_ns;
          frame.exposure_real_ns = exposure_ns;
        }
        PEN_TRY(sender_.put(frame), "frame {}", number);
        counters_.bytes += frame.payload.size();
      }
      if (plan_.rate_hz > 0) PEN_TRY(sender_.flush(), "frame {}", number);
      counters_.frames = number + 1;
      counters_.late = pacer_.stats().late;
      counters_.late_max_ns = pacer_.stats().late_max_ns;
    }
    return sender_.flush();
  }

  double ratio() const {
    double sum = 0;
    for (const auto& feed : feeds_) sum += feed->ratio();
    return sum / static_cast<double>(feeds_.size());
  }

  void tell_start() const {
    const auto& series = plan_.series;
    context_.emit("series_start", {{"series_unique_id", series.unique_id},
                                   {"series_id", series.id},
                                   {"frames", plan_.frames},
                                   {"rate_hz", plan_.rate_hz},
                                   {"rows", series.frame.shape[0]},
                                   {"columns", series.frame.shape[1]},
                                   {"type", std::string(name(series.frame.type))},
                                   {"encoding", std::string(name(plan_.encoding))},
                                   {"to", sender_.address()}});
  }

  void tell_progress() {
    const auto now_ns = monotonic_ns();
    const auto frames = counters_.frames.load();
    const auto bytes = counters_.bytes.load();
    const auto since_s = std::max(1e-9, static_cast<double>(now_ns - last_ns_) * 1e-9);
    const bool first = last_ns_ == 0;
    context_.emit("progress", {{"series_unique_id", plan_.series.unique_id},
                               {"frames_sent", frames},
                               {"frames", plan_.frames},
                               {"bytes", bytes},
                               {"rate_hz", first ? 0.0 : static_cast<double>(frames - last_frames_) / since_s},
                               {"bytes_per_s", first ? 0.0 : static_cast<double>(bytes - last_bytes_) / since_s},
                               {"late", counters_.late.load()}});
    last_ns_ = now_ns;
    last_frames_ = frames;
    last_bytes_ = bytes;
  }

  /// {code, path, detail}; null if nothing failed.
  static Json failure_of(const Result<void>& sent) {
    if (sent.ok()) return nullptr;
    const auto& why = sent.error();
    return {{"code", std::string(name(why.code()))}, {"path", ""}, {"detail", why.message()}};
  }

  void tell_end(const Result<void>& sent) const {
    const auto receipt = sender_.receipt();
    const bool acknowledges = !std::holds_alternative<ToZmq>(plan_.to);
    const auto since_start = [this](std::int64_t ns) { return static_cast<double>(ns - start_ns_) * 1e-9; };
    context_.emit("series_end", {{"series_unique_id", plan_.series.unique_id},
                                 {"frames_sent", counters_.frames.load()},
                                 {"frames", plan_.frames},
                                 {"sending_seconds", since_start(sent_ns_)},
                                 {"seconds", since_start(monotonic_ns())},
                                 {"bytes", counters_.bytes.load()},
                                 {"late", counters_.late.load()},
                                 {"late_max_ms", static_cast<double>(counters_.late_max_ns.load()) * 1e-6},
                                 {"acknowledged", acknowledges ? Json(receipt.safe_below) : Json()},
                                 {"confirmed", acknowledges ? Json(receipt.confirmed) : Json()},
                                 {"refused", receipt.refused},
                                 {"ratio", ratio()},
                                 {"work", work_.description()},
                                 {"faults", faulty_ != nullptr ? faulty_->done() : Json()},
                                 {"fault_seed", faulty_ != nullptr ? Json(plan_.faults.seed) : Json()},
                                 {"problem", sent.ok() ? Json() : Json(sent.error().message())},
                                 {"failure", failure_of(sent)}});
  }

  const DetectorPlan& plan_;
  const JobContext& context_;
  const Feeds& feeds_;
  stream::FrameSender& sender_;
  const FaultySender* faulty_;
  Pacer pacer_;
  SendingWork work_;
  Counters counters_;
  std::int64_t start_ns_ = 0;
  std::int64_t sent_ns_ = 0;  // the last frame was handed over
  // Of the progress event before; the watcher's thread only.
  std::int64_t last_ns_ = 0;
  std::uint64_t last_frames_ = 0;
  std::uint64_t last_bytes_ = 0;
  Watcher watcher_;  // last: its thread uses what stands above
};

}  // namespace

Result<void> run_job(DetectorPlan plan, const JobContext& given) {
  std::mutex one_call_at_a_time;
  const auto emit = [&](std::string_view event, const Json& fields) {
    std::lock_guard lock(one_call_at_a_time);
    given.emit(event, fields);
  };
  const JobContext context{given.env, given.clock, emit, given.stop};
  PEN_ASSIGN(const auto feeds, prepare(plan, context));
  PEN_ASSIGN(auto sender, open_sender(plan, context));
  spdlog::info("sending {} frames of {} × {} {} to {}", plan.frames, plan.series.frame.shape[0],
               plan.series.frame.shape[1], name(plan.series.frame.type), sender->address());
  PEN_ASSIGN(const auto faulty, make_faulty(sender, plan, context));
  if (faulty) spdlog::info("injecting faults, seed {}", plan.faults.seed);
  return Sending(plan, context, feeds, faulty ? *faulty : *sender, faulty.get()).run();
}

}  // namespace penstock::detector
