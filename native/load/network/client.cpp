/// The end of a network workload that was told where the other one is: it says what is measured, and writes it down.

#include <algorithm>
#include <chrono>

#include "base/time/clock.hpp"
#include "load/network/phase.hpp"
#include "load/workloads/workload.hpp"

namespace penstock::load {
namespace {

using namespace std::chrono_literals;

constexpr auto answer_within = 10s;
constexpr std::int64_t answer_within_ns = 10'000'000'000;
/// In a second at least, where that is no more than a report may have.
constexpr double interval_s_at_most = 1.0, intervals_of_a_phase = 500;

class Client {
 public:
  Client(const LoadPlan& plan, const RunContext& context)
      : plan_(plan), network_(std::get<NetworkPlan>(plan.workload)), context_(context) {}

  /// An error where there is no session.
  Result<void> begin() {
    PEN_ASSIGN(auto socket, connect_to(network_.host, network_.port, answer_within));
    control_.emplace(std::move(socket));
    control_->tune(0, 0);
    control_->set_send_timeout(answer_within);
    PEN_TRY(send_message(*control_, to_json(Hello{false, network_.token, "", 0})), "{}", where());
    PEN_ASSIGN(const auto welcome, expect_message(*control_, "welcome", small_message_bytes_max, patience()), "{}",
               where());
    PEN_ASSIGN(auto fields, Fields::of(welcome, ""));
    PEN_TRY(fields.require("session"));
    PEN_ASSIGN(session_, fields.text("session", ""));
    PEN_ASSIGN(const auto host, fields.text("host", ""));
    peer_ = quoted_text(host);
    return {};
  }

  Measured measure() {
    for (const auto bytes : network_.echo_bytes)
      if (!carry_out({Pattern::echo, 1, bytes, network_.echo_seconds, interval_s(network_.echo_seconds)}))
        return measured();
    for (const auto pattern : network_.transfers)
      if (!carry_out(
              {pattern, network_.streams, network_.message_bytes, network_.seconds, interval_s(network_.seconds)}))
        break;
    return measured();
  }

 private:
  static double interval_s(double seconds) {
    return std::min(interval_s_at_most, std::max(0.1, seconds / intervals_of_a_phase));
  }
  std::string where() const { return tcp_address(network_.host, network_.port); }
  Patience patience(std::int64_t more_ns = 0) const {
    return {monotonic_ns() + answer_within_ns + more_ns, context_.stop};
  }

  Measured measured() {
    return {{{"network", {{"peer_host", peer_}, {"phases", std::move(phases_)}}}}, std::move(problem_), false};
  }

  /// Whether the next one may follow.
  bool carry_out(const PhaseOrder& order) {
    if (context_.stop) return false;
    const auto done = phase(order);
    if (!done.ok() && !context_.stop)
      problem_ = done.error().with_context(fmt::format("{}, {}", where(), name_of(order)));
    return done.ok() && !context_.stop;
  }

  static std::string name_of(const PhaseOrder& order) {
    if (order.pattern == Pattern::echo) return fmt::format("messages of {} bytes there and back", order.message_bytes);
    return std::string(name(order.pattern));
  }

  Result<void> phase(const PhaseOrder& order) {
    PEN_TRY(send_message(*control_, to_json(order)));
    PEN_TRY(expect_message(*control_, "open", small_message_bytes_max, patience()));
    PEN_ASSIGN(auto streams, open_streams(order));
    PEN_TRY(expect_message(*control_, "ready", small_message_bytes_max, patience()));
    PhaseEnd end(order, End::client, std::move(streams));
    PEN_TRY(end.prepare());
    end.go();
    PEN_TRY(send_message(*control_, {{"type", "go"}}));
    const auto answer = answer_of(order, end);
    end.give_up();
    note(order, end, answer);
    if (!answer.ok()) return answer.error();
    if (const auto problem = end.problem(); !problem.empty()) return Error(Errc::disconnected, problem);
    return {};
  }

  Result<std::vector<Socket>> open_streams(const PhaseOrder& order) {
    std::vector<Socket> streams;
    for (unsigned number = 0; number < order.streams; ++number) {
      PEN_ASSIGN(auto socket, connect_to(network_.host, network_.port, answer_within));
      socket.set_send_timeout(answer_within);
      PEN_TRY(send_message(socket, to_json(Hello{true, network_.token, session_, number})));
      streams.push_back(std::move(socket));
    }
    return streams;
  }

  /// What the server saw, once all streams are done there and here.
  Result<Side> answer_of(const PhaseOrder& order, PhaseEnd& end) {
    const auto all_ns = static_cast<std::int64_t>((order.seconds + plan_.drain_timeout_s) * 1e9);
    const auto deadline_ns = monotonic_ns() + all_ns;
    while (!end.wait_until(std::min(deadline_ns, monotonic_ns() + tick_ns))) {
      if (context_.stop) return make_error(Errc::cancelled, "stopped");
      if (const auto problem = end.problem(); !problem.empty()) return Error(Errc::disconnected, problem);
      if (monotonic_ns() >= deadline_ns)
        return make_error(Errc::timed_out, "the streams did not end within {} s", seconds_of(all_ns));
      tell_progress(order, end);
    }
    PEN_ASSIGN(const auto report, expect_message(*control_, "report", report_bytes_max, patience(all_ns)));
    PEN_ASSIGN(auto fields, Fields::of(report, ""));
    PEN_TRY(fields.require("side"));
    PEN_ASSIGN(const auto problem, fields.text("problem", ""));
    if (!problem.empty()) return make_error(Errc::disconnected, "the other end: {}", quoted_text(problem));
    return parse_side(*fields.find("side"), order.streams);
  }

  void tell_progress(const PhaseOrder& order, const PhaseEnd& end) {
    const auto milliseconds = [](double seconds) { return static_cast<std::uint64_t>(seconds * 1e3); };
    context_.emit("progress", {{"phase", fmt::format("network, {}", name_of(order))},
                               {"done", milliseconds(std::min(end.seconds_since_start(), order.seconds))},
                               {"total", milliseconds(order.seconds)}});
  }

  void note(const PhaseOrder& order, PhaseEnd& end, const Result<Side>& answer) {
    Json found = to_json(order);
    found.erase("type");
    found["round_trips"] = order.pattern == Pattern::echo ? to_json(end.round_trips()) : Json();
    found["client"] = to_json(end.side());
    found["server"] = answer.ok() ? to_json(*answer) : Json();
    phases_.push_back(std::move(found));
  }

  const LoadPlan& plan_;
  const NetworkPlan& network_;
  const RunContext& context_;
  std::optional<Socket> control_;
  std::string session_;
  std::string peer_;
  Json phases_ = Json::array();
  Problem problem_;
};

}  // namespace

Result<Measured> run_network(const LoadPlan& plan, const RunContext& context) {
  set_cpus(Role::other, mask_of(std::get<NetworkPlan>(plan.workload).cpus));
  Client client(plan, context);
  PEN_TRY(client.begin());
  return client.measure();
}

}  // namespace penstock::load
