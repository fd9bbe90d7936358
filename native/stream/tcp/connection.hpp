/// One client of the TCP source: hello, then message after message into the sink.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "stream/tcp/frame.hpp"
#include "stream/tcp/input.hpp"
#include "stream/tcp/places.hpp"
#include "stream/tcp/replies.hpp"
#include "stream/tcp/series.hpp"
#include "stream/tcp/tcp.hpp"

namespace penstock::stream {

/// Whether the bytes that came first on a connection, of at most hello_look_bytes, are a complete hello, or can never
/// become one.
bool is_first_message(Bytes bytes);
constexpr std::size_t hello_bytes_max = 64 << 10;
constexpr std::size_t hello_look_bytes = tcp_header_bytes + hello_bytes_max;

/// Runs on a thread of its own from construction. `options`, `places`, `table` and `sink` outlive it. A client has
/// one of the `places` from its hello on, with the token where there is one.
class TcpConnection {
 public:
  TcpConnection(Socket socket, const TcpSourceOptions& options, TcpPlaces& places, TcpSeriesTable& table,
                FrameSink& sink);
  ~TcpConnection();

  /// The client has gone; nothing more will happen.
  bool finished() const { return finished_; }
  /// Takes no further message and joins the thread; replies still go out until destruction.
  void stop();

 private:
  /// The pixel part of a message.
  struct Pixels {
    Bytes bytes;
    BufferRef owner;
    std::optional<std::uint32_t> crc;  ///< of all of it, where it was made on the way
  };

  void run();
  void serve();
  Result<void> greet();
  Result<void> read_exactly(MutableBytes into, std::int64_t deadline_ns);
  /// False once the client has gone in order. An error ends the connection.
  Result<bool> serve_one();
  Result<void> serve_message(const TcpHeader& header);
  Result<void> refuse(const TcpHeader& header, const Error& why);
  Result<void> drop(const TcpHeader& header, Bytes message, const Error& why);
  Result<void> deliver(const TcpHeader& header, Bytes message, const Pixels& pixels);
  std::uint64_t window_of(const Series& series) const;
  const std::vector<std::string>* find_channels(const std::string& series_unique_id);
  void answer(std::uint64_t sequence, const Result<void>& outcome);
  void reject(std::uint64_t sequence, const Error& why);

  const TcpSourceOptions& options_;
  TcpPlaces& places_;
  TcpSeriesTable& table_;
  FrameSink& sink_;
  const std::shared_ptr<Socket> socket_;
  const std::string peer_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> finished_ = false;
  const std::shared_ptr<TcpReplies> replies_;
  TcpPlace place_;
  TcpInput input_;
  // the thread's own
  TcpLink link_;
  std::shared_ptr<TcpSeries> series_;  ///< of the last image
  std::shared_ptr<TcpSession> session_;
  std::uint64_t window_frames_ = 0;  ///< as the client's hello says
  std::uint64_t window_bytes_ = 0;
  bool said_bye_ = false;
  std::thread thread_;
};

}  // namespace penstock::stream
