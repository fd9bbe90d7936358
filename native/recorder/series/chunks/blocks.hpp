/// Frames on their way into chunks of several frames (docs/explanation/decisions/0018-chunks-of-several-frames.md).
///
/// Block b holds the frames [bK, bK + K) of one channel. An admitted frame joins its block in the order of arrival;
/// a worker copies it into the block's buffer, and with the last one the block is due: its chunks are encoded and
/// handed to the store, and its frames settle with the last of these.
///
/// Invariants: of a channel at most `open_max` blocks take frames (and such as open below them, while there is memory
/// for all), none of them `open_max` blocks behind the newest, so
/// that one lost frame holds up no more than a few blocks; at most `buffers` blocks have memory, those that
/// were opened first. A block that has been written takes frames again only if it was lost, and only those that it
/// had: so of two records for one chunk the earlier one never lacks a frame that the later one has.
///
/// All calls are safe from several threads. Nothing here waits: a frame whose block has no memory yet is parked, and
/// comes back from release().
#pragma once

#include <bitset>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frame/pool.hpp"
#include "recorder/series/accounting/rows.hpp"
#include "recorder/series/chunks/task.hpp"

namespace penstock::recorder {

struct Block {
  std::uint64_t number = 0;
  std::uint32_t channel = 0;
  // Whoever writes the block reads these; nobody else does once it is due.
  BufferRef buffer;              ///< null until there is memory
  std::uint32_t there = 0;       ///< bit i: frame number × K + i is in the buffer
  std::int64_t received_ns = 0;  ///< of the last one
  std::uint64_t cookie = 0;      ///< for settle(), from due on

 private:
  friend class Blocks;
  // guarded by the mutex of Blocks
  std::uint32_t wanted = 0;  ///< with these it is full
  std::uint32_t joined = 0;
  unsigned pending = 0;  ///< joined, and not copied yet
  bool open = true;
  bool again = false;                ///< it was lost, and is formed anew
  std::vector<std::uint64_t> slots;  ///< of the rows of the frames that are there
  std::vector<Task> parked;
};

struct BlocksOptions {
  std::uint64_t frames = 2;     ///< of a block: K
  std::uint64_t announced = 0;  ///< frames of the series; 0: open
  std::uint64_t frame_bytes = 0;
  std::uint64_t chunks = 1;    ///< that a block is cut into
  std::uint64_t open_max = 2;  ///< a channel
  std::uint64_t buffers = 3;   ///< above open_max × channels
  HugePages huge_pages = HugePages::transparent;
};

class Blocks {
 public:
  using Ref = std::shared_ptr<Block>;

  explicit Blocks(const BlocksOptions& options);

  /// All that the blocks will need, so that the system cannot refuse it later. `errno`'s error where it does now.
  Result<void> take_memory();

  std::uint64_t frames() const { return options_.frames; }
  /// Maximum size of one buffer of a block of this size.
  static std::uint64_t buffer_bytes(std::uint64_t block_bytes);

  struct Joined {
    Ref block;
    std::vector<Ref> due;  ///< that made way, and wait for no copy
  };
  /// `out_of_order` where the frame's block was written without it.
  Result<Joined> join(FrameNumber number, std::uint32_t channel);

  /// The last frame that would be too late if this one joined now: of blocks that would be written without it, or that
  /// nobody has opened yet and that lie too far behind.
  std::optional<FrameNumber> lacking_before(FrameNumber number, std::uint32_t channel) const;
  /// The last frame that the open block of this one lacks.
  std::optional<FrameNumber> lacking(FrameNumber number, std::uint32_t channel) const;

  /// Where the task's frame goes; nullopt while memory is exhausted: then the task is taken.
  std::optional<MutableBytes> room(Task& task);
  /// The task's frame is in its place, or (not `good`) will never be. Its block, if it is due with that.
  Ref copied(const Task& task, bool good);
  /// The block's chunks have been handed over, or it has none. Tasks that can go on with its memory.
  std::vector<Task> release(Block& block);

  /// The slots of the rows of a block's frames, from due on.
  std::vector<std::uint64_t> slots_of(std::uint64_t cookie) const;
  /// `chunks` chunks of a block came to their end. The slots of its frames' rows.
  std::vector<std::uint64_t> settle(std::uint64_t cookie, WriteOutcome outcome, std::uint64_t chunks);

  /// The block of this frame takes no more; the block, if it is due with that.
  Ref close(FrameNumber number, std::uint32_t channel);
  /// A chunk with others gathers this frame.
  bool is_open(FrameNumber number, std::uint32_t channel) const;
  /// Frames that wait in open blocks for the others of these.
  std::uint64_t waiting() const;
  /// No block takes any more; those that are due with that.
  std::vector<Ref> close_all();

 private:
  /// Channel and number.
  using Key = std::pair<std::uint32_t, std::uint64_t>;
  struct Flight {
    Key key;
    std::uint32_t frames = 0;
    std::uint64_t chunks = 0;
    bool lost = false;
    std::vector<std::uint64_t> slots;
  };
  static constexpr std::uint64_t closed_a_page = 4096;

  std::vector<Ref> overdue(const Key& opening) const;
  FrameNumber last_lacking(const Block& block) const;
  bool is_taken(const Key& key, std::uint32_t bit) const;
  Ref open(const Key& key);
  Ref shut(const Ref& block);
  Ref due(const Ref& block);
  bool is_closed(const Key& key) const;
  std::uint32_t wanted(std::uint64_t number) const;
  bool give_buffer(Block& block);

  const BlocksOptions options_;
  BufferPool pool_;
  mutable std::mutex mutex_;
  // guarded by mutex_
  std::uint64_t free_buffers_;
  std::map<Key, Ref> open_;
  std::map<std::uint32_t, std::uint64_t> newest_;  ///< by channel: the highest block that was opened
  std::deque<Ref> waiting_;                        ///< for a buffer, in the order in which they were opened
  std::map<Key, std::bitset<closed_a_page>> closed_;
  std::map<Key, std::uint32_t> again_;  ///< lost blocks: the frames that they had
  std::unordered_map<std::uint64_t, Flight> flights_;
  std::uint64_t next_cookie_ = 0;
};

}  // namespace penstock::recorder
