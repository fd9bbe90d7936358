/// The bytes of one connection, read ahead where messages are small and straight to their place
/// where they are large.
#pragma once

#include <atomic>
#include <memory>

#include "base/net/socket.hpp"
#include "frame/pool.hpp"
#include "stream/tcp/lag.hpp"

namespace penstock::stream {

/// Memory from the pool, waiting for room until `stopping`.
Result<BufferRef> acquire(BufferPool& pool, std::size_t size, const std::atomic<bool>& stopping);

/// Used by one thread. Views stay valid until the next require(), or as long as owner() is held.
class TcpInput {
 public:
  /// With `waits` it waits for room in the pool. Without, it reads on into memory of its own where
  /// there is none, which no frame may keep: see is_spare().
  TcpInput(Socket& socket, BufferPool& pool, bool waits, const LagLimits& limits, const std::atomic<bool>& stopping);

  /// What is received from here on is of another message, with a time of its own.
  void begin_message() { lag_.begin_message(); }

  /// Makes `size` bytes readable in one piece. With nothing begun it waits for ever and is false
  /// once the peer has closed or the source is stopping; otherwise that is `disconnected`, and a message that
  /// arrives more slowly than the limits permit is `timed_out`. The time that it waits for memory does not count.
  Result<bool> require(std::size_t size);
  Bytes view(std::size_t offset, std::size_t size) const;
  void consume(std::size_t size) { begin_ += size; }
  /// Keeps the bytes of the views alive.
  BufferRef owner() const { return batch_; }
  /// The views lie in memory that is needed again: what they hold must be copied or dropped.
  bool is_spare() const { return spare_in_use_; }
  /// With `waits`: waits for memory of the pool that frames may keep, and views change. Without it does nothing.
  Result<void> leave_spare();

  /// Memory from the pool. Where the pool has no room the input gives back what it has of it, so views change; then it
  /// waits for room, or is `timed_out`.
  Result<BufferRef> acquire_for_pixels(std::size_t size);

  /// The next bytes of the stream, straight into `into`; with `crc`, goes on with that CRC-32C over
  /// them while they are in the cache.
  Result<void> read_into(MutableBytes into, std::uint32_t* crc = nullptr);
  Result<void> discard(std::uint64_t size);

  /// How far the next require() may read beyond what it needs. After a large message: up to where
  /// the next one's pixels probably begin, so that those need no copy.
  void read_ahead_to(std::size_t bytes) { read_ahead_bytes_ = bytes; }
  static constexpr std::size_t batch_bytes = 256 << 10;

 private:
  Result<void> make_room(std::size_t size);
  void step_aside();
  Result<void> rest();
  Result<BufferRef> fresh_batch(std::size_t size);
  void move_to(BufferRef fresh);
  Result<std::size_t> receive(MutableBytes into, bool wait_all, bool idle);

  Socket& socket_;
  BufferPool& pool_;
  BufferPool spare_{2 * batch_bytes};  ///< takes no memory until it is needed
  const bool waits_;
  const std::atomic<bool>& stopping_;
  Lag lag_;
  BufferRef batch_;
  bool spare_in_use_ = false;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t read_ahead_bytes_ = batch_bytes;
};

}  // namespace penstock::stream
