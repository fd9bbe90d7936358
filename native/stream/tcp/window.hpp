/// The frames that a TCP sender has taken and the receiver has not acknowledged, in the order in
/// which they are sent.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.hpp"
#include "stream/messages/message.hpp"
#include "stream/tcp/frame.hpp"

namespace penstock::stream {

class TcpWindow {
 public:
  /// Memory for a head, of a frame that has gone.
  std::vector<std::byte> take_head();
  /// `head` is room for the header and behind it the CBOR part; `pixels_crc` goes along where it is known.
  void push(std::vector<std::byte> head, std::uint64_t number, Bytes payload, std::shared_ptr<const void> owner,
            std::optional<std::uint32_t> pixels_crc);

  /// Gathers unsent pieces into `pieces`, at most `count` of them.
  std::size_t gather(std::span<iovec> pieces);
  /// `bytes` of what gather() gave have gone out; headers are numbered as they are reached.
  void sent(std::size_t bytes);
  bool all_sent() const { return next_ == frames_.size(); }
  std::uint64_t unsent_bytes() const { return unsent_bytes_; }

  /// Everything is to be sent again, over a connection whose next sequence number is `sequence`.
  void rewind(std::uint64_t sequence);

  /// Drops what is acknowledged: from the front, or with `everywhere` out of order too.
  void acknowledge(std::uint64_t safe_below, bool everywhere);
  /// Drops the frame that was sent with `sequence`; false if there is none.
  bool drop(std::uint64_t sequence);
  void clear();
  /// Nothing more is acknowledged: drops every frame but one of which a part is sent, whose message must not be cut
  /// short. Returns how many of them are not safe.
  std::uint64_t close(std::uint64_t safe_below);

  std::size_t frames() const { return frames_.size(); }
  std::uint64_t payload_bytes() const { return payload_bytes_; }
  /// One past the highest number of a frame of which anything may have been sent.
  std::uint64_t sent_below() const { return sent_below_; }
  /// That the next message on this connection gets, whatever its kind; counts it.
  std::uint64_t take_sequence() { return sequence_++; }

 private:
  struct Kept {
    std::vector<std::byte> head;
    Bytes payload;
    std::shared_ptr<const void> owner;
    std::uint64_t number = 0;
    std::uint64_t sequence = 0;
    std::uint32_t pixels_crc = 0;
    bool has_crc = false;

    std::size_t size() const { return head.size() + payload.size(); }
  };

  void number(Kept& frame);
  void release(Kept& frame);
  void erase(std::size_t index);

  std::deque<Kept> frames_;
  std::vector<std::vector<std::byte>> idle_heads_;
  std::size_t next_ = 0;      ///< index of the first frame that is not wholly sent
  std::size_t numbered_ = 0;  ///< frames below have their header
  std::size_t partial_ = 0;   ///< bytes of frame next_ that are sent
  std::uint64_t payload_bytes_ = 0;
  std::uint64_t unsent_bytes_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t sent_below_ = 0;
};

}  // namespace penstock::stream
