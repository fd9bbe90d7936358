#include "stream/zmq/source.hpp"

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "base/threads.hpp"
#include "stream/delivery.hpp"
#include "stream/element.hpp"
#include "stream/late_starts.hpp"
#include "stream/messages/v1_stream.hpp"
#include "stream/zmq/socket.hpp"
#include "stream/zmq/watch.hpp"

namespace penstock::stream {
namespace {

using namespace std::chrono_literals;

constexpr int receive_timeout_ms = 100;
constexpr std::size_t series_max = 64;      ///< that are remembered
constexpr std::size_t late_starts_max = 4;  ///< of several senders; of one only the last start can count

/// A received message, counted against the pool as long as a frame points into it.
struct Held {
  std::shared_ptr<const void> reservation;  // given back after the message is freed
  ZmqMessage message;
};

/// A series as it came here.
struct Stream {
  std::vector<std::string> channels;
  std::optional<std::uint32_t> element;  ///< of the detector, where the series has several
  std::string arm_date;
  std::uint64_t generation = 0;  ///< of the series of that name, which one the sink took it for
  bool begun = false;            ///< by a start from here that was taken, and not elsewhere alone
  bool ended = false;            ///< by an end from here
  bool refused = false;          ///< what comes now is of a start that was refused
  std::string why_refused;
};

std::string shown(const ElementPlace& place) {
  return fmt::format("element {} of [{}, {}]{}", place.number, place.rows, place.columns,
                     place.has_gaps() ? " with a gap of " + gap_text(place) : "");
}

class ZmqSource : public Source {
 public:
  explicit ZmqSource(const ZmqSourceOptions& options)
      : options_(options),
        address_(options.endpoint),
        late_(options.bind ? late_starts_max : 1, options.waiting_bytes_max),
        v1_(options.bind ? std::string() : options.endpoint, options_.limits, stopping_) {}
  ~ZmqSource() override { stop(); }

  Result<void> start(FrameSink& sink) override {
    context_ = make_zmq_context();
    if (context_ == nullptr) return zmq_error("ZeroMQ context");
    {
      const InRole receive(Role::receive);  // the library starts its own threads with the first socket
      socket_.reset(::zmq_socket(context_.get(), ZMQ_PULL));
    }
    if (socket_ == nullptr) return zmq_error("ZeroMQ socket");
    PEN_TRY(configure());
    const auto& endpoint = options_.endpoint;
    PEN_TRY(watch_.open(context_.get(), socket_.get(), options_.bind));
    const int failed =
        options_.bind ? ::zmq_bind(socket_.get(), endpoint.c_str()) : ::zmq_connect(socket_.get(), endpoint.c_str());
    if (failed != 0) return zmq_error(fmt::format("{} {}", options_.bind ? "bind" : "connect to", endpoint));
    if (options_.bind) address_ = last_endpoint(socket_.get(), endpoint);
    stopping_ = false;
    thread_ = std::thread([this, &sink] {
      begin_thread("pen-receive", Role::receive);
      run(sink);
    });
    return {};
  }

  void stop() override {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
    watch_.close();
    socket_.reset();
    context_.reset();
  }

  std::string address() const override { return address_; }

 private:
  Result<void> set(int option, const void* value, std::size_t size, std::string_view what) {
    if (::zmq_setsockopt(socket_.get(), option, value, size) != 0) return zmq_error(what);
    return {};
  }
  Result<void> set(int option, int value, std::string_view what) { return set(option, &value, sizeof value, what); }

  Result<void> configure() {
    PEN_TRY(set(ZMQ_RCVHWM, options_.messages_max, "ZMQ_RCVHWM"));
    PEN_TRY(set(ZMQ_LINGER, 0, "ZMQ_LINGER"));
    PEN_TRY(set(ZMQ_RCVTIMEO, receive_timeout_ms, "ZMQ_RCVTIMEO"));
    PEN_TRY(set(ZMQ_IPV6, 1, "ZMQ_IPV6"));
    const auto size_max = static_cast<std::int64_t>(options_.limits.message_bytes_max());
    return set(ZMQ_MAXMSGSIZE, &size_max, sizeof size_max, "ZMQ_MAXMSGSIZE");
  }

  void run(FrameSink& sink) {
    while (!stopping_) {
      auto held = std::make_shared<Held>();
      if (::zmq_msg_recv(held->message.get(), socket_.get(), 0) < 0) {
        if (::zmq_errno() == EAGAIN || ::zmq_errno() == EINTR) {
          look_at_peers(sink);
          continue;
        }
        sink.reject(address_, zmq_error("receive"));
        std::this_thread::sleep_for(std::chrono::milliseconds(receive_timeout_ms));
        continue;
      }
      watch_.note_message();
      // A simulator that sends several messages of Stream V2 at once sends them as parts of one: each is taken alone.
      if (is_v1(held->message.bytes())) {
        take_parts(std::move(held->message), sink);
        continue;
      }
      if (!reserve(*held, sink)) continue;
      const auto outcome = deliver(held, sink);
      if (outcome.ok()) continue;
      account_for(held->message.bytes(), Fate::damaged, sink);
      sink.reject(address_, outcome.error());
    }
    while (const auto left = late_.let_go()) reject_without_image(*left, "the recorder stopped", sink);
  }

  void look_at_peers(FrameSink& sink) {
    if (const auto complaint = watch_.complaint(address_)) sink.note(address_, *complaint);
    const auto limit = options_.limits.message_bytes_max();
    if (watch_.take_given_up()) {
      sink.reject(address_,
                  make_error(Errc::too_large,
                             "the peer's message exceeds {} bytes (the limit of a frame, which pool_bytes and "
                             "frame_bytes_max set, plus tables_bytes), and ZeroMQ ended the connection: increase "
                             "tables_bytes or pool_bytes. The recorder reconnects",
                             limit));
      if (::zmq_connect(socket_.get(), options_.endpoint.c_str()) != 0)
        sink.reject(address_, zmq_error("connect again"));
    }
    if (watch_.take_fruitless())
      sink.note(address_, make_error(Errc::too_large,
                                     "{}: the peer's message exceeds {} bytes (pool_bytes, tables_bytes), or the peer "
                                     "closes the connection: {} connections in a row delivered no message",
                                     address_, limit, ZmqWatch::fruitless_max));
  }

  /// A message of Stream V1.
  void take_parts(ZmqMessage first, FrameSink& sink) {
    std::vector<ZmqMessage> parts;
    std::size_t count = 1;
    std::uint64_t bytes = first.bytes().size();
    const auto bytes_max = options_.limits.message_bytes_max() + 4 * options_.limits.text_bytes_max;
    bool more = first.more();
    parts.push_back(std::move(first));
    for (; more && !stopping_; ++count) {
      ZmqMessage part;
      if (::zmq_msg_recv(part.get(), socket_.get(), 0) < 0) break;
      more = part.more();
      bytes += part.bytes().size();
      if (count < v1_parts_max && bytes <= bytes_max) parts.push_back(std::move(part));
    }
    if (more) return;  // stopping
    const bool whole = parts.size() == count;
    if (options_.element && options_.element->count() > 1)
      return sink.reject(address_,
                         make_error(Errc::unsupported,
                                    "Stream V1 (format: legacy) is not supported for {} of a detector: its series have "
                                    "no name shared with other elements; set the detector's stream format to cbor",
                                    shown(*options_.element)));
    if (options_.alone && whole) return v1_.take(std::move(parts), sink, address_);
    if (!whole)
      sink.reject(address_, make_error(Errc::too_large,
                                       "a message of {} parts and {} bytes; at most {} parts of together {} bytes are "
                                       "possible",
                                       count, bytes, v1_parts_max, bytes_max));
    else
      sink.reject(address_, make_error(Errc::unsupported,
                                       "Stream V1 (format: legacy) is not supported with several ranks; set the "
                                       "detector's stream format to cbor, or record with one rank"));
  }

  /// Counts the message against the pool. Where there is no room it waits, or the frame is dropped. A start message is
  /// not counted: it may be larger than the pool, goes as soon as it is parsed, and its tables have tables_bytes.
  bool reserve(Held& held, FrameSink& sink) {
    if (name_of_start(held.message.bytes(), options_.limits)) return true;
    const bool waits = sink.holds_back() || !name_of_image(held.message.bytes(), options_.limits);
    for (;;) {
      auto reserved = sink.pool().reserve(held.message.bytes().size(), waits ? 100ms : 0ms);
      if (reserved.ok()) {
        held.reservation = std::move(*reserved);
        return true;
      }
      const bool hopeless = reserved.error().code() != Errc::timed_out;
      if (!waits || hopeless) account_for(held.message.bytes(), Fate::dropped, sink);
      if (!waits && !hopeless) return false;
      if (hopeless || stopping_) {
        sink.reject(address_, reserved.error());
        return false;
      }
    }
  }

  /// An image that is lost goes into the ledger of its series, unless it is of another one that was refused, or that is
  /// closed while another one of its name is open.
  void account_for(Bytes message, Fate fate, FrameSink& sink) {
    const auto image = name_of_image(message, options_.limits);
    if (image && late_.note_lost(image->series_unique_id, FrameNumber{image->image_id}, fate)) return;
    if (image && (is_refused(image->series_unique_id) || is_over(image->series_unique_id, sink))) return;
    account(message, fate, options_.limits, sink,
            [this](const std::string& unique_id) { return element_of(unique_id); });
  }

  Result<void> deliver(const std::shared_ptr<Held>& held, FrameSink& sink) {
    auto parsed = parse_message(held->message.bytes(), options_.limits);
    if (!parsed.ok()) {
      note_start_without_sense(held->message.bytes(), parsed.error(), sink);
      return std::move(parsed).error();
    }
    auto& message = *parsed;
    if (auto* image = std::get_if<ImageMessage>(&message)) return take_image(std::move(*image), held, sink);
    if (auto* series = std::get_if<Series>(&message)) {
      const bool is_whole = lacks(*series).empty();
      if (!options_.bind || !is_whole)
        if (auto gone = late_.let_go_for(series->unique_id))
          reject_without_image(*gone, "another series started", sink);
      if (is_whole) {
        (void)late_.take(series->unique_id);
        return take_start(std::move(*series), sink);
      }
      late_.keep(std::move(*series));
      return {};
    }
    take_end(std::get<SeriesEnd>(std::move(message)), sink);
    return {};
  }

  /// A start that could not be parsed begins nothing, and what follows it has no file.
  void note_start_without_sense(Bytes message, const Error& why, FrameSink& sink) {
    const auto unique_id = name_of_start(message, options_.limits);
    if (!unique_id || streams_.contains(*unique_id)) return;
    sink.refuse_start(*unique_id, why);
    if (!unique_id->empty() && !sink.channels(*unique_id)) refuse(*unique_id, why, sink);
  }

  Result<void> take_image(ImageMessage image, const std::shared_ptr<Held>& held, FrameSink& sink) {
    const auto number = image.image_id;
    for (const auto& remark : std::exchange(image.remarks, {}))
      sink.note(address_,
                remark.with_context(fmt::format("image {} of series \"{}\"", number, image.series_unique_id)));
    if (auto late = late_.take(image.series_unique_id)) begin_with(*std::move(late), image, sink);
    if (is_refused(image.series_unique_id)) {
      sink.reject(address_,
                  make_error(Errc::refused, "image {} belongs to series \"{}\", whose start was rejected: {}", number,
                             image.series_unique_id, streams_.at(image.series_unique_id).why_refused));
      return {};
    }
    auto known = streams_.find(image.series_unique_id);
    if (known == streams_.end())
      if (auto elsewhere = sink.channels(image.series_unique_id)) {
        Stream stream;
        stream.channels = std::move(*elsewhere);
        remember(image.series_unique_id, std::move(stream));
        known = streams_.find(image.series_unique_id);
      }
    const auto element = element_of(image.series_unique_id);
    const auto generation = known == streams_.end() ? 0 : known->second.generation;
    const auto unique_id = image.series_unique_id;
    PEN_ASSIGN(auto delivery,
               frames_of(std::move(image), known == streams_.end() ? nullptr : &known->second.channels, held));
    if (delivery.remark)
      sink.note(address_, delivery.remark->with_context(fmt::format("image {} of series \"{}\"", number, unique_id)));
    // The sender cannot be told.
    for (auto& frame : delivery.frames) {
      frame.element = element;
      frame.generation = generation;
      if (auto taken = sink.put(std::move(frame)); !taken.ok()) sink.reject(address_, taken.error());
    }
    return {};
  }

  /// The first image brings what the start lacks.
  void begin_with(LateStarts::Late late, const ImageMessage& image, FrameSink& sink) {
    complete(late.start, image);
    if (auto begun = take_start(std::move(late.start), sink); !begun.ok()) sink.reject(address_, begun.error());
    if (is_refused(image.series_unique_id)) return;
    for (const auto& [number, fate] : late.lost)
      tell_lost(image.series_unique_id, number, fate, sink, element_of(image.series_unique_id));
  }

  void reject_without_image(const Series& start, std::string_view what, FrameSink& sink) const {
    const auto why = make_error(Errc::out_of_order,
                                "series {} has no file: its start message lacks {}, and no image arrived before {}",
                                start.unique_id, lacks(start), what);
    sink.reject(address_, why);
    sink.refuse_start(start.unique_id, why);
  }

  Result<void> take_start(Series series, FrameSink& sink) {
    const auto unique_id = series.unique_id;
    if (auto settled = settle_element(series); !settled.ok()) {
      sink.refuse_element(unique_id, address_, settled.error());
      refuse(unique_id, settled.error(), sink);
      return settled;
    }
    const auto known = streams_.find(unique_id);
    if (known != streams_.end() && !known->second.ended && known->second.element && series.element &&
        *known->second.element != series.element->number)
      return make_error(Errc::out_of_order,
                        "this stream carries element {} of series \"{}\"; element {} requires a separate stream",
                        *known->second.element, unique_id, series.element->number);
    // Whoever connects to us may be one of many.
    if (!options_.bind) series.source = address_;
    series.endpoint = address_;
    const bool one_of_several = series.element && series.element->count() > 1;
    Stream stream;
    stream.channels = series.channels;
    if (series.element) stream.element = series.element->number;
    stream.arm_date = series.arm_date;
    stream.begun = true;
    if (known != streams_.end() && is_another(known->second, stream))
      return take_another(std::move(series), known->second, std::move(stream), sink);
    auto taken = sink.begin(std::move(series), nullptr);
    // A refused start does not change what frames are taken for.
    if (taken.ok()) {
      stream.generation = sink.generation(unique_id);
      remember(unique_id, std::move(stream));
    } else if (is_of_no_use(taken.error(), unique_id, one_of_several, sink)) {
      sink.refuse_element(unique_id, address_, taken.error());
      refuse(unique_id, taken.error(), sink);
    } else if (taken.error().code() == Errc::out_of_order && sink.channels(unique_id)) {
      note_start_of_others(taken.error(), sink);
      return {};
    }
    return taken;
  }

  /// A start for which no frame from here can be taken, though others have begun the series: it contradicts theirs, or
  /// says of which element these frames are and is not believed. Where another start from here was taken, of one of
  /// many that connect to us, say, it changes nothing.
  bool is_of_no_use(const Error& why, const std::string& unique_id, bool one_of_several, FrameSink& sink) const {
    const auto known = streams_.find(unique_id);
    if (known != streams_.end() && known->second.begun) return false;
    const bool of_nothing_else = one_of_several && !options_.element;
    return sink.channels(unique_id) &&
           (why.code() == Errc::mismatch || (why.code() == Errc::out_of_order && of_nothing_else));
  }

  /// Another series under the name of one that began here. The sender cannot be told that the name is taken: nothing
  /// more is taken from it until the one before is closed, and ZeroMQ and the sender keep what comes.
  Result<void> take_another(Series series, Stream& before, Stream stream, FrameSink& sink) {
    const auto unique_id = series.unique_id;
    const auto end = last_word(unique_id, before);
    before.ended = true;
    auto taken = sink.begin_anew(std::move(series), end);
    const auto generation = sink.generation(unique_id);
    before.refused = !taken.ok();
    before.why_refused = taken.ok() ? std::string() : taken.error().message();
    if (taken.ok()) {
      stream.generation = generation;
      before = std::move(stream);
    } else if (taken.error().code() == Errc::mismatch && sink.channels(unique_id)) {
      sink.refuse_element(unique_id, address_, taken.error());
    } else if (taken.error().code() == Errc::out_of_order && generation != 0 && generation != end.generation) {
      // Another sender has begun it, and says otherwise.
      note_start_of_others(taken.error(), sink);
      stream.begun = false;
      before = std::move(stream);
      return {};
    }
    return taken;
  }

  void note_start_of_others(const Error& why, FrameSink& sink) {
    sink.note(address_, why.with_context("this start message is ignored; frames that match are accepted"));
  }

  /// Of a series of which nothing comes from here any more, since another one has its name.
  SeriesEnd last_word(const std::string& unique_id, const Stream& before) const {
    SeriesEnd end;
    end.unique_id = unique_id;
    end.element = before.element;
    end.source = address_;
    end.by_start = !before.ended;
    end.anew = true;
    end.generation = before.generation;
    return end;
  }

  /// Another series came under its name, and was refused: this one has had its last frame.
  void give_up(const std::string& unique_id, Stream& before, FrameSink& sink) {
    before.refused = true;
    if (before.ended || !before.begun) return;
    const auto end = last_word(unique_id, before);
    before.ended = true;
    if (auto taken = sink.end(end); !taken.ok()) sink.reject(address_, taken.error());
  }

  void take_end(SeriesEnd end, FrameSink& sink) {
    // Images of it may have come elsewhere.
    if (const auto late = late_.take(end.unique_id); late && !sink.channels(end.unique_id) && options_.alone)
      return reject_without_image(late->start, "its end", sink);
    end.element = element_of(end.unique_id);
    if (const auto known = streams_.find(end.unique_id); known != streams_.end()) {
      if (known->second.refused) return;  // the end of what was refused
      known->second.ended = true;
      end.generation = known->second.generation;
    }
    if (!options_.bind) end.source = address_;
    if (auto taken = sink.end(end); !taken.ok()) sink.reject(address_, taken.error());
  }

  /// Whose stream it is, the configuration knows, or the message.
  Result<void> settle_element(Series& series) const {
    if (!options_.element) return {};
    if (series.element && *series.element != *options_.element)
      return make_error(Errc::mismatch,
                        "series \"{}\": its start message names {} (user_data.penstock.element), but the configuration "
                        "of this source names {}; correct one of them",
                        series.unique_id, shown(*series.element), shown(*options_.element));
    series.element = options_.element;
    return {};
  }

  /// One sender does not begin a series twice. A start that it repeats is the same series; one behind the end, or of
  /// another date, is of another one that has the same name. Of those that connect to us each may send its start, and
  /// so may each of several endpoints.
  bool is_another(const Stream& before, const Stream& now) const {
    return !options_.bind && before.begun && (before.ended || before.arm_date != now.arm_date);
  }

  bool is_refused(const std::string& unique_id) const {
    const auto found = streams_.find(unique_id);
    return found != streams_.end() && found->second.refused;
  }

  /// The series that frames from here are of was closed.
  bool is_over(const std::string& unique_id, FrameSink& sink) const {
    const auto found = streams_.find(unique_id);
    return found != streams_.end() && found->second.generation != 0 &&
           found->second.generation != sink.generation(unique_id);
  }

  void refuse(const std::string& unique_id, const Error& why, FrameSink& sink) {
    if (const auto known = streams_.find(unique_id); known != streams_.end()) {
      known->second.why_refused = why.message();
      return give_up(unique_id, known->second, sink);
    }
    Stream refused;
    refused.refused = true;
    refused.why_refused = why.message();
    remember(unique_id, std::move(refused));
  }

  std::optional<std::uint32_t> element_of(const std::string& unique_id) const {
    if (const auto found = streams_.find(unique_id); found != streams_.end() && found->second.element)
      return found->second.element;
    return options_.element ? std::optional(options_.element->number) : std::nullopt;
  }

  void remember(const std::string& unique_id, Stream stream) {
    if (!streams_.contains(unique_id)) order_.push_back(unique_id);
    streams_[unique_id] = std::move(stream);
    if (order_.size() <= series_max) return;
    streams_.erase(order_.front());
    order_.pop_front();
  }

  const ZmqSourceOptions options_;
  std::string address_;
  ZmqContext context_;
  ZmqSocket socket_;
  ZmqWatch watch_;
  std::atomic<bool> stopping_ = false;
  // the thread's own
  std::map<std::string, Stream> streams_;
  std::deque<std::string> order_;  // of their names, the oldest first
  LateStarts late_;
  V1Stream v1_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Source>> make_zmq_source(const ZmqSourceOptions& options) {
  if (options.endpoint.empty()) return make_error(Errc::invalid_argument, "endpoint: empty");
  if (options.messages_max < 1) return make_error(Errc::invalid_argument, "messages_max: {}", options.messages_max);
  return std::unique_ptr<Source>(std::make_unique<ZmqSource>(options));
}

}  // namespace penstock::stream
