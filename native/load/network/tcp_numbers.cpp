#include "load/network/tcp_numbers.hpp"

// The kernel's own header: the library's ends before bytes are counted.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <utility>

namespace penstock::load {
namespace {

using Member = std::uint64_t TcpNumbers::*;
constexpr std::array<std::pair<const char*, Member>, 10> members = {
    {{"bytes_sent", &TcpNumbers::bytes_sent},
     {"bytes_sent_again", &TcpNumbers::bytes_sent_again},
     {"segments_sent", &TcpNumbers::segments_sent},
     {"segments_sent_again", &TcpNumbers::segments_sent_again},
     {"round_trip_us", &TcpNumbers::round_trip_us},
     {"round_trip_min_us", &TcpNumbers::round_trip_min_us},
     {"segment_bytes_max", &TcpNumbers::segment_bytes_max},
     {"window_segments", &TcpNumbers::window_segments},
     {"waited_for_receiver_us", &TcpNumbers::waited_for_receiver_us},
     {"waited_for_send_buffer_us", &TcpNumbers::waited_for_send_buffer_us}}};

}  // namespace

TcpNumbers tcp_numbers(const Socket& socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket.descriptor(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  return {.bytes_sent = info.tcpi_bytes_sent,
          .bytes_sent_again = info.tcpi_bytes_retrans,
          .segments_sent = info.tcpi_segs_out,
          .segments_sent_again = info.tcpi_total_retrans,
          .round_trip_us = info.tcpi_rtt,
          .round_trip_min_us = info.tcpi_min_rtt,
          .segment_bytes_max = info.tcpi_snd_mss,
          .window_segments = info.tcpi_snd_cwnd,
          .waited_for_receiver_us = info.tcpi_rwnd_limited,
          .waited_for_send_buffer_us = info.tcpi_sndbuf_limited};
}

Json to_json(const TcpNumbers& numbers) {
  auto json = Json::object();
  for (const auto& [name, member] : members) json[name] = numbers.*member;
  return json;
}

Result<TcpNumbers> parse_tcp_numbers(const Json& json, const std::string& path) {
  PEN_ASSIGN(auto fields, Fields::of(json, path));
  TcpNumbers numbers;
  for (const auto& [name, member] : members) {
    PEN_TRY(fields.require(name));
    PEN_ASSIGN(numbers.*member, fields.whole(name, 0, 0, std::uint64_t{1} << 53));
  }
  PEN_TRY(fields.refuse_others());
  return numbers;
}

}  // namespace penstock::load
