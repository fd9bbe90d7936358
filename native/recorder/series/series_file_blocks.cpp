/// The part of a series' file in which frames gather into chunks of several.

#include <spdlog/spdlog.h>

#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "recorder/series/series_file.hpp"
#include "recorder/tree/expand.hpp"

namespace penstock::recorder {
namespace {

/// Of a channel: one that fills, and one that waits for a frame that was overtaken.
constexpr std::uint64_t open_min = 2;
constexpr std::uint64_t open_most = 4;
/// How far behind a client may be before its frames are given up, and how often one that is ahead looks.
constexpr std::int64_t others_patience_ns = 5'000'000'000;
constexpr auto others_poll = std::chrono::milliseconds(1);
constexpr std::uint64_t chunk_bytes_limit = (std::uint64_t{1} << 32) - 1;

/// Rather than lose a series that can not have chunks of several frames, its chunks have one.
std::uint64_t gathered_frames(const Config& config, unsigned ranks, const Series& series, const Tiling& tiling,
                              const ScanConfig& scan) {
  const auto frames = series.frames > 0 ? std::min(config.chunk.frames, series.frames) : config.chunk.frames;
  if (frames == 1) return 1;
  const auto instead = [&](const std::string& why) {
    spdlog::warn("series \"{}\": chunk.frames is {}, but {}; its chunks have one frame", series.unique_id,
                 config.chunk.frames, why);
    return std::uint64_t{1};
  };
  if (ranks > 1) return instead(fmt::format("the recorder has {} ranks, each with some of the frames", ranks));
  if (series.element.value_or(ElementPlace{}).count() > 1) return instead("its frames come in elements");
  if (scan) return instead("its frames belong to the points of a scan");
  if (frames > chunk_bytes_limit / tiling.tile_bytes())
    return instead(fmt::format("a chunk would have {} times {} bytes; HDF5 has at most {}", frames, tiling.tile_bytes(),
                               chunk_bytes_limit));
  return frames;
}

}  // namespace

Result<std::unique_ptr<Blocks>> SeriesFile::make_blocks(const Config& config, unsigned ranks, const Series& series,
                                                        const Tiling& tiling, const ScanConfig& scan,
                                                        std::uint64_t frame_bytes) {
  const auto frames = gathered_frames(config, ranks, series, tiling, scan);
  if (frames == 1) return std::unique_ptr<Blocks>();
  const auto channels = series.channels.size();
  const auto buffer = Blocks::buffer_bytes(frames * frame_bytes);
  const auto least = open_min * channels + 1;
  const auto room = config.block_pool_bytes();
  if (least > room / buffer)
    return make_error(Errc::too_large,
                      "chunk.frames is {}: frames of {} bytes gather in {} buffers of {} bytes, which needs a "
                      "pool_bytes of at least {}; the recorder has {}: enlarge it, or have fewer frames in a chunk",
                      config.chunk.frames, frame_bytes, least, buffer, least * buffer * (config.pool_bytes / room),
                      config.pool_bytes);
  BlocksOptions options;
  options.frames = frames;
  options.announced = series.frames;
  options.frame_bytes = frame_bytes;
  options.chunks = tiling.count();
  options.buffers = std::min(room / buffer, open_most * channels + 1 + config.threads);
  options.open_max = std::clamp((options.buffers - 1) / channels, open_min, open_most);
  options.huge_pages = config.store.huge_pages;
  auto blocks = std::make_unique<Blocks>(options);
  PEN_TRY(blocks->take_memory(), "chunk.frames is {}", config.chunk.frames);
  return blocks;
}

/// Of the block that fills, and of one more while that one is written.
std::uint64_t SeriesFile::window_needed() const { return blocks_ ? 2 * blocks_->frames() : 0; }

Result<void> SeriesFile::check_window(std::uint64_t frames) const {
  if (frames == 0 || frames >= window_needed()) return {};
  return make_error(
      Errc::refused,
      "the sender keeps {} frames that are not acknowledged, and a chunk has {} frames (chunk.frames): it "
      "has to keep {} at least; enlarge its window, or have fewer frames in a chunk",
      frames, blocks_->frames(), window_needed());
}

/// Gives the frame its block. What else is to be written first: a block whose place it takes, and the one that its
/// sender waits for, where that one can send no more before it is told that it may forget something.
Result<Blocks::Joined> SeriesFile::join_block(const Frame& frame) {
  await_others(frame.session, [&] { return blocks_->lacking_before(frame.number, frame.channel); });
  auto joined = blocks_->join(frame.number, frame.channel);
  if (!joined.ok()) {
    ledger_.give_up({frame.number, frame.channel}, FrameState::dropped);
    notify_sessions();
    if (auto task = task_for(block_waited_for(frame.session))) gather_here(std::move(*task));
    return std::move(joined).error();
  }
  if (auto waited_for = block_waited_for(frame.session)) joined->due.push_back(std::move(waited_for));
  return joined;
}

/// Several clients that send parts of a series are never quite abreast. Before a block is written incomplete for the
/// sake of `session`, on whose thread this runs, the frames that others may still bring are waited for. Meanwhile
/// nothing more is received of this one, which is what lets the others catch up.
void SeriesFile::await_others(const Session& session, const std::function<std::optional<FrameNumber>()>& lacking) {
  if (!session) return;
  std::optional<std::uint64_t> come;
  auto give_up_ns = monotonic_ns() + others_patience_ns;
  for (auto number = lacking(); number && waits_; number = lacking()) {
    const auto now_come = ledger_.is_awaited(*number, session);
    if (!now_come) return;
    if (std::exchange(come, now_come) != now_come) give_up_ns = monotonic_ns() + others_patience_ns;
    if (monotonic_ns() > give_up_ns) {
      spdlog::warn(
          "{}: other clients sent nothing for {:.0f} s; chunks that lack their frames, up to image {}, are written",
          path_, static_cast<double>(others_patience_ns) * 1e-9, value(*number));
      return ledger_.await_no_longer(*number, session);
    }
    std::this_thread::sleep_for(others_poll);
  }
}

Blocks::Ref SeriesFile::block_waited_for(const Session& session) {
  if (!blocks_ || !ledger_.held_up_by(session)) return nullptr;
  await_others(session, [&] {
    const auto item = ledger_.held_up_by(session);
    return item ? blocks_->lacking(item->number, item->part) : std::nullopt;
  });
  const auto item = ledger_.held_up_by(session);
  return item ? blocks_->close(item->number, item->part) : nullptr;
}

/// On the thread of a source, whose frame was none that a worker gets.
void SeriesFile::gather_here(Task task) {
  {
    std::lock_guard lock(mutex_);
    ++tasks_;  // gather() counts it down
  }
  CodecScratch scratch;
  gather(std::move(task), 0, scratch);
}

/// Of no frame, where there is a block to be written.
std::optional<Task> SeriesFile::task_for(Blocks::Ref block) {
  if (!block) return std::nullopt;
  Task task;
  task.due.push_back(std::move(block));
  return task;
}

/// The task, and those that another block's memory lets go on.
void SeriesFile::gather(Task task, unsigned worker, CodecScratch& scratch) {
  std::vector<Task> tasks;
  tasks.push_back(std::move(task));
  while (!tasks.empty()) {
    auto next = std::move(tasks.back());
    tasks.pop_back();
    for (const auto& block : next.due) write_block(block, worker, scratch, tasks);
    next.due.clear();
    if (next.block) {
      const auto room = blocks_->room(next);
      if (!room) continue;  // it is counted among the tasks until it comes back
      if (const auto block = copy_into_block(next, *room, scratch)) write_block(block, worker, scratch, tasks);
    }
    next = {};  // the payload's memory goes back before the series may close
    release_task();
  }
}

Blocks::Ref SeriesFile::copy_into_block(const Task& task, MutableBytes room, CodecScratch& scratch) {
  const auto& frame = task.frame;
  Result<void> expanded;
  if (frame.encoding == Encoding::none && frame.form.plain())
    std::copy(frame.payload.begin(), frame.payload.end(), room.begin());
  else
    expanded = expand({frame.encoding, frame.form}, frame.spec, frame.payload, room, scratch);
  auto block = blocks_->copied(task, expanded.ok());
  if (!expanded.ok()) {
    tell_damaged(expanded.error().with_context(fmt::format("image {}", value(frame.number))));
    std::vector<RowSlots::Settled> settled;
    if (auto damaged = slots_.settle(task.slot, Fate::damaged, tiling().count()))
      settled.push_back(std::move(*damaged));
    conclude(std::move(settled));
    notify_sessions();
  }
  return block;
}

void SeriesFile::write_block(const Blocks::Ref& block, unsigned worker, CodecScratch& scratch,
                             std::vector<Task>& tasks) {
  if (block->there != 0) {
    std::uint64_t handed = 0;
    if (auto written = write_chunks(*block, worker, scratch, handed); !written.ok()) {
      fail(written.error());
      give_up(block->cookie, tiling().count() - handed, Fate::lost);
      notify_sessions();
    }
  }
  for (auto& task : blocks_->release(*block)) tasks.push_back(std::move(task));
}

Result<void> SeriesFile::write_chunks(const Block& block, unsigned worker, CodecScratch& scratch,
                                      std::uint64_t& handed) {
  const auto frames = blocks_->frames();
  const auto all = block.buffer->bytes();
  const auto fill = fill_value(series_.frame.type);
  for (std::uint64_t i = 0; i < frames; ++i)
    if ((block.there >> i & 1) == 0) fill_with(all.subspan(i * raw_bytes_a_part_, raw_bytes_a_part_), fill);
  Frame like;  // what the ways into the store ask of a frame
  like.number = FrameNumber{block.number * frames};
  like.channel = block.channel;
  like.spec = series_.frame;
  auto& slot = *writers_[worker];
  std::lock_guard lock(slot.mutex);
  for (std::uint64_t tile = 0; tile < tiling().count(); ++tile) {
    const store::ChunkHead head{.dataset = store::DatasetId{static_cast<std::uint16_t>(block.channel)},
                                .index = block.number * tiling().count() + tile,
                                .filter_mask = 0,
                                .received_ns = block.received_ns,
                                .cookie = block.cookie,
                                .encoded_ns = realtime_ns(),
                                .frame = block.there};
    Bytes chunk = all;
    if (!tiling().whole()) {
      slot.tile.resize(frames * tiling().tile_bytes());
      for (std::uint64_t i = 0; i < frames; ++i)
        tiling().copy(all.subspan(i * raw_bytes_a_part_, raw_bytes_a_part_), tile, fill,
                      MutableBytes(slot.tile).subspan(i * tiling().tile_bytes(), tiling().tile_bytes()));
      chunk = slot.tile;
    }
    PEN_TRY(write_chunk(like, chunk, head, slot, scratch));
    ++handed;
  }
  return {};
}

bool SeriesFile::gathers(const Frame& frame) const {
  return blocks_ && frame.channel < series_.channels.size() && blocks_->is_open(frame.number, frame.channel);
}

std::size_t SeriesFile::write_what_gathers() {
  if (!blocks_ || writers_.empty()) return 0;
  auto blocks = blocks_->close_all();
  for (auto& block : blocks) gather_here(*task_for(std::move(block)));
  return blocks.size();
}

/// Once no frame is on its way any more: what the open blocks lack will not come.
void SeriesFile::write_open_blocks() {
  if (!blocks_ || writers_.empty()) return;
  CodecScratch scratch;
  std::vector<Task> none;
  for (const auto& block : blocks_->close_all()) write_block(block, 0, scratch, none);
}

}  // namespace penstock::recorder
