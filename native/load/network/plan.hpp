/// The two ends of a network workload, as their plans describe them (docs/reference/load.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/archive.hpp"
#include "base/threads.hpp"

namespace penstock::load {

constexpr unsigned network_streams_max = 64;
constexpr std::uint64_t network_message_bytes_max = std::uint64_t{1} << 24;
constexpr double network_seconds_max = 3600;
constexpr std::size_t token_bytes_max = 256;

/// What goes over the streams of one phase. The client is the end that knows the address of the other one.
enum class Pattern {
  echo,  ///< a message there and back, then the next one
  up,    ///< from the client to the server
  down,  ///< from the server to the client
  both   ///< both ways at once, over the same connections
};
std::string_view name(Pattern pattern);
/// Returns nullopt if no pattern has that name.
Result<Pattern> pattern_of(std::string_view text);

struct NetworkPlan {
  static constexpr const char* kind = "network";
  std::string host;
  std::uint16_t port = 0;
  std::string token;  ///< empty: none
  unsigned streams = 1;
  std::uint64_t message_bytes = 131072;  ///< of one call, in a transfer
  double seconds = 10;                   ///< of each transfer
  std::vector<Pattern> transfers{Pattern::up, Pattern::down, Pattern::both};
  std::vector<std::uint64_t> echo_bytes;  ///< sizes of messages that go there and back, a phase each
  double echo_seconds = 1;
  std::vector<unsigned> cpus;  ///< empty: wherever the kernel puts the threads
};

struct NetworkServerPlan {
  static constexpr const char* kind = "network_server";
  std::string host;
  std::uint16_t port = 0;
  std::string token;           ///< empty: none, which loopback alone allows
  std::uint64_t sessions = 0;  ///< maximum number; 0: no limit
  double seconds_max = 0;      ///< maximum duration; 0: no limit
  std::vector<unsigned> cpus;
};

void fields(Archive& archive, NetworkPlan& plan);
void fields(Archive& archive, NetworkServerPlan& plan);

CpuMask mask_of(const std::vector<unsigned>& cpus);

}  // namespace penstock::load
