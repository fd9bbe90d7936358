#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <optional>
#include <thread>

#include "base/crc32c.hpp"
#include "base/net/socket.hpp"
#include "base/time/clock.hpp"
#include "stream/messages/image_of.hpp"
#include "stream/tcp/frame.hpp"
#include "stream/tcp/tcp.hpp"
#include "stream/tcp/window.hpp"

namespace penstock::stream {
namespace {

using namespace std::chrono_literals;

constexpr auto poll_interval = 100ms;                 ///< after which a wait looks at cancel()
constexpr std::chrono::milliseconds first_pause{50};  ///< between attempts to connect; doubled each time
constexpr std::chrono::milliseconds last_pause{400};
constexpr std::int64_t look_interval_ns = 1'000'000;  ///< between looks for replies while sending
constexpr std::size_t reply_bytes_max = 1 << 20;
constexpr std::size_t pieces_max = 128;
constexpr std::uint64_t large_payload_bytes = 64 << 10;  ///< not worth waiting for company
/// Connections lost one after another without a word on the series: the receiver will not have it.
constexpr int fruitless_connections_max = 5;

constexpr std::int64_t wait_tell_ns = std::chrono::nanoseconds(sender_wait_interval).count();
constexpr std::int64_t first_wait_ns = std::chrono::nanoseconds(sender_first_wait).count();

constexpr std::int64_t never_ns = std::numeric_limits<std::int64_t>::max();

std::int64_t deadline_after(std::chrono::nanoseconds wait) {
  const auto now_ns = monotonic_ns();
  return wait.count() > never_ns - now_ns ? never_ns : now_ns + wait.count();
}

Result<TcpControl> parse_reply(const TcpHeader& header, Bytes message) {
  if (crc32c(message) != header.message_crc) return make_error(Errc::mismatch, "wrong checksum");
  return parse_control(header.kind, message);
}

class TcpSenderSession : public TcpSender {
 public:
  explicit TcpSenderSession(const TcpSenderOptions& options)
      : options_(options),
        client_(fmt::format("{:x}-{:x}-{:x}", realtime_ns(), ::getpid(), reinterpret_cast<std::uintptr_t>(this))) {}
  ~TcpSenderSession() override;

  Result<void> connect(std::chrono::nanoseconds patience, std::int64_t answer_by_ns = never_ns);

  Result<void> begin(const Series& series) override;
  Result<void> put(const Frame& frame) override { return put(frame, 0); }
  /// The last bytes of its CBOR part do not come.
  Result<void> put_cut(const Frame& frame) override { return put(frame, 4); }
  Result<void> flush() override;
  Result<void> end() override;
  Result<Receipt> finish(std::chrono::nanoseconds wait) override;
  Receipt receipt() const override { return receipt_; }
  void cancel() override { cancelled_ = true; }
  std::string address() const override { return tcp_address(options_.host, options_.port); }

 private:
  Result<void> put(const Frame& frame, std::size_t cut_bytes);
  Result<void> connect_once(std::int64_t give_up_ns, std::int64_t answer_by_ns);
  Result<void> shake_hands(std::int64_t give_up_ns, std::int64_t answer_by_ns);
  Result<void> greet(std::int64_t give_up_ns);
  Result<void> send_start(std::uint32_t flags, std::int64_t give_up_ns, std::int64_t answer_by_ns);
  Result<void> wait_for(const bool& done, std::int64_t give_up_ns, std::string_view what);
  Result<std::size_t> send_some(std::span<const iovec> pieces);
  Result<void> send_rest(std::int64_t give_up_ns = never_ns);
  Result<std::uint64_t> send_message(TcpKind kind, std::uint32_t flags, Bytes message, std::int64_t give_up_ns);
  Result<void> send(Bytes bytes, std::int64_t give_up_ns);
  Result<void> make_room(std::size_t payload_bytes);
  bool is_full(std::size_t payload_bytes) const;
  Result<void> wait_for_replies(std::chrono::milliseconds at_most = poll_interval);
  Result<void> read_replies();
  Result<void> handle(TcpKind kind, const TcpControl& reply);
  Result<void> handle_error(const TcpControl& reply);
  void note_state(const TcpControl& reply);
  void clear_state();
  bool is_whole() const;
  Result<void> check_open() const;
  Result<void> check_cancelled() const;
  Error is_not_read() const { return make_error(Errc::timed_out, "{}: it does not read what is sent", address()); }
  Result<void> reconnect(const Error& lost, std::int64_t give_up_ns);
  template <typename Step>
  Result<void> persist(Step step, std::int64_t give_up_ns = never_ns);

  const TcpSenderOptions options_;
  const std::string client_;  ///< nobody else's
  std::atomic<bool> cancelled_ = false;

  // The connection.
  std::optional<Socket> socket_;
  std::vector<std::byte> received_;
  std::int64_t last_look_ns_ = 0;
  int fruitless_connections_ = 0;
  bool greeted_ = false;
  bool end_sent_ = false;
  struct Start {
    std::uint64_t sequence = 0;
    bool is_answered = false;
    bool has_resume = false;  ///< the flag
  } start_;

  // The series.
  TcpWindow window_;
  Series series_;
  ImageMessage image_;
  bool started_ = false;
  bool ended_ = false;
  std::optional<Error> failure_;        ///< why the connection ended for good
  std::string state_;                   ///< what keeps the receiver from taking frames, in its words
  std::string reason_;                  ///< the first of those words, as reported
  std::uint64_t state_safe_below_ = 0;  ///< receipt_.safe_below when state_ began
  std::string ended_by_;
  Receipt receipt_;
};

TcpSenderSession::~TcpSenderSession() {
  if (!socket_ || !window_.all_sent()) return;
  // A courtesy: nothing is lost where it does not arrive.
  (void)socket_->send_all(encode_control(TcpKind::bye, window_.take_sequence(), {}));
}

Result<void> TcpSenderSession::check_cancelled() const {
  if (cancelled_) return make_error(Errc::cancelled, "{}: cancelled", address());
  return {};
}

/// The receiver has closed the series; all that was sent is safe, and nothing went wrong.
bool TcpSenderSession::is_whole() const {
  return started_ && receipt_.confirmed && receipt_.problem.empty() && window_.all_sent() &&
         receipt_.unacknowledged == 0;
}

/// The receiver still wants the series.
Result<void> TcpSenderSession::check_open() const {
  if (!started_) return make_error(Errc::out_of_order, "no series has started");
  if (!receipt_.confirmed) return {};
  if (!receipt_.problem.empty())
    return make_error(Errc::refused, "{}: the receiver has closed the series: {}", address(), receipt_.problem);
  if (ended_by_ == "stop")
    return make_error(Errc::refused, "{}: the receiver was stopped: frames below {} are acknowledged", address(),
                      receipt_.safe_below);
  const auto of = series_.frames > 0 ? fmt::format(" of {}", series_.frames) : std::string();
  return make_error(Errc::refused, "{}: the receiver has ended the series early: frames below {}{} are acknowledged",
                    address(), receipt_.safe_below, of);
}

Result<void> TcpSenderSession::connect(std::chrono::nanoseconds patience, std::int64_t answer_by_ns) {
  const auto give_up_ns = deadline_after(patience);
  bool told = false;
  std::optional<Error> before;  // why the attempt before failed
  // A receiver that closes the connection with a reason is there, and answers at once.
  auto tell_ns = monotonic_ns() + (started_ && reason_.empty() ? 0 : first_wait_ns);
  for (auto pause = first_pause;; pause = std::min(2 * pause, last_pause)) {
    PEN_TRY(check_cancelled());
    if (const auto now_ns = monotonic_ns(); options_.on_wait && now_ns >= tell_ns) {
      options_.on_wait({address(), patience, std::chrono::nanoseconds(std::max<std::int64_t>(give_up_ns - now_ns, 0))});
      tell_ns = now_ns + wait_tell_ns;
      told = true;
    }
    const bool is_short = std::chrono::nanoseconds(give_up_ns - monotonic_ns()) < options_.connect_timeout;
    auto connected = connect_once(give_up_ns, answer_by_ns);
    if (connected.ok() && told) options_.on_wait({address(), patience, {}, true});
    if (connected.ok()) return connected;
    const auto code = connected.error().code();
    const bool hopeless = code != Errc::disconnected && code != Errc::timed_out && code != Errc::no_place;
    const auto left = std::chrono::nanoseconds(std::max<std::int64_t>(give_up_ns - monotonic_ns(), 0));
    if (!hopeless) std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, left));
    const bool is_last = hopeless || monotonic_ns() >= give_up_ns;
    // An attempt that had little time does not know the reason; the one before does.
    if (is_last && is_short && code == Errc::timed_out && before) return *before;
    if (is_last) return connected;
    before = connected.error();
  }
}

Result<void> TcpSenderSession::connect_once(std::int64_t give_up_ns, std::int64_t answer_by_ns) {
  auto outcome = shake_hands(give_up_ns, answer_by_ns);
  if (outcome.ok()) failure_.reset();
  if (!outcome.ok()) socket_.reset();  // nothing else may be sent on it
  return outcome;
}

/// A receiver that is there may take long to answer the start: while it closes the series, for one.
Result<void> TcpSenderSession::shake_hands(std::int64_t give_up_ns, std::int64_t answer_by_ns) {
  received_.clear();
  greeted_ = false;
  end_sent_ = false;
  const auto left = std::chrono::milliseconds((give_up_ns - monotonic_ns()) / 1'000'000);
  const auto timeout = std::min(std::max(left, first_pause), options_.connect_timeout);
  PEN_ASSIGN(socket_, connect_to(options_.host, options_.port, timeout));
  socket_->tune(options_.send_buffer_bytes, 0);
  socket_->set_send_timeout(poll_interval);
  window_.rewind(0);
  PEN_TRY(greet(std::min(give_up_ns, deadline_after(options_.connect_timeout))));
  if (started_ && !receipt_.confirmed)
    PEN_TRY(send_start(tcp_flag_resume, give_up_ns, std::min(answer_by_ns, deadline_after(options_.answer_timeout))));
  return {};
}

Result<void> TcpSenderSession::greet(std::int64_t give_up_ns) {
  TcpControl hello;
  hello.peer = options_.client;
  hello.token = options_.token;
  hello.client = client_;
  hello.window_frames = options_.window_frames;
  hello.window_bytes = options_.window_bytes;
  PEN_TRY(send(encode_control(TcpKind::hello, window_.take_sequence(), hello), give_up_ns));
  return wait_for(greeted_, give_up_ns, "hello");
}

Result<void> TcpSenderSession::send_start(std::uint32_t flags, std::int64_t give_up_ns, std::int64_t answer_by_ns) {
  start_.is_answered = false;
  start_.has_resume = (flags & tcp_flag_resume) != 0;
  PEN_ASSIGN(start_.sequence, send_message(TcpKind::start, flags, encode_start(series_), give_up_ns));
  return wait_for(start_.is_answered, answer_by_ns, "the start message");
}

/// Until replies have set `done`.
Result<void> TcpSenderSession::wait_for(const bool& done, std::int64_t give_up_ns, std::string_view what) {
  while (!done) {
    const bool late = monotonic_ns() > give_up_ns;
    PEN_TRY(wait_for_replies(late ? 0ms : poll_interval));
    if (late && !done) return make_error(Errc::timed_out, "{}: no answer to {}", address(), what);
  }
  return {};
}

/// A message without pixels; returns its sequence number.
Result<std::uint64_t> TcpSenderSession::send_message(TcpKind kind, std::uint32_t flags, Bytes message,
                                                     std::int64_t give_up_ns) {
  TcpHeader header;
  header.kind = kind;
  header.flags = flags;
  header.message_bytes = static_cast<std::uint32_t>(message.size());
  header.sequence = window_.take_sequence();
  header.message_crc = crc32c(message);
  std::array<std::byte, tcp_header_bytes> head;
  encode_header(header, head);
  PEN_TRY(send(head, give_up_ns));
  PEN_TRY(send(message, give_up_ns));
  return header.sequence;
}

Result<void> TcpSenderSession::send(Bytes bytes, std::int64_t give_up_ns) {
  while (!bytes.empty()) {
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    PEN_ASSIGN(const auto sent, send_some(std::span(&piece, 1)));
    bytes = bytes.subspan(sent);
    if (bytes.empty() || monotonic_ns() <= give_up_ns) continue;
    socket_.reset();  // the rest of a message may not come later
    return is_not_read();
  }
  return {};
}

Result<std::size_t> TcpSenderSession::send_some(std::span<const iovec> pieces) {
  PEN_ASSIGN(const auto sent, socket_->send_some(pieces), "{}", address());
  if (sent == 0) PEN_TRY(check_cancelled());
  return sent;
}

/// The window's unsent frames, and the end where it is due.
Result<void> TcpSenderSession::send_rest(std::int64_t give_up_ns) {
  std::array<iovec, pieces_max> pieces;
  while (!window_.all_sent()) {
    const auto count = window_.gather(pieces);
    PEN_ASSIGN(const auto sent, send_some(std::span(pieces).first(count)));
    window_.sent(sent);
    if (!window_.all_sent() && monotonic_ns() > give_up_ns) return is_not_read();
    if (monotonic_ns() - last_look_ns_ > look_interval_ns) PEN_TRY(read_replies());
  }
  if (!ended_ || end_sent_) return {};
  PEN_ASSIGN([[maybe_unused]] const auto sequence,
             send_message(TcpKind::end, 0, encode_end({series_.id, series_.unique_id}), give_up_ns));
  end_sent_ = true;
  return {};
}

/// Runs `step` until it succeeds, with a new connection each time one is lost until `give_up_ns`.
template <typename Step>
Result<void> TcpSenderSession::persist(Step step, std::int64_t give_up_ns) {
  for (;;) {
    PEN_TRY(check_cancelled());
    if (is_whole()) return {};
    if (started_ && receipt_.confirmed) return check_open();
    if (failure_) return *failure_;
    auto outcome = socket_ ? step() : make_error(Errc::disconnected, "{}: no connection", address());
    if (outcome.ok() || outcome.error().code() != Errc::disconnected) return outcome;
    // Its last words may say why.
    if (socket_) {
      auto last_words = read_replies();
      if (!last_words.ok() && last_words.error().code() != Errc::disconnected) return last_words;
    }
    socket_.reset();
    const bool is_over = failure_ || (started_ && receipt_.confirmed);
    if (is_over) continue;
    auto again = reconnect(outcome.error(), give_up_ns);
    if (!again.ok() && monotonic_ns() >= give_up_ns) {
      --fruitless_connections_;  // the caller's time was too short for it
      return Error(Errc::timed_out, again.error().message());
    }
    if (!again.ok()) failure_ = again.error();
  }
}

Result<void> TcpSenderSession::reconnect(const Error& lost, std::int64_t give_up_ns) {
  if (++fruitless_connections_ > fruitless_connections_max)
    return lost.with_context(fmt::format("lost {} connections in a row{}{}", fruitless_connections_,
                                         receipt_.refused > 0 ? ", rejecting " : "", receipt_.first_refusal));
  return connect(std::min<std::chrono::nanoseconds>(options_.reconnect_timeout,
                                                    std::chrono::nanoseconds(give_up_ns - monotonic_ns())),
                 give_up_ns);
}

Result<void> TcpSenderSession::begin(const Series& series) {
  if (started_ && !receipt_.confirmed && !failure_) PEN_TRY(flush());
  failure_.reset();
  window_.clear();
  series_ = series;
  clear_state();
  receipt_ = {};
  started_ = true;
  ended_ = end_sent_ = start_.is_answered = false;
  fruitless_connections_ = 0;
  // Where the connection is lost meanwhile, the next one has sent the start already.
  auto outcome = persist([&] { return start_.is_answered ? Result<void>() : send_start(0, never_ns, never_ns); });
  started_ = outcome.ok();
  return outcome;
}

bool TcpSenderSession::is_full(std::size_t payload_bytes) const {
  if (window_.frames() == 0) return false;
  return window_.frames() >= options_.window_frames || window_.payload_bytes() + payload_bytes > options_.window_bytes;
}

Result<void> TcpSenderSession::make_room(std::size_t payload_bytes) {
  return persist([&]() -> Result<void> {
    while (is_full(payload_bytes)) {
      PEN_TRY(check_open());
      PEN_TRY(send_rest());
      window_.acknowledge(receipt_.safe_below, true);
      if (is_full(payload_bytes)) PEN_TRY(wait_for_replies());
    }
    return {};
  });
}

Result<void> TcpSenderSession::put(const Frame& frame, std::size_t cut_bytes) {
  PEN_TRY(check_open());
  if (ended_) return make_error(Errc::out_of_order, "frame {} after the end of the series", value(frame.number));
  if (is_full(frame.payload.size())) {
    PEN_TRY(make_room(frame.payload.size()));
    PEN_TRY(check_open());
  }
  PEN_TRY(fill_image(frame, series_, image_), "frame {}", value(frame.number));
  auto head = window_.take_head();
  head.resize(tcp_header_bytes);
  encode_image_detached(image_, head);
  head.resize(head.size() - cut_bytes);
  auto crc = frame.payload_crc;
  if (!crc && options_.checksum_pixels) crc = crc32c(frame.payload);
  window_.push(std::move(head), value(frame.number), frame.payload, frame.owner, crc);
  const bool large = frame.payload.size() >= large_payload_bytes;
  if (large || window_.unsent_bytes() >= options_.batch_bytes) return flush();
  return {};
}

Result<void> TcpSenderSession::flush() {
  if (!is_whole()) PEN_TRY(check_open());
  return persist([&] { return send_rest(); });
}

Result<void> TcpSenderSession::end() {
  // A series that is whole, or that was ended over there, may be closed before this one says so.
  if (started_ && receipt_.confirmed && receipt_.problem.empty()) return {};
  PEN_TRY(check_open());
  ended_ = true;
  return flush();
}

Result<Receipt> TcpSenderSession::finish(std::chrono::nanoseconds wait) {
  const auto give_up_ns = deadline_after(wait);
  auto outcome = persist(
      [&]() -> Result<void> {
        while (!receipt_.confirmed) {
          const bool late = monotonic_ns() > give_up_ns;
          PEN_TRY(send_rest(give_up_ns));
          PEN_TRY(wait_for_replies(late ? 0ms : poll_interval));
          if (late && !receipt_.confirmed)
            return make_error(Errc::timed_out,
                              "{}: the receiver has not closed the series; frames below {} are acknowledged{}{}",
                              address(), receipt_.safe_below, state_.empty() ? "" : "; its last words were: ", state_);
        }
        return {};
      },
      give_up_ns);
  if (!receipt_.confirmed) PEN_TRY(std::move(outcome));
  started_ = false;
  return receipt_;
}

/// Waits a moment for something to come, and handles it.
Result<void> TcpSenderSession::wait_for_replies(std::chrono::milliseconds at_most) {
  PEN_TRY(check_cancelled());
  PEN_ASSIGN(const bool any, socket_->readable(at_most), "{}", address());
  return any ? read_replies() : Result<void>();
}

/// Handles what has come, without waiting.
Result<void> TcpSenderSession::read_replies() {
  last_look_ns_ = monotonic_ns();
  std::array<std::byte, 16 << 10> piece;
  Result<void> outcome;
  for (bool more = true; more && outcome.ok();) {
    auto got = socket_->receive_now(piece);
    const auto size = got.ok() ? *got : 0;
    if (!got.ok()) outcome = got.error().with_context(address());
    received_.insert(received_.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(size));
    more = size == piece.size();
  }
  std::size_t taken = 0;
  while (received_.size() - taken >= tcp_header_bytes) {
    const auto rest = Bytes(received_).subspan(taken);
    PEN_ASSIGN(const auto header, decode_header(rest.first<tcp_header_bytes>()), "reply of {}", address());
    if (header.message_bytes > reply_bytes_max || header.pixels_bytes > 0)
      return make_error(Errc::too_large, "reply of {}: {} bytes", address(), header.message_bytes);
    if (rest.size() - tcp_header_bytes < header.message_bytes) break;
    const auto message = rest.subspan(tcp_header_bytes, header.message_bytes);
    PEN_ASSIGN(const auto reply, parse_reply(header, message), "reply of {}: {}", address(), name(header.kind));
    PEN_TRY(handle(header.kind, reply));
    taken += tcp_header_bytes + header.message_bytes;
  }
  received_.erase(received_.begin(), received_.begin() + static_cast<std::ptrdiff_t>(taken));
  return outcome;
}

Result<void> TcpSenderSession::handle(TcpKind kind, const TcpControl& reply) {
  const bool ours = started_ && reply.series_unique_id == series_.unique_id;
  switch (kind) {
    case TcpKind::hello: greeted_ = true; return {};
    case TcpKind::error: return handle_error(reply);
    case TcpKind::ack:
    case TcpKind::closed: break;
    case TcpKind::bye:
      // On purpose: nobody is there to connect to.
      failure_ = Error(Errc::disconnected, fmt::format("{}: the receiver was stopped: frames below {} are acknowledged",
                                                       address(), receipt_.safe_below));
      return *failure_;
    default: return {};
  }
  if (!ours) return {};
  // A series that is resumed is closed with what all clients sent.
  const bool is_of_all = kind == TcpKind::closed && start_.has_resume;
  const auto safe_below = is_of_all ? std::min(reply.safe_below, window_.sent_below()) : reply.safe_below;
  if (safe_below > window_.sent_below())
    return make_error(Errc::malformed,
                      "{}: the receiver acknowledges frames below {} of series \"{}\", but only those below {} were "
                      "sent: its acknowledgements are not reliable",
                      address(), safe_below, series_.unique_id, window_.sent_below());
  start_.is_answered = true;
  fruitless_connections_ = 0;
  receipt_.safe_below = std::max(receipt_.safe_below, safe_below);
  if (kind == TcpKind::closed || receipt_.safe_below > state_safe_below_) clear_state();
  window_.acknowledge(receipt_.safe_below, false);
  if (kind == TcpKind::closed) {
    ended_by_ = reply.ended_by;
    receipt_.confirmed = true;
    receipt_.problem = reply.text;
    receipt_.unacknowledged = window_.close(receipt_.safe_below);
  }
  return {};
}

Result<void> TcpSenderSession::handle_error(const TcpControl& reply) {
  const auto text = fmt::format("{}: {}", reply.code, reply.text);
  if (!greeted_) {
    // Other connections displaced it, or its hello was late: a retry may succeed.
    const bool may_try_again = reply.code == name(Errc::no_place) || reply.code == name(Errc::timed_out);
    return make_error(may_try_again ? Errc::no_place : Errc::refused, "{}: the receiver rejects the connection: {}",
                      address(), reply.text);
  }
  if (reply.sequence == 0) {
    note_state(reply);
    return make_error(Errc::disconnected, "{}: the receiver ends the connection: {}", address(), text);
  }
  if (started_ && !start_.is_answered && reply.sequence == start_.sequence)
    return make_error(Errc::refused, "{}: the receiver rejects {}{}", address(),
                      reply.text.starts_with("series \"") ? "" : "the series: ", reply.text);
  if (receipt_.confirmed) return {};  // the receipt counts what is not acknowledged
  if (receipt_.refused++ == 0) receipt_.first_refusal = text;
  // What was refused once is refused again: it is not kept.
  window_.drop(reply.sequence);
  return {};
}

/// The receiver repeats its words with each connection that it closes; what changes is reported.
void TcpSenderSession::note_state(const TcpControl& reply) {
  state_ = fmt::format("{}: {}", reply.code, reply.text);
  state_safe_below_ = receipt_.safe_below;
  auto reason = reply.text.substr(0, reply.text.find(';'));
  if (reason == reason_) return;
  reason_ = std::move(reason);
  if (options_.on_wait) options_.on_wait({.address = address(), .reason = reason_});
}

void TcpSenderSession::clear_state() {
  state_.clear();
  if (!reason_.empty() && options_.on_wait) options_.on_wait({.address = address(), .over = true, .reason = reason_});
  reason_.clear();
}

}  // namespace

std::uint64_t default_window_bytes() {
  constexpr std::uint64_t mebibyte = 1 << 20;
  const auto pages = std::max(::sysconf(_SC_PHYS_PAGES), 0L);
  const auto memory_bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::clamp(memory_bytes / 8, 256 * mebibyte, 4096 * mebibyte);
}

Result<std::unique_ptr<TcpSender>> TcpSender::open(const TcpSenderOptions& options) {
  if (options.window_bytes == 0 || options.window_frames == 0)
    return make_error(Errc::invalid_argument, "window_bytes and window_frames must be above 0");
  auto session = std::make_unique<TcpSenderSession>(options);
  PEN_TRY(session->connect(options.connect_timeout));
  return std::unique_ptr<TcpSender>(std::move(session));
}

}  // namespace penstock::stream
