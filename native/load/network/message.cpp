#include "load/network/message.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "base/time/clock.hpp"

namespace penstock::load {
namespace {

constexpr std::string_view magic = "PENSTNET";
constexpr std::size_t session_bytes_max = 64;
constexpr std::size_t quoted_bytes_max = 300;
constexpr std::int64_t look_again_ns = 100'000'000;

Result<void> receive_exactly(Socket& socket, MutableBytes into, const Patience& patience) {
  while (!into.empty()) {
    if (patience.stop) return make_error(Errc::cancelled, "stopped");
    const auto left_ns = patience.deadline_ns - monotonic_ns();
    if (left_ns <= 0) return make_error(Errc::timed_out, "no complete message arrived in time");
    const auto wait = std::chrono::milliseconds(std::min(left_ns, look_again_ns) / 1'000'000 + 1);
    PEN_ASSIGN(const bool some, socket.readable(wait));
    if (!some) continue;
    PEN_ASSIGN(const auto got, socket.receive_now(into));
    into = into.subspan(got);
  }
  return {};
}

/// A number that has to be there, finite and not negative.
Result<double> duration_of(Fields& fields, const std::string& name) {
  PEN_TRY(fields.require(name));
  return fields.number(name, 0, 0, 10 * network_seconds_max);
}

Result<std::uint64_t> count_of(Fields& fields, const std::string& name) {
  PEN_TRY(fields.require(name));
  return fields.whole(name, 0, 0, std::uint64_t{1} << 53);
}

Result<StreamSide> parse_stream_side(const Json& json, const std::string& path) {
  PEN_ASSIGN(auto fields, Fields::of(json, path));
  StreamSide stream;
  PEN_ASSIGN(stream.sent_bytes, count_of(fields, "sent_bytes"));
  PEN_ASSIGN(stream.received_bytes, count_of(fields, "received_bytes"));
  PEN_ASSIGN(stream.busy_s, duration_of(fields, "busy_s"));
  PEN_TRY(fields.require("before"));
  PEN_ASSIGN(stream.before, parse_tcp_numbers(*fields.find("before"), fields.path_of("before")));
  PEN_TRY(fields.require("after"));
  PEN_ASSIGN(stream.after, parse_tcp_numbers(*fields.find("after"), fields.path_of("after")));
  PEN_TRY(fields.refuse_others());
  return stream;
}

Result<std::vector<std::uint64_t>> parse_series(Fields& fields, const std::string& name) {
  const auto expected = fmt::format("at most {} counts of bytes", report_intervals_max);
  const auto* list = fields.find(name);
  if (list == nullptr || !list->is_array() || list->size() > report_intervals_max) return fields.wrong(name, expected);
  std::vector<std::uint64_t> series;
  for (const auto& item : *list) {
    if (!item.is_number_unsigned()) return fields.wrong(name, expected);
    series.push_back(item.get<std::uint64_t>());
  }
  return series;
}

Result<Gaps> parse_gaps(Fields& fields, const std::string& name) {
  PEN_TRY(fields.require(name));
  PEN_ASSIGN(auto of_gaps, Fields::of(*fields.find(name), fields.path_of(name)));
  Gaps gaps;
  PEN_ASSIGN(const auto longest_ns, count_of(of_gaps, "longest_ns"));
  PEN_ASSIGN(const auto sum_ns, count_of(of_gaps, "sum_ns"));
  gaps.longest_ns = static_cast<std::int64_t>(longest_ns);
  gaps.sum_ns = static_cast<std::int64_t>(sum_ns);
  PEN_TRY(of_gaps.refuse_others());
  return gaps;
}

}  // namespace

bool Patience::over() const { return stop || monotonic_ns() >= deadline_ns; }

Result<std::uint32_t> parse_head(Bytes head, std::uint32_t bytes_max) {
  if (head.size() != network_head_bytes || as_text(head.first(magic.size())) != magic)
    return make_error(Errc::malformed, "the other end does not speak the protocol of network measurements");
  const auto version = load_le<std::uint32_t>(head.data() + magic.size());
  if (version != network_version)
    return make_error(Errc::unsupported,
                      "the other end speaks version {} of the protocol of network measurements, and this one version "
                      "{}: install the same Penstock at both ends",
                      version, network_version);
  const auto bytes = load_le<std::uint32_t>(head.data() + magic.size() + sizeof version);
  if (bytes > bytes_max)
    return make_error(Errc::too_large, "a message of {} bytes, where at most {} are expected", bytes, bytes_max);
  return bytes;
}

std::vector<std::byte> encode_message(const Json& message) {
  const auto text = message.dump(-1, ' ', true, Json::error_handler_t::replace);
  std::vector<std::byte> bytes(network_head_bytes + text.size());
  std::memcpy(bytes.data(), magic.data(), magic.size());
  store_le(bytes.data() + magic.size(), network_version);
  store_le(bytes.data() + magic.size() + sizeof network_version, static_cast<std::uint32_t>(text.size()));
  std::memcpy(bytes.data() + network_head_bytes, text.data(), text.size());
  return bytes;
}

Result<std::string> type_of(const Json& message) {
  PEN_ASSIGN(auto fields, Fields::of(message, ""));
  PEN_TRY(fields.require("type"));
  return fields.text("type", "");
}

Json to_json(const Hello& hello) {
  Json message = {{"type", hello.is_stream ? "stream" : "session"}};
  if (!hello.token.empty()) message["token"] = hello.token;
  if (hello.is_stream) message.update({{"session", hello.session}, {"number", hello.number}});
  return message;
}

Result<Hello> parse_hello(const Json& message) {
  PEN_ASSIGN(auto fields, Fields::of(message, ""));
  Hello hello;
  PEN_ASSIGN(const auto type, fields.text("type", ""));
  if (type != "session" && type != "stream") return fields.wrong("type", "session or stream");
  hello.is_stream = type == "stream";
  PEN_ASSIGN(hello.token, fields.text("token", ""));
  if (hello.token.size() > token_bytes_max)
    return make_error(Errc::too_large, "token has {} bytes, expected at most {}", hello.token.size(), token_bytes_max);
  if (hello.is_stream) {
    PEN_TRY(fields.require("session"));
    PEN_ASSIGN(hello.session, fields.text("session", ""));
    if (hello.session.size() > session_bytes_max) return fields.wrong("session", "a session's name");
    PEN_TRY(fields.require("number"));
    PEN_ASSIGN(hello.number, fields.whole("number", 0, 0, network_streams_max - 1));
  }
  PEN_TRY(fields.refuse_others());
  return hello;
}

Json to_json(const PhaseOrder& order) {
  return {{"type", "phase"},          {"pattern", name(order.pattern)},
          {"streams", order.streams}, {"message_bytes", order.message_bytes},
          {"seconds", order.seconds}, {"interval_s", order.interval_s}};
}

Result<PhaseOrder> parse_order(const Json& message) {
  PEN_ASSIGN(auto fields, Fields::of(message, ""));
  PhaseOrder order;
  for (const auto* each : {"type", "pattern", "streams", "message_bytes", "seconds", "interval_s"})
    PEN_TRY(fields.require(each));
  PEN_ASSIGN(const auto type, fields.text("type", ""));
  if (type != "phase") return fields.wrong("type", "phase");
  PEN_ASSIGN(const auto pattern, fields.text("pattern", ""));
  PEN_ASSIGN(order.pattern, pattern_of(pattern));
  PEN_ASSIGN(const auto streams, fields.whole("streams", 1, 1, network_streams_max));
  order.streams = static_cast<unsigned>(streams);
  PEN_ASSIGN(order.message_bytes, fields.whole("message_bytes", 1, 1, network_message_bytes_max));
  PEN_ASSIGN(order.seconds, fields.number("seconds", 0, 0.001, network_seconds_max));
  const auto interval_least_s = order.seconds / static_cast<double>(report_intervals_max);
  PEN_ASSIGN(order.interval_s, fields.number("interval_s", 0, interval_least_s, network_seconds_max));
  PEN_TRY(fields.refuse_others());
  return order;
}

Json to_json(const Side& side) {
  auto streams = Json::array();
  for (const auto& stream : side.streams)
    streams.push_back({{"sent_bytes", stream.sent_bytes},
                       {"received_bytes", stream.received_bytes},
                       {"busy_s", stream.busy_s},
                       {"before", to_json(stream.before)},
                       {"after", to_json(stream.after)}});
  return {{"received_s", side.received_s},
          {"seconds", side.seconds},
          {"user_s", side.user_s},
          {"system_s", side.system_s},
          {"received_series", side.received_series},
          {"gaps", to_json(side.gaps)},
          {"streams", std::move(streams)}};
}

Result<Side> parse_side(const Json& json, unsigned streams) {
  PEN_ASSIGN(auto fields, Fields::of(json, "side"));
  Side side;
  PEN_ASSIGN(side.received_s, duration_of(fields, "received_s"));
  PEN_ASSIGN(side.seconds, duration_of(fields, "seconds"));
  PEN_ASSIGN(side.user_s, duration_of(fields, "user_s"));
  PEN_ASSIGN(side.system_s, duration_of(fields, "system_s"));
  PEN_ASSIGN(side.received_series, parse_series(fields, "received_series"));
  PEN_ASSIGN(side.gaps, parse_gaps(fields, "gaps"));
  const auto* list = fields.find("streams");
  if (list == nullptr || !list->is_array() || list->size() != streams)
    return fields.wrong("streams", fmt::format("a list of {}", streams));
  for (const auto& each : *list) {
    PEN_ASSIGN(auto stream, parse_stream_side(each, "side.streams"));
    side.streams.push_back(stream);
  }
  PEN_TRY(fields.refuse_others());
  return side;
}

std::string quoted_text(std::string_view text) {
  std::string printable(text.substr(0, quoted_bytes_max));
  std::replace_if(
      printable.begin(), printable.end(), [](char letter) { return letter < ' ' || letter > '~'; }, '?');
  return printable;
}

Result<void> send_message(Socket& socket, const Json& message) { return socket.send_all(encode_message(message)); }

Result<Json> receive_message(Socket& socket, std::uint32_t bytes_max, const Patience& patience) {
  std::array<std::byte, network_head_bytes> head{};
  PEN_TRY(receive_exactly(socket, head, patience));
  PEN_ASSIGN(const auto size, parse_head(head, bytes_max));
  std::vector<std::byte> text(size);
  PEN_TRY(receive_exactly(socket, text, patience));
  PEN_ASSIGN(auto message, parse_json(as_text(text), "the message"));
  PEN_ASSIGN(const auto type, type_of(message));
  if (type != "refused") return message;
  PEN_ASSIGN(auto fields, Fields::of(message, ""));
  PEN_ASSIGN(const auto why, fields.text("text", "it gives no reason"));
  return make_error(Errc::refused, "the other end rejects the request: {}", quoted_text(why));
}

Result<Json> expect_message(Socket& socket, std::string_view type, std::uint32_t bytes_max, const Patience& patience) {
  PEN_ASSIGN(auto message, receive_message(socket, bytes_max, patience));
  PEN_ASSIGN(const auto found, type_of(message));
  if (found != type)
    return make_error(Errc::out_of_order, "received a message of type {}, expected {}", quoted_text(found), type);
  return message;
}

}  // namespace penstock::load
