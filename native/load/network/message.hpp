/// What the two ends of a network workload say to each other (docs/reference/network.md): a head of 16 bytes, then one
/// JSON object. Everything in it is hostile until it is parsed; lengths are bounded before memory is taken for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/fields.hpp"
#include "base/net/socket.hpp"
#include "base/result.hpp"
#include "load/gaps.hpp"
#include "load/network/plan.hpp"
#include "load/network/tcp_numbers.hpp"

namespace penstock::load {

constexpr std::uint32_t network_version = 2;
constexpr std::size_t network_head_bytes = 16;
constexpr std::uint32_t small_message_bytes_max = 4096;
constexpr std::uint32_t report_bytes_max = 1 << 20;
constexpr std::size_t report_intervals_max = 10'000;

/// The first message of a connection.
struct Hello {
  bool is_stream = false;    ///< else it asks for a session
  std::string token;         ///< empty: none
  std::string session;       ///< of a stream: what the server called it
  std::uint64_t number = 0;  ///< of a stream, from 0
};

/// What the client wants measured next.
struct PhaseOrder {
  Pattern pattern = Pattern::echo;
  unsigned streams = 1;
  std::uint64_t message_bytes = 0;
  double seconds = 0;
  double interval_s = 0;  ///< of the time series
};

/// What one end saw of one stream.
struct StreamSide {
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  double busy_s = 0;  ///< processor time of the busier one of its threads
  TcpNumbers before;
  TcpNumbers after;
};

/// What one end saw of a phase. Times are its own clock's, from the start.
struct Side {
  double received_s = 0;  ///< until the last byte had come
  double seconds = 0;     ///< until all its streams were done
  double user_s = 0;      ///< processor time of the whole program
  double system_s = 0;
  std::vector<std::uint64_t> received_series;  ///< bytes in each interval
  std::vector<StreamSide> streams;
  Gaps gaps;
};

/// The bytes after a head; an error if this is not a head of ours, or of another version.
Result<std::uint32_t> parse_head(Bytes head, std::uint32_t bytes_max);
std::vector<std::byte> encode_message(const Json& message);

/// `type` of a message, which is there and short.
Result<std::string> type_of(const Json& message);
Json to_json(const Hello& hello);
Result<Hello> parse_hello(const Json& message);
Json to_json(const PhaseOrder& order);
Result<PhaseOrder> parse_order(const Json& message);
Json to_json(const Side& side);
/// Of a phase with this number of streams.
Result<Side> parse_side(const Json& json, unsigned streams);
/// What a peer wrote, fit for a terminal: printable, and short.
std::string quoted_text(std::string_view text);

/// How long somebody waits for a peer.
struct Patience {
  std::int64_t deadline_ns;  ///< monotonic
  const std::atomic<bool>& stop;
  bool over() const;
};

Result<void> send_message(Socket& socket, const Json& message);
/// `cancelled` where it was stopped, `timed_out` where the whole message was not there in time, `refused` where the
/// peer sent a refusal instead.
Result<Json> receive_message(Socket& socket, std::uint32_t bytes_max, const Patience& patience);
/// The same for a message of one type.
Result<Json> expect_message(Socket& socket, std::string_view type, std::uint32_t bytes_max, const Patience& patience);

}  // namespace penstock::load
