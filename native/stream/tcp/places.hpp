/// A limited number of clients have a place, each from its hello on. Where all are taken, a client that comes takes the
/// place of one that is silent and has no open series, or else ends its own lost connection.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.hpp"
#include "base/net/socket.hpp"
#include "base/result.hpp"
#include "stream/tcp/series.hpp"

namespace penstock::stream {

/// A client's: since when it has been silent, and whether it has lost its place. All calls are safe from several
/// threads.
class TcpPlace {
 public:
  TcpPlace(std::shared_ptr<Socket> socket, const TcpReplies& replies) : socket_(std::move(socket)), replies_(replies) {}

  /// A client is not silent within a message, which has a deadline of its own.
  void begin_message();
  void end_message();
  /// Monotonic. In the future within a message.
  std::int64_t silent_since_ns() const { return silent_since_ns_; }
  const TcpReplies& replies() const { return replies_; }
  /// Ends the connection without reading the rest of it. The client receives `why`.
  void give_up(std::string_view why);
  bool is_given_up() const { return given_up_; }
  /// Once it is given up.
  const std::string& why() const { return why_; }

 private:
  const std::shared_ptr<Socket> socket_;
  const TcpReplies& replies_;
  std::atomic<std::int64_t> silent_since_ns_{0};
  std::string why_;  ///< written before given_up_ is set
  std::atomic<bool> given_up_{false};
};

/// All calls are safe from several threads.
class TcpPlaces {
 public:
  /// Of `places_max`. A client that has no open series keeps its place for `silence_min` after its last message, and
  /// after that until another client needs it.
  TcpPlaces(std::size_t places_max, std::chrono::nanoseconds silence_min, TcpSeriesTable& table)
      : places_max_(places_max), silence_min_(silence_min), table_(table) {}

  /// For a connection that says it is of `client`, or nothing. `no_place` if all places are taken, and no client that
  /// has one has to give it up; then a connection that `client` had lost is ending, so that it finds a place soon.
  Result<void> take(TcpPlace& place, std::string_view client);
  /// Before the place ends, also of one that took none.
  void leave(const TcpPlace& place);

 private:
  bool try_to_take(TcpPlace& place);
  TcpPlace* find_silent() const PEN_REQUIRES(mutex_);

  const std::size_t places_max_;
  const std::chrono::nanoseconds silence_min_;
  TcpSeriesTable& table_;
  Mutex mutex_;
  std::vector<TcpPlace*> taken_ PEN_GUARDED_BY(mutex_);
};

}  // namespace penstock::stream
