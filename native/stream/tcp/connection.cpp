#include "stream/tcp/connection.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/crc32c.hpp"
#include "base/net/token.hpp"
#include "base/threads.hpp"
#include "base/time/clock.hpp"
#include "stream/delivery.hpp"
#include "stream/tcp/frame.hpp"

namespace penstock::stream {
namespace {

constexpr std::size_t client_bytes_max = 255;
/// A client that is gone without a word would keep its place for a quarter of an hour.
constexpr std::chrono::seconds silence_max{60};
/// CBOR of anything but a start message, which may carry masks and tables.
constexpr std::uint64_t message_bytes_max = 4 << 20;
/// From here on only a few messages at a time are parsed.
constexpr std::uint64_t long_message_bytes = 64 << 10;
/// Pixels from here on get a buffer of their own; smaller ones stay where they were received.
constexpr std::uint64_t large_pixels_bytes = 64 << 10;
/// A refused message of up to so many times the limit is read over; a larger one ends the connection.
constexpr std::uint64_t skip_factor = 4;

Result<void> check_lengths(const TcpHeader& header, const MessageLimits& limits) {
  const auto message_max = header.kind == TcpKind::start ? limits.frame_bytes_max : message_bytes_max;
  if (header.message_bytes > message_max)
    return make_error(Errc::too_large, "{}: CBOR part of {} bytes exceeds the limit of {}", name(header.kind),
                      header.message_bytes, message_max);
  const auto pixels_max = header.kind == TcpKind::image ? limits.frame_bytes_max : 0;
  if (header.pixels_bytes > pixels_max)
    return make_error(Errc::too_large, "{}: pixel part of {} bytes exceeds the limit of {}", name(header.kind),
                      header.pixels_bytes, pixels_max);
  return {};
}

/// A CBOR part that fits no batch keeps memory of its own while the pixels wait for theirs.
Result<void> check_room(const TcpHeader& header, std::uint64_t pool_bytes) {
  const auto head_bytes = std::uint64_t{tcp_header_bytes} + header.message_bytes;
  const bool apart = head_bytes <= TcpInput::batch_bytes;
  // A piece of the pool may be a quarter larger than what it is for.
  const auto needed = apart                      ? std::max<std::uint64_t>(head_bytes, header.pixels_bytes)
                      : header.pixels_bytes == 0 ? head_bytes
                                                 : head_bytes + head_bytes / 4 + header.pixels_bytes;
  if (needed <= pool_bytes) return {};
  return make_error(Errc::too_large, "{} of {} bytes does not fit the pool of {} bytes; enlarge the pool",
                    name(header.kind), head_bytes + header.pixels_bytes, pool_bytes);
}

Result<void> check_crc(std::string_view what, std::uint32_t expected, std::uint32_t computed) {
  if (computed == expected) return {};
  return make_error(Errc::mismatch, "{} checksum {:08x}, computed {:08x}", what, expected, computed);
}

/// The storage may write whole pages of it; nothing of an earlier frame gets into the file.
void clear_padding(Buffer& buffer) {
  const auto bytes = buffer.bytes();
  std::memset(bytes.data() + bytes.size(), 0, align_up(bytes.size(), page_bytes) - bytes.size());
}

}  // namespace

bool is_first_message(Bytes bytes) {
  if (bytes.size() < tcp_header_bytes) return false;
  const auto header = decode_header(bytes.first<tcp_header_bytes>());
  const bool is_hello = header.ok() && header->kind == TcpKind::hello && header->message_bytes <= hello_bytes_max &&
                        header->pixels_bytes == 0;
  return !is_hello || bytes.size() >= tcp_header_bytes + header->message_bytes;
}

TcpConnection::TcpConnection(Socket socket, const TcpSourceOptions& options, TcpPlaces& places, TcpSeriesTable& table,
                             FrameSink& sink)
    : options_(options),
      places_(places),
      table_(table),
      sink_(sink),
      socket_(std::make_shared<Socket>(std::move(socket))),
      peer_(peer_name(*socket_)),
      replies_(std::make_shared<TcpReplies>(socket_)),
      place_(socket_, *replies_),
      input_(*socket_, sink.pool(), sink.holds_back(), options.lag, stopping_),
      link_{replies_, socket_, peer_} {
  socket_->tune(0, 0);
  socket_->give_up_after(silence_max);
  table_.arrive(*replies_);
  thread_ = std::thread([this] {
    begin_thread("pen-receive", Role::receive);
    run();
  });
}

TcpConnection::~TcpConnection() {
  stop();
  replies_->send(TcpKind::bye, {});
  replies_->close();
  socket_->shut_down();
}

void TcpConnection::stop() {
  stopping_ = true;
  socket_->shut_down_reading();
  if (thread_.joinable()) thread_.join();
}

void TcpConnection::reject(std::uint64_t sequence, const Error& why) {
  sink_.reject(fmt::format("tcp {}", peer_), why);
  replies_->error(sequence, why);
}

void TcpConnection::run() {
  serve();
  places_.leave(place_);
  if (stopping_) return;
  session_.reset();
  // Others may have ended the series, and wait for this one. Where it is only cut off, it may come back.
  for (const auto& end : table_.leave(*replies_, said_bye_))
    if (auto ended = sink_.end(end); !ended.ok()) sink_.reject(fmt::format("tcp {}", peer_), ended.error());
  replies_->close();
  socket_->shut_down();
  finished_ = true;
}

void TcpConnection::serve() {
  if (auto greeted = greet(); !greeted.ok()) {
    if (stopping_) return;
    const auto why = greeted.error().with_context("hello");
    sink_.turn_away(fmt::format("tcp {}", peer_), why);
    replies_->error(0, why);
    return;
  }
  const auto is_cut = [this] { return session_ != nullptr && session_->is_cut(); };
  while (!stopping_ && !is_cut()) {
    const auto more = serve_one();
    if (!more.ok() && !stopping_ && !is_cut()) reject(0, more.error());
    if (!more.ok() || !*more) break;
  }
  if (place_.is_given_up() && !stopping_) reject(0, Error(Errc::refused, place_.why()));
}

Result<void> TcpConnection::read_exactly(MutableBytes into, std::int64_t deadline_ns) {
  while (!into.empty()) {
    const auto left_ms = (deadline_ns - monotonic_ns()) / 1'000'000;
    if (left_ms <= 0) return make_error(Errc::timed_out, "did not arrive within {} ms", options_.hello_timeout.count());
    PEN_ASSIGN(const bool ready, socket_->readable(std::chrono::milliseconds(left_ms)));
    if (!ready) continue;
    PEN_ASSIGN(const auto got, socket_->receive_now(into));
    into = into.subspan(got);
  }
  return {};
}

Result<void> TcpConnection::greet() {
  const auto deadline_ns = monotonic_ns() + std::chrono::nanoseconds(options_.hello_timeout).count();
  std::array<std::byte, tcp_header_bytes> head;
  PEN_TRY(read_exactly(head, deadline_ns));
  PEN_ASSIGN(const auto header, decode_header(head));
  if (header.kind != TcpKind::hello)
    return make_error(Errc::out_of_order, "the first message is {}, not hello", name(header.kind));
  if (header.message_bytes > hello_bytes_max || header.pixels_bytes > 0)
    return make_error(Errc::too_large, "{} bytes of CBOR and {} of pixels", header.message_bytes, header.pixels_bytes);
  std::vector<std::byte> message(header.message_bytes);
  PEN_TRY(read_exactly(message, deadline_ns));
  PEN_TRY(check_crc("CBOR", header.message_crc, crc32c(message)));
  PEN_ASSIGN(const auto hello, parse_control(TcpKind::hello, message));
  if (options_.token && !same_token(*options_.token, hello.token))
    return Error(Errc::refused, hello.token.empty()
                                    ? "a token is required: pass the recorder's token, in PENSTOCK_TOKEN or by "
                                      "--token-file"
                                    : "the token is wrong: it differs from the recorder's");
  if (hello.client.size() > client_bytes_max)
    return make_error(Errc::too_large, "client has {} bytes, which exceeds the maximum of {}", hello.client.size(),
                      client_bytes_max);
  PEN_TRY(places_.take(place_, hello.client));
  link_.client = hello.client;
  TcpControl answer;
  answer.peer = "penstock";
  replies_->send(TcpKind::hello, answer);
  window_frames_ = hello.window_frames;
  window_bytes_ = hello.window_bytes;
  spdlog::info("tcp {}: connected: {}", peer_, hello.peer);
  return {};
}

Result<bool> TcpConnection::serve_one() {
  input_.begin_message();
  PEN_ASSIGN(const bool connected, input_.require(tcp_header_bytes));
  if (!connected) return false;
  place_.begin_message();
  PEN_ASSIGN(const auto header, decode_header(input_.view(0, tcp_header_bytes).first<tcp_header_bytes>()));
  if (header.kind == TcpKind::bye) {
    said_bye_ = true;
    return false;
  }
  PEN_TRY(serve_message(header), "message {} ({})", header.sequence, name(header.kind));
  place_.end_message();
  return true;
}

Result<void> TcpConnection::refuse(const TcpHeader& header, const Error& why) {
  reject(header.sequence, why);
  if (header.pixels_bytes > skip_factor * options_.limits.frame_bytes_max)
    return make_error(Errc::disconnected, "too long to be skipped; the connection is closed");
  input_.consume(tcp_header_bytes);
  return input_.discard(std::uint64_t{header.message_bytes} + header.pixels_bytes);
}

Result<void> TcpConnection::serve_message(const TcpHeader& header) {
  if (auto checked = check_lengths(header, options_.limits); !checked.ok()) return refuse(header, checked.error());
  const auto head_bytes = tcp_header_bytes + header.message_bytes;
  if (auto fits = check_room(header, sink_.pool().budget_bytes()); !fits.ok()) return refuse(header, fits.error());
  const bool large = header.pixels_bytes >= large_pixels_bytes;
  PEN_ASSIGN([[maybe_unused]] const bool head_here,
             input_.require(head_bytes + (large ? 0 : static_cast<std::size_t>(header.pixels_bytes))));
  // A frame of before may have waited for the pool; this one lies behind it, and is not to be dropped either.
  if (!large && header.kind == TcpKind::image) PEN_TRY(input_.leave_spare());
  auto message = input_.view(tcp_header_bytes, header.message_bytes);
  input_.read_ahead_to(large ? head_bytes : TcpInput::batch_bytes);
  Result<void> outcome;
  if (large) {
    auto buffer = input_.acquire_for_pixels(header.pixels_bytes);
    message = input_.view(tcp_header_bytes, header.message_bytes);
    if (!buffer.ok() && buffer.error().code() == Errc::too_large) return refuse(header, buffer.error());
    if (!buffer.ok() && buffer.error().code() == Errc::timed_out) return drop(header, message, buffer.error());
    if (!buffer.ok()) return std::move(buffer).error();
    input_.consume(head_bytes);
    const bool sums = (header.flags & tcp_flag_pixels_crc) != 0 || sink_.keeps_payloads();
    std::uint32_t crc = 0;
    PEN_TRY(input_.read_into((*buffer)->bytes(), sums ? &crc : nullptr));
    clear_padding(**buffer);
    outcome = deliver(header, message, {(*buffer)->bytes(), *buffer, sums ? std::optional(crc) : std::nullopt});
  } else if (header.kind == TcpKind::image && input_.is_spare()) {
    return drop(header, message, make_error(Errc::refused, "dropped: the pool is full"));
  } else {
    const auto pixels = input_.view(head_bytes, header.pixels_bytes);
    input_.consume(head_bytes + header.pixels_bytes);
    outcome = deliver(header, message, {pixels, input_.owner(), std::nullopt});
  }
  if (!outcome.ok()) {
    // The number is right though a later part of the message is not.
    if (crc32c(message) == header.message_crc) {
      account(message, Fate::damaged, options_.limits, sink_, [&](const std::string& unique_id) {
        (void)find_channels(unique_id);
        return session_ != nullptr ? session_->element() : std::nullopt;
      });
      if (const auto start = name_of_start(message, options_.limits)) sink_.refuse_start(*start, outcome.error());
    }
    reject(header.sequence, outcome.error());
  }
  return {};
}

/// The frame is known, and there is no room for its pixels: they are read over.
Result<void> TcpConnection::drop(const TcpHeader& header, Bytes message, const Error& why) {
  account(message, Fate::dropped, options_.limits, sink_);
  replies_->error(header.sequence, why);
  input_.consume(tcp_header_bytes + header.message_bytes);
  return input_.discard(header.pixels_bytes);
}

/// An error is one of the message alone, and not known to the sink yet.
Result<void> TcpConnection::deliver(const TcpHeader& header, Bytes message, const Pixels& pixels) {
  PEN_TRY(check_crc("CBOR", header.message_crc, crc32c(message)));
  if ((header.flags & tcp_flag_pixels_crc) != 0)
    PEN_TRY(check_crc("pixel", header.pixels_crc, pixels.crc ? *pixels.crc : crc32c(pixels.bytes)));
  if (header.kind != TcpKind::start && header.kind != TcpKind::image && header.kind != TcpKind::end)
    return make_error(Errc::out_of_order, "a message of kind {} from a client", name(header.kind));
  const bool is_long = message.size() >= long_message_bytes;
  while (is_long && !table_.long_messages().try_acquire_for(std::chrono::milliseconds(100)))
    if (stopping_) return make_error(Errc::cancelled, "the source is stopping");
  const auto give_back = [](TcpSeriesTable* table) { table->long_messages().release(); };
  std::unique_ptr<TcpSeriesTable, decltype(give_back)> turn(is_long ? &table_ : nullptr, give_back);
  PEN_ASSIGN(auto parsed, parse_detached(message, pixels.bytes, options_.limits));
  const bool same_kind = (header.kind == TcpKind::start && std::holds_alternative<Series>(parsed)) ||
                         (header.kind == TcpKind::image && std::holds_alternative<ImageMessage>(parsed)) ||
                         (header.kind == TcpKind::end && std::holds_alternative<SeriesEnd>(parsed));
  if (!same_kind)
    return make_error(Errc::mismatch, "the header says {}, but the message is another one", name(header.kind));
  if (auto* image = std::get_if<ImageMessage>(&parsed)) {
    const auto* channels = find_channels(image->series_unique_id);
    const Bytes readable(pixels.owner->bytes().data(), pixels.owner->capacity());
    for (const auto& remark : std::exchange(image->remarks, {}))
      sink_.note(
          fmt::format("tcp {}", peer_),
          remark.with_context(fmt::format("image {} of series \"{}\"", image->image_id, image->series_unique_id)));
    const auto number = image->image_id;
    const auto unique_id = image->series_unique_id;
    PEN_ASSIGN(auto delivery, frames_of(std::move(*image), channels, pixels.owner, readable));
    if (delivery.remark)
      sink_.note(fmt::format("tcp {}", peer_),
                 delivery.remark->with_context(fmt::format("image {} of series \"{}\"", number, unique_id)));
    for (auto& frame : delivery.frames) {
      const bool whole = frame.payload.data() == pixels.bytes.data() && frame.payload.size() == pixels.bytes.size();
      if (whole) frame.payload_crc = pixels.crc;
      frame.session = session_;  // whom to tell when it is safe
      frame.message = header.sequence;
      frame.more = &frame != &delivery.frames.back();
      if (session_ != nullptr) frame.element = session_->element();
      answer(header.sequence, sink_.put(std::move(frame)));
    }
  } else if (auto* series = std::get_if<Series>(&parsed)) {
    if (const auto field = lacks(*series); !field.empty())
      return make_error(Errc::malformed, "start: {}: missing; only over ZeroMQ the first image may provide it", field);
    turn.reset();  // to begin a series may take its time
    series->window_frames = window_of(*series);
    auto started = table_.start(std::move(*series), (header.flags & tcp_flag_resume) != 0, link_, sink_);
    if (!started.ok()) replies_->error(header.sequence, started.error());
  } else {
    auto& end = std::get<SeriesEnd>(parsed);
    end.answered = true;
    const auto known = table_.find(end.unique_id);
    if (known != nullptr) {
      known->end(*replies_, end);
      end.last = end.by_all && table_.is_last(*known);
    }
    answer(header.sequence, sink_.end(end));
  }
  return {};
}

/// Frames of each channel that the client keeps. A frame may come compressed, and then a little larger than it is.
std::uint64_t TcpConnection::window_of(const Series& series) const {
  auto frames = window_frames_;
  if (const auto raw = series.frame.bytes(std::numeric_limits<std::uint64_t>::max()); window_bytes_ > 0 && raw.ok()) {
    const auto fit = window_bytes_ / (*raw + *raw / 64 + 64);
    frames = frames > 0 ? std::min(frames, fit) : fit;
    frames = std::max<std::uint64_t>(frames, 1);  // the first one always finds room
  }
  return frames > 0 ? std::max<std::uint64_t>(frames / std::max<std::size_t>(series.channels.size(), 1), 1) : 0;
}

const std::vector<std::string>* TcpConnection::find_channels(const std::string& series_unique_id) {
  if (series_ == nullptr || series_->unique_id() != series_unique_id || series_->is_closed()) {
    series_ = table_.find(series_unique_id);
    session_ = series_ == nullptr ? nullptr : series_->session(link_);
    // Also of one that sent no start.
    if (session_ != nullptr) session_->set_window(window_of(series_->announced()));
  }
  return series_ == nullptr ? nullptr : &series_->channels();
}

/// The sink has counted what it refuses; the client is told.
void TcpConnection::answer(std::uint64_t sequence, const Result<void>& outcome) {
  if (!outcome.ok()) replies_->error(sequence, outcome.error());
}

}  // namespace penstock::stream
