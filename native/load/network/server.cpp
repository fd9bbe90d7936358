/// The end of a network workload that others come to. It measures with one client at a time, believes nothing that it
/// is told, waits for nobody without end, and ends by itself where its plan says so.

#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <thread>

#include "base/mutex.hpp"
#include "base/net/token.hpp"
#include "base/time/clock.hpp"
#include "load/machine.hpp"
#include "load/network/phase.hpp"
#include "load/workloads/workload.hpp"

namespace penstock::load {
namespace {

using namespace std::chrono_literals;

constexpr auto accept_poll = 100ms;
constexpr auto answer_within = 5s;
constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t greeting_ns = 5 * second_ns;
constexpr std::int64_t streams_join_ns = 10 * second_ns;
/// Between two phases a client that measures says something sooner.
constexpr std::int64_t silence_ns = 30 * second_ns;
constexpr std::int64_t session_ns_max = 4 * 3600 * second_ns;
constexpr std::size_t connections_max = 2 * network_streams_max;
constexpr std::size_t events_max = 1000;
constexpr std::size_t unread_bytes_max = 1 << 20;

Result<std::string> random_name() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return errno_error(errno, "random numbers for a session");
  std::string name;
  for (const auto byte : bytes) name += fmt::format("{:02x}", byte);
  return name;
}

/// What the peer has sent meanwhile is read over: closing with it unread would take the refusal back.
void refuse(Socket& socket, const Error& why) {
  (void)send_message(socket, {{"type", "refused"}, {"text", why.message()}});
  socket.shut_down_writing();
  std::array<std::byte, small_message_bytes_max> unread{};
  const auto deadline_ns = monotonic_ns() + second_ns / 2;
  for (std::size_t bytes = 0; bytes < unread_bytes_max && monotonic_ns() < deadline_ns;) {
    const auto some = socket.readable(accept_poll);
    const auto got = some.ok() && *some ? socket.receive_now(unread) : Result<std::size_t>(0);
    if (!some.ok() || !got.ok()) return;
    bytes += *got;
  }
}

/// Where the streams of a phase come together. Safe from several threads.
class Rendezvous {
 public:
  /// An error where a session is under way.
  Result<std::string> begin() {
    PEN_ASSIGN(auto name, random_name());
    MutexLock lock(mutex_);
    if (!session_.empty()) return make_error(Errc::refused, "another client is measuring; try again later");
    session_ = std::move(name);
    return session_;
  }
  void end() {
    MutexLock lock(mutex_);
    session_.clear();
    waiting_.clear();
  }
  /// From now on so many streams are waited for.
  void expect(unsigned streams) {
    MutexLock lock(mutex_);
    waiting_.clear();
    waiting_.resize(streams);
  }
  Result<void> join(const Hello& hello, Socket& socket) {
    MutexLock lock(mutex_);
    if (session_.empty() || !same_token(session_, hello.session))
      return make_error(Errc::refused, "no session of that name is active");
    if (hello.number >= waiting_.size() || waiting_[hello.number])
      return make_error(Errc::refused, "stream {} is unexpected", hello.number);
    waiting_[hello.number].emplace(std::move(socket));
    one_joined_.notify_all();
    return {};
  }
  /// All of them, once they are there; `timed_out` where they are not in time.
  Result<std::vector<Socket>> take(const Patience& patience) {
    MutexLock lock(mutex_);
    while (!all_there()) {
      if (patience.over()) return make_error(Errc::timed_out, "not all streams were opened in time");
      one_joined_.wait_for(lock, accept_poll);
    }
    std::vector<Socket> streams;
    for (auto& stream : waiting_) streams.push_back(std::move(*stream));
    waiting_.clear();
    return streams;
  }

 private:
  bool all_there() const PEN_REQUIRES(mutex_) {
    return std::all_of(waiting_.begin(), waiting_.end(), [](const auto& stream) { return stream.has_value(); });
  }

  Mutex mutex_;
  CondVar one_joined_;
  std::string session_ PEN_GUARDED_BY(mutex_);  ///< empty: none is under way
  std::vector<std::optional<Socket>> waiting_ PEN_GUARDED_BY(mutex_);
};

class Server {
 public:
  Server(const LoadPlan& plan, const RunContext& context)
      : network_(std::get<NetworkServerPlan>(plan.workload)), drain_s_(plan.drain_timeout_s), context_(context) {}

  Result<Measured> run() {
    const auto host = address_of(network_.host);
    PEN_ASSIGN(const bool loopback, is_loopback(host));
    if (!loopback && network_.token.empty())
      return make_error(Errc::refused,
                        "{} is reachable from other machines and requires a token: set one, or listen on 127.0.0.1",
                        tcp_address(host, network_.port));
    PEN_ASSIGN(auto listener, listen_on(host, network_.port, 0));
    context_.emit("listening", {{"sources", {tcp_address(host, listener.port)}}});
    const auto start_ns = monotonic_ns();
    while (!ends(start_ns)) {
      accept_one(listener.socket);
      tell_events();
    }
    stop_ = true;
    visitors_.clear();
    tell_events();
    return Measured{{{"network_server", {{"sessions", sessions_.load()}, {"refused", refused_.load()}}}}, {}, false};
  }

 private:
  /// A connection until it is a stream of a phase, or its session has ended.
  struct Visitor {
    Crew crew;
    ~Visitor() {
      while (!crew.wait_until(monotonic_ns() + second_ns)) continue;
    }
  };

  bool ends(std::int64_t start_ns) const {
    if (context_.stop || (network_.sessions > 0 && sessions_ >= network_.sessions)) return true;
    return network_.seconds_max > 0 && seconds_of(monotonic_ns() - start_ns) >= network_.seconds_max;
  }

  void accept_one(Socket& listener) {
    std::erase_if(visitors_, [](auto& visitor) { return visitor->crew.wait_until(0); });
    const auto ready = listener.readable(accept_poll);
    if (!ready.ok() || !*ready) return;
    auto client = std::make_shared<Socket>(::accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client->descriptor() < 0) {
      std::this_thread::sleep_for(accept_poll);  // no descriptors: it waits in the queue, and would be accepted at once
      return;
    }
    if (visitors_.size() >= connections_max) {
      ++refused_;  // closing says enough to whoever opens that many
      return;
    }
    visitors_.push_back(std::make_unique<Visitor>());
    const auto started =
        visitors_.back()->crew.start("pen-net-control", Role::other, [this, client] { welcome(*client); });
    if (!started.ok()) ++refused_;  // the next one may find a thread
  }

  Patience patience(std::int64_t ns) const { return {monotonic_ns() + ns, stop_}; }

  void welcome(Socket& socket) {
    const auto peer = peer_name(socket);
    socket.tune(0, 0);
    socket.set_send_timeout(answer_within);
    const auto hello = greeting(socket);
    if (!hello.ok()) return turn_away(socket, peer, hello.error());
    if (!hello->is_stream) return session(socket, peer);
    const auto joined = rendezvous_.join(*hello, socket);
    if (!joined.ok()) turn_away(socket, peer, joined.error());
  }

  Result<Hello> greeting(Socket& socket) {
    PEN_ASSIGN(const auto message, receive_message(socket, small_message_bytes_max, patience(greeting_ns)));
    PEN_ASSIGN(auto hello, parse_hello(message));
    if (!network_.token.empty() && !same_token(network_.token, hello.token))
      return Error(Errc::refused, hello.token.empty() ? "a token is required" : "wrong token");
    return hello;
  }

  void turn_away(Socket& socket, const std::string& peer, const Error& why) {
    ++refused_;
    refuse(socket, why);
    tell("refused", peer, quoted_text(why.message()));
  }

  void session(Socket& control, const std::string& peer) {
    const auto name = rendezvous_.begin();
    if (!name.ok()) return turn_away(control, peer, name.error());
    tell("begins", peer, "");
    const auto end = phases(control, *name);
    rendezvous_.end();
    if (!end.ok()) refuse(control, end.error());
    ++sessions_;
    tell("ends", peer, end.ok() ? "" : quoted_text(end.error().message()));
  }

  /// Until the client closes the connection, or something is wrong.
  Result<void> phases(Socket& control, const std::string& name) {
    PEN_TRY(send_message(control, {{"type", "welcome"}, {"session", name}, {"host", host_name()}}));
    const auto end_ns = monotonic_ns() + session_ns_max;
    while (monotonic_ns() < end_ns) {
      const auto message = receive_message(control, small_message_bytes_max, patience(silence_ns));
      if (!message.ok() && message.error().code() == Errc::disconnected) return {};
      if (!message.ok()) return message.error();
      PEN_ASSIGN(const auto order, parse_order(*message));
      PEN_TRY(phase(control, order));
    }
    return make_error(Errc::timed_out, "a session exceeds the maximum of {} s", seconds_of(session_ns_max));
  }

  Result<void> phase(Socket& control, const PhaseOrder& order) {
    rendezvous_.expect(order.streams);
    PEN_TRY(send_message(control, {{"type", "open"}}));
    PEN_ASSIGN(auto streams, rendezvous_.take(patience(streams_join_ns)));
    PhaseEnd end(order, End::server, std::move(streams));
    PEN_TRY(end.prepare());
    PEN_TRY(send_message(control, {{"type", "ready"}}));
    PEN_TRY(expect_message(control, "go", small_message_bytes_max, patience(streams_join_ns)));
    end.go();
    const auto deadline_ns = monotonic_ns() + static_cast<std::int64_t>((order.seconds + drain_s_) * 1e9);
    bool done = false;
    while (!done && !stop_ && monotonic_ns() < deadline_ns)
      done = end.wait_until(std::min(deadline_ns, monotonic_ns() + second_ns / 5));
    end.give_up();
    auto problem = end.problem();
    if (!done && problem.empty()) problem = stop_ ? "it was stopped" : "the streams did not end in time";
    return send_message(control, {{"type", "report"}, {"problem", problem}, {"side", to_json(end.side())}});
  }

  /// For the thread that emits. What nobody can follow any more is left out.
  void tell(const char* state, const std::string& peer, const std::string& text) {
    MutexLock lock(mutex_);
    if (events_.size() < events_max) events_.push_back({{"state", state}, {"peer", peer}, {"text", text}});
  }
  void tell_events() {
    MutexLock lock(mutex_);
    const auto events = std::exchange(events_, {});
    lock.unlock();
    for (const auto& event : events) context_.emit("session", event);
  }

  const NetworkServerPlan& network_;
  const double drain_s_;
  const RunContext& context_;
  Rendezvous rendezvous_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> sessions_{0};
  std::atomic<std::uint64_t> refused_{0};
  Mutex mutex_;
  std::deque<Json> events_ PEN_GUARDED_BY(mutex_);
  std::list<std::unique_ptr<Visitor>> visitors_;
};

}  // namespace

Result<Measured> run_network_server(const LoadPlan& plan, const RunContext& context) {
  set_cpus(Role::other, mask_of(std::get<NetworkServerPlan>(plan.workload).cpus));
  return Server(plan, context).run();
}

}  // namespace penstock::load
