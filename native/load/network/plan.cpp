#include "load/network/plan.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace penstock::load {
namespace {

constexpr std::pair<std::string_view, Pattern> pattern_names[] = {
    {"echo", Pattern::echo}, {"up", Pattern::up}, {"down", Pattern::down}, {"both", Pattern::both}};
constexpr std::size_t host_bytes_max = 255;
constexpr std::size_t list_max = 64;
constexpr std::size_t cpus_of_a_list_max = 1024;
constexpr std::uint64_t cpus_max = 65536;  // more than the kernel can be built for

template <typename Plan>
void address_fields(Archive& archive, Plan& plan, std::uint64_t port_least) {
  archive.required("host", plan.host, Length{1, host_bytes_max});
  archive.required("port", plan.port, between(port_least, std::numeric_limits<std::uint16_t>::max()));
  archive.secret("token", plan.token, Length{0, token_bytes_max});
}

void cpus_field(Archive& archive, std::vector<unsigned>& cpus) {
  archive.field("cpus", cpus, Count{0, cpus_of_a_list_max}, between(0, cpus_max - 1));
}

}  // namespace

std::string_view name(Pattern pattern) {
  return std::find_if(std::begin(pattern_names), std::end(pattern_names),
                      [pattern](const auto& named) { return named.second == pattern; })
      ->first;
}

Result<Pattern> pattern_of(std::string_view text) {
  for (const auto& [known, pattern] : pattern_names)
    if (known == text) return pattern;
  return make_error(Errc::malformed, "\"{}\" is not a pattern, expected echo, up, down or both", text.substr(0, 32));
}

static penstock::Names<Pattern> names_of(Pattern) { return pattern_names; }

void fields(Archive& archive, NetworkPlan& plan) {
  constexpr auto message = between(1, network_message_bytes_max);
  constexpr auto phase = between_reals(0.01, network_seconds_max);
  address_fields(archive, plan, 1);
  archive.field("streams", plan.streams, between(1, network_streams_max));
  archive.field("message_bytes", plan.message_bytes, message);
  archive.field("seconds", plan.seconds, phase);
  archive.field("transfers", plan.transfers, Count{0, list_max});
  archive.field("echo_bytes", plan.echo_bytes, Count{0, list_max}, message);
  archive.field("echo_seconds", plan.echo_seconds, phase);
  cpus_field(archive, plan.cpus);
  if (!archive.sound()) return;
  archive.check(std::find(plan.transfers.begin(), plan.transfers.end(), Pattern::echo) == plan.transfers.end(),
                "transfers", "must be a list of up, down and both");
  archive.check(!plan.transfers.empty() || !plan.echo_bytes.empty(), "transfers",
                "must have at least one, or echo_bytes one size");
}

void fields(Archive& archive, NetworkServerPlan& plan) {
  address_fields(archive, plan, 0);
  archive.field("sessions", plan.sessions, between(0, 1'000'000'000));
  archive.field("seconds_max", plan.seconds_max, between_reals(0, 30.0 * 86400));
  cpus_field(archive, plan.cpus);
}

CpuMask mask_of(const std::vector<unsigned>& cpus) {
  constexpr unsigned bits = 8 * sizeof(unsigned long);
  CpuMask mask;
  for (const auto cpu : cpus) {
    if (cpu / bits >= mask.size()) mask.resize(cpu / bits + 1);
    mask[cpu / bits] |= 1UL << cpu % bits;
  }
  return mask;
}

}  // namespace penstock::load
