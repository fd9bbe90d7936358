/// What the kernel reports about one TCP connection.
#pragma once

#include <cstdint>

#include "base/fields.hpp"
#include "base/net/socket.hpp"
#include "base/result.hpp"

namespace penstock::load {

/// Since the connection was made, as this end sees it. What an older kernel does not report is 0.
struct TcpNumbers {
  std::uint64_t bytes_sent = 0;  ///< with those sent again
  std::uint64_t bytes_sent_again = 0;
  std::uint64_t segments_sent = 0;
  std::uint64_t segments_sent_again = 0;
  std::uint64_t round_trip_us = 0;      ///< smoothed, as the kernel has it now
  std::uint64_t round_trip_min_us = 0;  ///< the shortest one
  std::uint64_t segment_bytes_max = 0;
  std::uint64_t window_segments = 0;         ///< the congestion window
  std::uint64_t waited_for_receiver_us = 0;  ///< the peer's receive window was full
  std::uint64_t waited_for_send_buffer_us = 0;
};

/// All zero where the kernel does not answer.
TcpNumbers tcp_numbers(const Socket& socket);
Json to_json(const TcpNumbers& numbers);
/// From a peer: every field is there, and below 2^53.
Result<TcpNumbers> parse_tcp_numbers(const Json& json, const std::string& path);

}  // namespace penstock::load
