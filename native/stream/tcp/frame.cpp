#include "stream/tcp/frame.hpp"

#include <algorithm>
#include <utility>

#include "base/crc32c.hpp"
#include "stream/messages/array_field.hpp"
#include "stream/messages/cbor.hpp"

namespace penstock::stream {
namespace {

constexpr std::array<std::byte, 4> magic{std::byte{'P'}, std::byte{'N'}, std::byte{'S'}, std::byte{'T'}};
constexpr std::size_t header_crc_offset = 60;
constexpr std::size_t control_text_bytes_max = 64 << 10;
constexpr int control_nesting_max = 4;

constexpr std::array<std::string_view, 8> kind_names{"hello", "start", "image", "end", "ack", "error", "closed", "bye"};

Result<std::string> read_control_text(CborReader& reader) {
  std::string scratch;
  PEN_ASSIGN(const auto text, reader.text(scratch));
  if (text.size() > control_text_bytes_max) return make_error(Errc::too_large, "text of {} bytes", text.size());
  return std::string(text);
}

Result<void> read_control_field(CborReader& reader, std::string_view key, TcpControl& control) {
  const std::array<std::pair<std::string_view, std::string TcpControl::*>, 8> texts{{
      {"name", &TcpControl::peer},
      {"token", &TcpControl::token},
      {"client", &TcpControl::client},
      {"series_unique_id", &TcpControl::series_unique_id},
      {"code", &TcpControl::code},
      {"message", &TcpControl::text},
      {"problem", &TcpControl::text},
      {"ended_by", &TcpControl::ended_by},
  }};
  for (const auto& [name, member] : texts) {
    if (key != name) continue;
    if (reader.peek() == CborKind::null) return reader.null();
    PEN_ASSIGN(control.*member, read_control_text(reader));
    return {};
  }
  if (key == "safe_below") {
    PEN_ASSIGN(control.safe_below, reader.unsigned_integer());
  } else if (key == "window_frames") {
    PEN_ASSIGN(control.window_frames, reader.unsigned_integer());
  } else if (key == "window_bytes") {
    PEN_ASSIGN(control.window_bytes, reader.unsigned_integer());
  } else if (key == "sequence") {
    PEN_ASSIGN(control.sequence, reader.unsigned_integer());
  } else {
    return reader.skip();
  }
  return {};
}

void write_control(CborWriter& writer, TcpKind kind, const TcpControl& control) {
  const auto text = [&](std::string_view key, std::string_view value) {
    writer.text(key);
    writer.text(value);
  };
  const auto number = [&](std::string_view key, std::uint64_t value) {
    writer.text(key);
    writer.unsigned_integer(value);
  };
  writer.tag(tag_self_described);
  switch (kind) {
    case TcpKind::hello:
      writer.map(2U + (control.token.empty() ? 0 : 1) + (control.client.empty() ? 0 : 1) +
                 (control.window_frames > 0 ? 1 : 0) + (control.window_bytes > 0 ? 1 : 0));
      text("type", "hello");
      text("name", control.peer);
      if (!control.token.empty()) text("token", control.token);
      if (!control.client.empty()) text("client", control.client);
      if (control.window_frames > 0) number("window_frames", control.window_frames);
      if (control.window_bytes > 0) number("window_bytes", control.window_bytes);
      return;
    case TcpKind::ack:
      writer.map(3);
      text("type", "ack");
      text("series_unique_id", control.series_unique_id);
      number("safe_below", control.safe_below);
      return;
    case TcpKind::error:
      writer.map(4);
      text("type", "error");
      number("sequence", control.sequence);
      text("code", control.code);
      text("message", control.text);
      return;
    case TcpKind::closed:
      writer.map(control.ended_by.empty() ? 4 : 5);
      text("type", "closed");
      text("series_unique_id", control.series_unique_id);
      number("safe_below", control.safe_below);
      writer.text("problem");
      if (control.text.empty())
        writer.null();
      else
        writer.text(control.text);
      if (!control.ended_by.empty()) text("ended_by", control.ended_by);
      return;
    default:
      writer.map(1);
      text("type", name(kind));
      return;
  }
}

}  // namespace

std::string_view name(TcpKind kind) {
  const auto index = static_cast<std::size_t>(kind) - 1;
  return index < kind_names.size() ? kind_names[index] : "unknown";
}

void encode_header(const TcpHeader& header, std::span<std::byte, tcp_header_bytes> into) {
  std::fill(into.begin(), into.end(), std::byte{0});
  std::copy(magic.begin(), magic.end(), into.begin());
  store_le(&into[4], tcp_version);
  store_le(&into[6], static_cast<std::uint16_t>(header.kind));
  store_le(&into[8], header.flags);
  store_le(&into[12], header.message_bytes);
  store_le(&into[16], header.pixels_bytes);
  store_le(&into[24], header.sequence);
  store_le(&into[32], header.message_crc);
  store_le(&into[36], header.pixels_crc);
  store_le(&into[header_crc_offset], crc32c(Bytes(into).first(header_crc_offset)));
}

Result<TcpHeader> decode_header(std::span<const std::byte, tcp_header_bytes> from) {
  if (!std::equal(magic.begin(), magic.end(), from.begin()))
    return make_error(Errc::malformed, "magic {:02x} {:02x} {:02x} {:02x} is not that of Penstock's protocol",
                      std::to_integer<int>(from[0]), std::to_integer<int>(from[1]), std::to_integer<int>(from[2]),
                      std::to_integer<int>(from[3]));
  const auto crc = load_le<std::uint32_t>(&from[header_crc_offset]);
  const auto computed = crc32c(Bytes(from).first(header_crc_offset));
  if (crc != computed) return make_error(Errc::mismatch, "header checksum {:08x}, computed {:08x}", crc, computed);
  const auto version = load_le<std::uint16_t>(&from[4]);
  if (version != tcp_version)
    return make_error(Errc::unsupported, "protocol version {} is not supported, expected {}", version, tcp_version);
  const auto kind = load_le<std::uint16_t>(&from[6]);
  if (kind < 1 || kind > kind_names.size()) return make_error(Errc::unsupported, "message kind {}", kind);
  TcpHeader header;
  header.kind = static_cast<TcpKind>(kind);
  header.flags = load_le<std::uint32_t>(&from[8]);
  header.message_bytes = load_le<std::uint32_t>(&from[12]);
  header.pixels_bytes = load_le<std::uint64_t>(&from[16]);
  header.sequence = load_le<std::uint64_t>(&from[24]);
  header.message_crc = load_le<std::uint32_t>(&from[32]);
  header.pixels_crc = load_le<std::uint32_t>(&from[36]);
  return header;
}

std::vector<std::byte> encode_control(TcpKind kind, std::uint64_t sequence, const TcpControl& control) {
  std::vector<std::byte> bytes(tcp_header_bytes);
  CborWriter writer(bytes);
  write_control(writer, kind, control);
  const auto message = Bytes(bytes).subspan(tcp_header_bytes);
  TcpHeader header;
  header.kind = kind;
  header.message_bytes = static_cast<std::uint32_t>(message.size());
  header.sequence = sequence;
  header.message_crc = crc32c(message);
  encode_header(header, std::span(bytes).first<tcp_header_bytes>());
  return bytes;
}

Result<TcpControl> parse_control(TcpKind kind, Bytes message) {
  CborReader reader(message, control_nesting_max);
  PEN_ASSIGN(const auto tag, reader.tag());
  if (tag != tag_self_described) return make_error(Errc::malformed, "starts with CBOR tag {}", tag);
  PEN_ASSIGN(auto fields, reader.enter_map());
  TcpControl control;
  std::string scratch;
  bool has_type = false;
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(fields));
    if (!another) break;
    PEN_ASSIGN(const auto key, reader.text(scratch));
    if (key == "type") {
      PEN_ASSIGN(const auto type, reader.text(scratch), "type");
      if (type != name(kind))
        return make_error(Errc::mismatch, "type \"{}\" in a message of kind {}", type.substr(0, 32), name(kind));
      has_type = true;
    } else {
      PEN_TRY(read_control_field(reader, key, control), "{}", std::string(key.substr(0, 64)));
    }
  }
  if (!has_type) return make_error(Errc::malformed, "type: missing");
  return control;
}

}  // namespace penstock::stream
