/// Frames gather into blocks, where a chunk has several frames
/// (docs/explanation/decisions/0018-chunks-of-several-frames.md).
///
/// join() and the calls named "here" run on sources' threads, gather() on the recorder's workers. All are safe from
/// several threads. Without blocks, where each chunk has one frame, nothing but gathers(), write_what_gathers() and
/// due_for() is called, which do nothing then.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "recorder/series/chunks/blocks.hpp"
#include "recorder/series/chunks/chunk_encoder.hpp"
#include "recorder/series/chunks/task.hpp"
#include "recorder/series/settlement.hpp"

namespace penstock::recorder {

class Assembler {
 public:
  /// Takes the memory for blocks; null if a chunk of the series has one frame. `too_large` if pool_bytes is too small.
  static Result<std::unique_ptr<Blocks>> make_blocks(const SeriesSpec& spec);

  /// All of them outlive it; `blocks` may be null.
  Assembler(const SeriesSpec& spec, SeriesAccount& account, Settlement& settlement, ChunkEncoder& encoder,
            Blocks* blocks)
      : spec_(spec), account_(account), settlement_(settlement), encoder_(encoder), blocks_(blocks) {}

  explicit operator bool() const { return blocks_ != nullptr; }

  /// Gives an admitted frame its block. What has to be written first: a block whose memory it takes, and the one that
  /// its sender waits for, if that sender can send no more before a frame of it is acknowledged. `out_of_order` if the
  /// block was written without the frame, which is given up then.
  Result<Blocks::Joined> join(const Frame& frame);
  /// A task without a frame that writes the block which keeps the session from sending on, if there is one.
  std::optional<Task> due_for(const Session& session, bool waited = false);

  /// Copies the task's frame into its block and writes the blocks that are due, also those that another block's memory
  /// lets go on. Ends each of the tasks.
  void gather(Task task, unsigned worker, ChunkScratch& scratch);

  /// Whether others of the frame's chunk are here and wait for it.
  bool gathers(const Frame& frame) const;
  /// Frames that wait for others of their chunk.
  std::uint64_t waiting() const { return blocks_ == nullptr ? 0 : blocks_->waiting(); }
  /// Writes the chunks that lack frames, which come too late after that. Returns how many.
  std::size_t write_what_gathers();
  /// Once no frame is on its way any more: what the open blocks lack will not come.
  void write_open_blocks();

 private:
  void await_others(const Session& session, bool waited, const std::function<std::optional<FrameNumber>()>& lacking);
  Blocks::Ref block_due_for(const Session& session, bool waited);
  void gather_here(Task task);
  Blocks::Ref copy_into_block(const Task& task, MutableBytes room, ChunkScratch& scratch);
  void write(const Blocks::Ref& block, unsigned worker, ChunkScratch& scratch, std::vector<Task>& tasks);

  const SeriesSpec& spec_;
  SeriesAccount& account_;
  Settlement& settlement_;
  ChunkEncoder& encoder_;
  Blocks* const blocks_;
};

}  // namespace penstock::recorder
