#include "base/net/lobby.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/time/clock.hpp"

namespace penstock {
namespace {

/// At once, before those that are there are looked at again.
constexpr int accepted_max = 32;

}  // namespace

Result<Lobby::Visit> Lobby::visit(const Socket& listener, std::chrono::milliseconds wait) {
  std::vector<pollfd> polled{{listener.descriptor(), POLLIN, 0}};
  for (const auto& guest : guests_) polled.push_back({guest.socket.descriptor(), POLLIN | POLLRDHUP, 0});
  if (::poll(polled.data(), polled.size(), static_cast<int>(wait.count())) < 0 && errno != EINTR)
    return errno_error(errno, "poll");
  Visit visit;
  look(visit, polled);
  Result<void> accepted;
  if (polled[0].revents != 0) accepted = accept_all(listener);
  // What came with its connection needs no place here.
  if (guests_.size() > options_.guests_max) look(visit, {});
  cut(visit);
  if (!accepted.ok() && visit.ready.empty() && visit.gone.empty()) return std::move(accepted).error();
  return visit;
}

/// `polled` tells of which guests something is known, behind the listener; without it all are asked.
void Lobby::look(Visit& visit, const std::vector<pollfd>& polled) {
  const auto late_ns = monotonic_ns() - std::chrono::nanoseconds(options_.patience).count();
  std::vector<std::byte> first(options_.look_bytes);
  std::size_t index = 0;
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const auto each = guest++;
    ++index;
    if (index >= polled.size() || polled[index].revents != 0) {
      const auto got = ::recv(each->socket.descriptor(), first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
      const bool has_ended = index < polled.size() && (polled[index].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
      const bool has_left =
          got == 0 || has_ended || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
      const bool is_ready = got > 0 && options_.is_complete(Bytes(first).first(static_cast<std::size_t>(got)));
      // Half a message wakes nobody again.
      each->socket.set_low_water(got > 0 && !is_ready ? static_cast<std::size_t>(got) + 1 : 1);
      if (is_ready) visit.ready.push_back(std::move(each->socket));
      if (is_ready || has_left) {
        guests_.erase(each);
        continue;
      }
    }
    if (each->came_ns > late_ns) continue;
    visit.gone.push_back({std::move(each->socket), true});
    guests_.erase(each);
  }
}

void Lobby::cut(Visit& visit) {
  while (guests_.size() > options_.guests_max) {
    std::map<std::string, std::size_t> counts;
    for (const auto& guest : guests_) ++counts[guest.host];
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto oldest =
        std::find_if(guests_.begin(), guests_.end(), [&](const Guest& guest) { return guest.host == most->first; });
    visit.gone.push_back({std::move(oldest->socket), false});
    guests_.erase(oldest);
  }
}

Result<void> Lobby::accept_all(const Socket& listener) {
  for (int i = 0; i < accepted_max; ++i) {
    pollfd more{listener.descriptor(), POLLIN, 0};
    if (::poll(&more, 1, 0) <= 0) return {};
    Socket client(::accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client.descriptor() < 0) return errno_error(errno, "accept");
    const auto peer = peer_name(client);
    guests_.push_back({std::move(client), peer.substr(0, peer.rfind(':')), monotonic_ns()});
  }
  return {};
}

}  // namespace penstock
