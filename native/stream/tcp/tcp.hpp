/// Penstock's own protocol over TCP (docs/reference/tcp.md): Stream V2 messages whose pixels stand
/// apart, so that they are received straight into the pool, and acknowledgements, so that a client
/// that loses its connection sends again what was not stored.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "frame/sink.hpp"
#include "stream/messages/message.hpp"
#include "stream/sender.hpp"
#include "stream/tcp/lag.hpp"

namespace penstock::stream {

/// The series that came over TCP.
class TcpSeriesTable;
std::shared_ptr<TcpSeriesTable> make_tcp_series_table();

struct TcpSourceOptions {
  std::string host = "127.0.0.1";    ///< numeric address, name, or network interface; IPv4 or IPv6
  std::uint16_t port = 9900;         ///< 0 takes a free one
  std::optional<std::string> token;  ///< required where `host` is not loopback
  unsigned connections_max = 64;     ///< that have said hello, with the token: see TcpPlaces
  unsigned strangers_max = 64;       ///< that have not; beyond, the oldest of the address that has most is cut off
  std::chrono::milliseconds hello_timeout{2000};
  LagLimits lag;
  int receive_buffer_bytes = 1 << 20;  ///< SO_RCVBUF; 0 leaves it to the system
  MessageLimits limits;
  /// One for all sources of a sink, so that a client finds its series at each; null: the source's own.
  std::shared_ptr<TcpSeriesTable> table = {};
};

/// Refuses (`refused`) to be made without a token where the address is not loopback.
Result<std::unique_ptr<Source>> make_tcp_source(const TcpSourceOptions& options);

/// An eighth of the machine's memory, at least 256 MiB and at most 4 GiB: enough that frames may wait
/// for a segment to fill and for the next sync (a second unless set otherwise) while later ones leave.
std::uint64_t default_window_bytes();

struct TcpSenderOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 9900;
  std::string token;
  std::string client = "penstock";                   ///< named in the receiver's log
  std::chrono::milliseconds connect_timeout{10000};  ///< to have the first connection, retries included
  /// After a lost connection the same: long enough for the receiver to be started again.
  std::chrono::milliseconds reconnect_timeout{10000};
  /// For the answer to a start that resumes a series: it may have to be closed first.
  std::chrono::milliseconds answer_timeout{600'000};
  /// Called every second of waiting for a connection (of the first one, after half a second), and at its end; once
  /// when the receiver says why it takes no frames, and when it takes them again. On the thread that uses the sender.
  std::function<void(const SenderWait&)> on_wait;
  /// Unacknowledged payload that is kept for sending again; put() waits beyond.
  std::uint64_t window_bytes = default_window_bytes();
  std::uint64_t window_frames = 65536;
  std::uint32_t batch_bytes = 128 << 10;  ///< small frames that go out together
  int send_buffer_bytes = 1 << 20;        ///< SO_SNDBUF; 0 leaves it to the system
  bool checksum_pixels = false;           ///< CRC-32C over the pixels, for paths that need more than TCP's
};

class TcpSender : public FrameSender {
 public:
  /// Connects and says hello; retries until connect_timeout while nobody listens.
  static Result<std::unique_ptr<TcpSender>> open(const TcpSenderOptions& options);
};

}  // namespace penstock::stream
