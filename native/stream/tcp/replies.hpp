/// Replies of a receiver to one client, on a thread of its own, so that a client that does not read
/// holds back nobody else.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "base/net/socket.hpp"
#include "stream/tcp/frame.hpp"

namespace penstock::stream {

/// All calls are safe from several threads. A newer acknowledgement or `closed` of a series replaces one that waits.
/// While `messages_max` messages wait, errors are dropped, and nothing else.
class TcpReplies {
 public:
  static constexpr std::size_t messages_max = 1024;

  explicit TcpReplies(std::shared_ptr<Socket> socket);
  ~TcpReplies();

  void send(TcpKind kind, const TcpControl& control);
  void ack(const std::string& series_unique_id, std::uint64_t safe_below);
  void error(std::uint64_t sequence, const Error& error);

  /// Sends what waits, for at most a second, and ends the thread. Later calls do nothing.
  void close();

 private:
  void run();
  /// The bytes of everything that waits.
  std::vector<std::byte> take() PEN_REQUIRES(mutex_);
  bool send_bytes(Bytes bytes);

  const std::shared_ptr<Socket> socket_;
  Mutex mutex_;
  CondVar wake_;
  std::deque<std::pair<TcpKind, TcpControl>> messages_ PEN_GUARDED_BY(mutex_);
  std::map<std::string, std::uint64_t> acks_ PEN_GUARDED_BY(mutex_);
  bool closing_ PEN_GUARDED_BY(mutex_) = false;
  // the thread's own
  std::uint64_t sequence_ = 0;
  std::thread thread_;
};

}  // namespace penstock::stream
