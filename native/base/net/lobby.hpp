/// Connections that have not yet said what they want: they wait here, without a thread and without memory of their own,
/// until their first message is complete, and take no place from those who have said it.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "base/net/socket.hpp"

namespace penstock {

struct LobbyOptions {
  /// Whether these first bytes of a connection, of at most `look_bytes`, are a first message, or can never become one.
  std::function<bool(Bytes)> is_complete;
  std::size_t look_bytes = 0;
  std::chrono::milliseconds patience{2000};
  std::size_t guests_max = 64;
};

/// For one thread.
class Lobby {
 public:
  explicit Lobby(LobbyOptions options) : options_(std::move(options)) {}

  struct Gone {
    Socket socket;
    bool late;  ///< it sent no first message in time; else it was cut off for a newer one
  };
  struct Visit {
    std::vector<Socket> ready;  ///< those whose first message is there, not yet read
    std::vector<Gone> gone;
  };
  /// Waits up to `wait` for a connection or for what one sends. Beyond guests_max the oldest one of the address that
  /// has the most is cut off. `accept` failures come back as an error, after which the lobby goes on.
  Result<Visit> visit(const Socket& listener, std::chrono::milliseconds wait);
  /// Connections that wait here.
  std::size_t guests() const { return guests_.size(); }

 private:
  struct Guest {
    Socket socket;
    std::string host;
    std::int64_t came_ns;
  };

  void look(Visit& visit, const std::vector<pollfd>& polled);
  void cut(Visit& visit);
  Result<void> accept_all(const Socket& listener);

  const LobbyOptions options_;
  std::list<Guest> guests_;  ///< the oldest first
};

}  // namespace penstock
