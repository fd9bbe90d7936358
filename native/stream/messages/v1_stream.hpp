/// The Stream V1 messages of one sender on their way to the sink: which series they belong to, and their pixels'
/// memory.
///
/// A series has a number there and no name. Each header begins another series, which gets a name of its number and
/// the time, so that a detector that counts anew overwrites nothing. Its file is made with the first image, which has
/// the shape and the type that are valid.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "frame/sink.hpp"
#include "stream/messages/v1_message.hpp"
#include "stream/zmq/socket.hpp"

namespace penstock::stream {

/// One sender's; for one thread.
class V1Stream {
 public:
  /// `source` is as in Series. What waits for memory gives up when `stopping`, which outlives this.
  V1Stream(std::string source, const MessageLimits& limits, const std::atomic<bool>& stopping)
      : source_(std::move(source)), limits_(limits), stopping_(stopping) {}

  /// The parts of one message of ZeroMQ, which may hold several of these. What cannot be understood, or is refused, the
  /// sink is notified.
  void take(std::vector<ZmqMessage> parts, FrameSink& sink, std::string_view address);

 private:
  void take_one(std::vector<ZmqMessage> parts, FrameSink& sink);
  Result<void> deliver(std::vector<ZmqMessage>& parts, std::span<const Bytes> views, FrameSink& sink);
  Result<void> take_header(V1Header header, FrameSink& sink);
  Result<void> take_image(V1Image image, std::vector<ZmqMessage>& parts, Bytes pixels, FrameSink& sink);
  Result<void> take_end(const V1End& end, FrameSink& sink);
  Result<void> begin(Series series, FrameSink& sink);
  void note_damage(std::uint64_t number, FrameSink& sink);
  Result<void> begin_for(const V1Image& image, FrameSink& sink);
  Result<bool> hold(const V1Image& image, std::vector<ZmqMessage>& parts, Bytes pixels, FrameSink& sink, Frame& frame);

  /// The series that the last header began, or an image whose header nobody saw.
  struct Current {
    std::uint64_t number = 0;
    std::string unique_id;
    std::optional<Series> waiting;  ///< as long as no image has come
    bool refused = false;
    std::vector<std::uint64_t> damaged = {};  ///< images that came before the series' file was made
  };

  const std::string source_;
  const MessageLimits& limits_;
  const std::atomic<bool>& stopping_;
  std::string address_;
  std::optional<Current> current_;
  std::optional<std::uint64_t> ended_;  ///< the number of the last series that ended
};

}  // namespace penstock::stream
