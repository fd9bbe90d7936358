/// The fixed header of Penstock's TCP protocol and its control messages, as bytes; no I/O.
/// docs/reference/tcp.md is the specification.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace penstock::stream {

constexpr std::size_t tcp_header_bytes = 64;
constexpr std::uint16_t tcp_version = 1;

enum class TcpKind : std::uint16_t {
  hello = 1,
  start = 2,
  image = 3,
  end = 4,
  ack = 5,
  error = 6,
  closed = 7,
  bye = 8
};
std::string_view name(TcpKind kind);

/// The series of a start message may be known to the receiver: join it.
constexpr std::uint32_t tcp_flag_resume = 1;
/// pixels_crc holds the CRC-32C of the pixel part.
constexpr std::uint32_t tcp_flag_pixels_crc = 2;

struct TcpHeader {
  TcpKind kind = TcpKind::hello;
  std::uint32_t flags = 0;
  std::uint32_t message_bytes = 0;  ///< of the CBOR part
  std::uint64_t pixels_bytes = 0;
  std::uint64_t sequence = 0;
  std::uint32_t message_crc = 0;
  std::uint32_t pixels_crc = 0;
};

/// Writes the header, its checksum included.
void encode_header(const TcpHeader& header, std::span<std::byte, tcp_header_bytes> into);
/// An error means that what follows cannot be found: the connection is lost.
Result<TcpHeader> decode_header(std::span<const std::byte, tcp_header_bytes> from);

/// The CBOR part of hello, ack, error, closed and bye. Each kind uses some of the fields.
struct TcpControl {
  std::string peer;   ///< hello: name and version, for logs
  std::string token;  ///< hello, from the client
  /// hello, from a client: identifies it, the same for all its connections; empty: not sent.
  std::string client;
  /// hello, from a client: what it keeps that is not acknowledged, at most, in messages and in bytes of their pixels;
  /// 0: any, or not sent.
  std::uint64_t window_frames = 0;
  std::uint64_t window_bytes = 0;
  std::string series_unique_id;  ///< ack, closed
  std::string ended_by;          ///< closed: why the series ended, as in the event series_end; empty: not sent
  std::uint64_t safe_below = 0;  ///< ack, closed
  std::uint64_t sequence = 0;    ///< error: of the message at fault
  std::string code;              ///< error
  std::string text;              ///< error: the message; closed: the problem, empty if there is none
};

/// Header and CBOR part of a control message.
std::vector<std::byte> encode_control(TcpKind kind, std::uint64_t sequence, const TcpControl& control);
Result<TcpControl> parse_control(TcpKind kind, Bytes message);

}  // namespace penstock::stream
