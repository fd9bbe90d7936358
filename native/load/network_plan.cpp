#include "load/network_plan.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace penstock::load {
namespace {

constexpr std::array<std::pair<std::string_view, Pattern>, 4> pattern_names = {
    {{"echo", Pattern::echo}, {"up", Pattern::up}, {"down", Pattern::down}, {"both", Pattern::both}}};
constexpr std::size_t host_bytes_max = 255;
constexpr std::size_t list_max = 64;
constexpr std::uint64_t cpus_max = 65536;  // more than the kernel can be built for
constexpr const char* hidden = "(hidden)";

Result<std::vector<std::uint64_t>> read_numbers(Fields& fields, const std::string& name, std::size_t count_max,
                                                std::uint64_t least, std::uint64_t most) {
  const auto expected = fmt::format("at most {} whole numbers from {} to {}", count_max, least, most);
  std::vector<std::uint64_t> numbers;
  const auto* list = fields.find(name);
  if (list == nullptr) return numbers;
  if (!list->is_array() || list->size() > count_max) return fields.wrong(name, expected);
  for (const auto& item : *list) {
    if (!item.is_number_unsigned()) return fields.wrong(name, expected);
    numbers.push_back(item.get<std::uint64_t>());
    if (numbers.back() < least || numbers.back() > most) return fields.wrong(name, expected);
  }
  return numbers;
}

Result<std::vector<unsigned>> read_cpus(Fields& fields) {
  PEN_ASSIGN(const auto numbers, read_numbers(fields, "cpus", 1024, 0, cpus_max - 1));
  return std::vector<unsigned>(numbers.begin(), numbers.end());
}

Result<std::vector<Pattern>> read_transfers(Fields& fields) {
  std::vector<Pattern> patterns;
  const auto* list = fields.find("transfers");
  if (list == nullptr) return std::vector{Pattern::up, Pattern::down, Pattern::both};
  constexpr auto expected = "a list of up, down and both";
  if (!list->is_array() || list->size() > list_max) return fields.wrong("transfers", expected);
  for (const auto& item : *list) {
    const auto pattern =
        item.is_string() ? pattern_of(item.get<std::string>()) : Result<Pattern>(Error(Errc::malformed, ""));
    if (!pattern.ok() || *pattern == Pattern::echo) return fields.wrong("transfers", expected);
    patterns.push_back(*pattern);
  }
  return patterns;
}

template <typename Plan>
Result<void> read_address(Fields& fields, Plan& plan, std::uint64_t port_least) {
  PEN_TRY(fields.require("host"));
  PEN_ASSIGN(plan.host, fields.text("host", ""));
  if (plan.host.empty() || plan.host.size() > host_bytes_max || plan.host.find('\0') != std::string::npos)
    return fields.wrong("host", "a name or an address");
  PEN_TRY(fields.require("port"));
  PEN_ASSIGN(const auto port, fields.whole("port", 0, port_least, std::numeric_limits<std::uint16_t>::max()));
  plan.port = static_cast<std::uint16_t>(port);
  PEN_ASSIGN(plan.token, fields.text("token", ""));
  // Not with the value, as other errors have it.
  if (plan.token.size() > token_bytes_max)
    return make_error(Errc::invalid_argument, "{} has {} bytes, expected at most {}", fields.path_of("token"),
                      plan.token.size(), token_bytes_max);
  return {};
}

}  // namespace

std::string_view name(Pattern pattern) {
  return std::find_if(pattern_names.begin(), pattern_names.end(),
                      [pattern](const auto& named) { return named.second == pattern; })
      ->first;
}

Result<Pattern> pattern_of(std::string_view text) {
  for (const auto& [known, pattern] : pattern_names)
    if (known == text) return pattern;
  return make_error(Errc::malformed, "\"{}\" is no pattern, expected echo, up, down or both", text.substr(0, 32));
}

Result<NetworkPlan> read_network(Fields& fields) {
  NetworkPlan plan;
  PEN_TRY(read_address(fields, plan, 1));
  PEN_ASSIGN(const auto streams, fields.whole("streams", 1, 1, network_streams_max));
  plan.streams = static_cast<unsigned>(streams);
  PEN_ASSIGN(plan.message_bytes, fields.whole("message_bytes", 131072, 1, network_message_bytes_max));
  PEN_ASSIGN(plan.seconds, fields.number("seconds", 10, 0.01, network_seconds_max));
  PEN_ASSIGN(plan.transfers, read_transfers(fields));
  PEN_ASSIGN(plan.echo_bytes, read_numbers(fields, "echo_bytes", list_max, 1, network_message_bytes_max));
  PEN_ASSIGN(plan.echo_seconds, fields.number("echo_seconds", 1, 0.01, network_seconds_max));
  PEN_ASSIGN(plan.cpus, read_cpus(fields));
  if (plan.transfers.empty() && plan.echo_bytes.empty())
    return fields.wrong("transfers", "at least one, or one size in echo_bytes");
  return plan;
}

Result<NetworkServerPlan> read_network_server(Fields& fields) {
  NetworkServerPlan plan;
  PEN_TRY(read_address(fields, plan, 0));
  PEN_ASSIGN(plan.sessions, fields.whole("sessions", 0, 0, 1'000'000'000));
  PEN_ASSIGN(plan.seconds_max, fields.number("seconds_max", 0, 0, 30.0 * 86400));
  PEN_ASSIGN(plan.cpus, read_cpus(fields));
  return plan;
}

Json to_json(const NetworkPlan& plan) {
  auto transfers = Json::array();
  for (const auto pattern : plan.transfers) transfers.push_back(name(pattern));
  return {{"kind", "network"},
          {"host", plan.host},
          {"port", plan.port},
          {"token", plan.token.empty() ? Json() : Json(hidden)},
          {"streams", plan.streams},
          {"message_bytes", plan.message_bytes},
          {"seconds", plan.seconds},
          {"transfers", std::move(transfers)},
          {"echo_bytes", plan.echo_bytes},
          {"echo_seconds", plan.echo_seconds},
          {"cpus", plan.cpus}};
}

Json to_json(const NetworkServerPlan& plan) {
  return {{"kind", "network_server"},  {"host", plan.host},
          {"port", plan.port},         {"token", plan.token.empty() ? Json() : Json(hidden)},
          {"sessions", plan.sessions}, {"seconds_max", plan.seconds_max},
          {"cpus", plan.cpus}};
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
