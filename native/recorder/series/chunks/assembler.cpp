#include "recorder/series/chunks/assembler.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/time/clock.hpp"
#include "recorder/tree/expand.hpp"

namespace penstock::recorder {
namespace {

/// Of a channel: one that fills, and one that waits for a frame that was overtaken.
constexpr std::uint64_t open_min = 2;
constexpr std::uint64_t open_most = 4;
/// How far behind a client may be before its frames are given up, and how often one that is ahead looks.
constexpr std::int64_t others_patience_ns = 5'000'000'000;
constexpr auto others_poll = std::chrono::milliseconds(1);

/// Of no frame, where there is a block to be written.
std::optional<Task> task_for(Blocks::Ref block) {
  if (!block) return std::nullopt;
  Task task;
  task.due.push_back(std::move(block));
  return task;
}

}  // namespace

Result<std::unique_ptr<Blocks>> Assembler::make_blocks(const SeriesSpec& spec) {
  if (!spec.gathers()) return std::unique_ptr<Blocks>();
  const auto& config = spec.config();
  const auto frames = spec.frames_a_chunk();
  const auto channels = spec.series().channels.size();
  const auto buffer = Blocks::buffer_bytes(frames * spec.part_bytes());
  const auto least = open_min * channels + 1;
  const auto room = config.block_pool_bytes();
  if (least > room / buffer)
    return make_error(Errc::too_large,
                      "chunk.frames is {}: frames of {} bytes require {} buffers of {} bytes, and pool_bytes of at "
                      "least {}; it is {}: increase it, or reduce chunk.frames",
                      config.chunk.frames, spec.part_bytes(), least, buffer,
                      least * buffer * (config.pool_bytes / room), config.pool_bytes);
  BlocksOptions options;
  options.frames = frames;
  options.announced = spec.series().frames;
  options.frame_bytes = spec.part_bytes();
  options.chunks = spec.tiling().count();
  options.buffers = std::min(room / buffer, open_most * channels + 1 + config.threads);
  options.open_max = std::clamp((options.buffers - 1) / channels, open_min, open_most);
  options.huge_pages = config.store.huge_pages;
  auto blocks = std::make_unique<Blocks>(options);
  PEN_TRY(blocks->take_memory(), "chunk.frames is {}", config.chunk.frames);
  return blocks;
}

Result<Blocks::Joined> Assembler::join(const Frame& frame) {
  await_others(frame.session, frame.waited, [&] { return blocks_->lacking_before(frame.number, frame.channel); });
  auto joined = blocks_->join(frame.number, frame.channel);
  if (!joined.ok()) {
    account_.ledger.give_up({frame.number, frame.channel}, FrameState::dropped);
    settlement_.notify_sessions();
    if (auto task = due_for(frame.session, frame.waited)) gather_here(std::move(*task));
    return std::move(joined).error();
  }
  if (auto due = block_due_for(frame.session, frame.waited)) joined->due.push_back(std::move(due));
  return joined;
}

/// Several clients that send parts of a series are never quite abreast. Before a block is written incomplete for the
/// sake of `session`, on whose thread this runs, the frames that others may still bring are waited for. Meanwhile
/// nothing more is received of this one, which is what lets the others catch up.
void Assembler::await_others(const Session& session, bool waited,
                             const std::function<std::optional<FrameNumber>()>& lacking) {
  if (!session) return;
  auto& ledger = account_.ledger;
  std::optional<std::uint64_t> come;
  auto give_up_ns = monotonic_ns() + others_patience_ns;
  for (auto number = lacking(); number && account_.may_wait; number = lacking()) {
    const auto now_come = ledger.is_awaited(*number, session, waited);
    if (!now_come) return;
    if (std::exchange(come, now_come) != now_come) give_up_ns = monotonic_ns() + others_patience_ns;
    if (monotonic_ns() > give_up_ns) {
      spdlog::warn(
          "{}: other clients have not sent frames for {:.0f} s; incomplete chunks up to image {} are written without "
          "them",
          spec_.path(), static_cast<double>(others_patience_ns) * 1e-9, value(*number));
      return ledger.await_no_longer(*number, session, waited);
    }
    std::this_thread::sleep_for(others_poll);
  }
}

Blocks::Ref Assembler::block_due_for(const Session& session, bool waited) {
  auto& ledger = account_.ledger;
  if (blocks_ == nullptr || !ledger.held_up_by(session)) return nullptr;
  await_others(session, waited, [&] {
    const auto item = ledger.held_up_by(session);
    return item ? blocks_->lacking(item->number, item->part) : std::nullopt;
  });
  const auto item = ledger.held_up_by(session);
  return item ? blocks_->close(item->number, item->part) : nullptr;
}

std::optional<Task> Assembler::due_for(const Session& session, bool waited) {
  return task_for(block_due_for(session, waited));
}

/// On the thread of a source, whose frame was none that a worker gets.
void Assembler::gather_here(Task task) {
  account_.in_flight.add_task();
  ChunkScratch scratch;
  gather(std::move(task), 0, scratch);
}

void Assembler::gather(Task task, unsigned worker, ChunkScratch& scratch) {
  std::vector<Task> tasks;
  tasks.push_back(std::move(task));
  while (!tasks.empty()) {
    auto next = std::move(tasks.back());
    tasks.pop_back();
    for (const auto& block : next.due) write(block, worker, scratch, tasks);
    next.due.clear();
    if (next.block) {
      const auto room = blocks_->room(next);
      if (!room) continue;  // it is counted among the tasks until it comes back
      if (const auto block = copy_into_block(next, *room, scratch)) write(block, worker, scratch, tasks);
    }
    next = {};  // the payload's memory goes back before the series may close
    account_.in_flight.end_task();
  }
}

/// Returns the block if it is due with this frame.
Blocks::Ref Assembler::copy_into_block(const Task& task, MutableBytes room, ChunkScratch& scratch) {
  const auto& frame = task.frame;
  Result<void> expanded;
  if (frame.encoding == Encoding::none && frame.form.plain())
    std::copy(frame.payload.begin(), frame.payload.end(), room.begin());
  else
    expanded = expand({frame.encoding, frame.form}, frame.spec, frame.payload, room, scratch.codec);
  auto block = blocks_->copied(task, expanded.ok());
  if (!expanded.ok()) {
    encoder_.warn_damaged(expanded.error().with_context(fmt::format("image {}", value(frame.number))));
    settlement_.give_up_damaged(task.slot);
    settlement_.notify_sessions();
  }
  return block;
}

void Assembler::write(const Blocks::Ref& block, unsigned worker, ChunkScratch& scratch, std::vector<Task>& tasks) {
  if (block->there != 0) encoder_.encode(*block, worker, scratch);
  for (auto& task : blocks_->release(*block)) tasks.push_back(std::move(task));
}

bool Assembler::gathers(const Frame& frame) const {
  return blocks_ != nullptr && frame.channel < spec_.series().channels.size() &&
         blocks_->is_open(frame.number, frame.channel);
}

std::size_t Assembler::write_what_gathers() {
  if (blocks_ == nullptr || !encoder_.has_writers()) return 0;
  // A task of its own: between two blocks the writers may not be taken away.
  if (!account_.in_flight.begin_task()) return 0;
  auto blocks = blocks_->close_all();
  for (auto& block : blocks) gather_here(*task_for(std::move(block)));
  account_.in_flight.end_task();
  return blocks.size();
}

void Assembler::write_open_blocks() {
  if (blocks_ == nullptr || !encoder_.has_writers()) return;
  ChunkScratch scratch;
  std::vector<Task> none;
  for (const auto& block : blocks_->close_all()) write(block, 0, scratch, none);
}

}  // namespace penstock::recorder
