/// An HTTP server that answers as a test wrote it down, right or wrong. It listens on loopback.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace penstock {

class ScriptedHttp {
 public:
  /// One answer for each request, in their order; a connection ends after `closes`. It is closed when there are none.
  struct Answer {
    std::string text;
    bool closes = false;
    bool before_body = false;  ///< to the head alone, of a request that waits for it
  };

  explicit ScriptedHttp(std::vector<Answer> answers) : answers_(std::move(answers)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_, 8);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~ScriptedHttp() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }

  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  /// Heads of the requests with what followed them.
  std::vector<std::string> requests() const {
    const std::scoped_lock lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    while (next_ < answers_.size()) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      while (next_ < answers_.size() && take_request(connection)) {
        const auto answer = answers_[next_++];
        (void)::send(connection, answer.text.data(), answer.text.size(), MSG_NOSIGNAL);
        if (answer.closes) break;
      }
      ::close(connection);
    }
  }

  bool take_request(int connection) {
    std::string text;
    while (!is_whole(connection, text, answers_[next_].before_body)) {
      char piece[65536];
      const auto count = ::recv(connection, piece, sizeof piece, 0);
      if (count <= 0) return false;
      text.append(piece, static_cast<std::size_t>(count));
    }
    const std::scoped_lock lock(mutex_);
    requests_.push_back(text);
    return true;
  }

  static bool is_whole(int connection, const std::string& text, bool before_body) {
    const auto end = text.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    auto head = text.substr(0, end);
    std::transform(head.begin(), head.end(), head.begin(), [](unsigned char c) { return std::tolower(c); });
    const bool waits = head.find("expect: 100-continue") != std::string::npos && text.size() == end + 4;
    if (waits && before_body) return true;
    if (waits) (void)::send(connection, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL);
    if (head.find("transfer-encoding: chunked") != std::string::npos)
      return text.size() >= 5 && text.substr(text.size() - 5) == "0\r\n\r\n";
    const auto length = head.find("content-length: ");
    return length == std::string::npos || text.size() >= end + 4 + std::strtoull(&head[length + 16], nullptr, 10);
  }

  const std::vector<Answer> answers_;
  std::size_t next_ = 0;
  int listener_ = -1;
  unsigned short port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace penstock
