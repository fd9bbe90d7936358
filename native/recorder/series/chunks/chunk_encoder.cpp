#include "recorder/series/chunks/chunk_encoder.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/time/clock.hpp"
#include "recorder/tree/expand.hpp"

namespace penstock::recorder {
namespace {

/// Between two lines of the log about frames that the filter plug-in failed on.
constexpr std::int64_t unfiltered_quiet_ns = 10'000'000'000;
/// A segment from here on is written though it is not full when no frame waits: its header and
/// padding, 8 KiB, are less than a hundredth of it.
constexpr std::uint64_t worthwhile_bytes = 1 << 20;

/// Its index is that of the frame's first chunk.
store::ChunkHead head_of(const Task& task, std::uint64_t chunks_a_frame, bool scanned) {
  return {.dataset = store::DatasetId{static_cast<std::uint16_t>(task.frame.channel)},
          .index = task.place * chunks_a_frame,
          .filter_mask = 0,
          .received_ns = task.frame.received_ns,
          .cookie = task.slot,
          .frame = scanned ? static_cast<std::uint32_t>(value(task.frame.number)) : 0};
}

}  // namespace

void ChunkEncoder::make_writers(store::Store& store) {
  for (unsigned i = 0; i < spec_.config().threads; ++i) {
    writers_.push_back(std::make_unique<WriterSlot>());
    writers_.back()->writer = store.make_writer();
  }
}

void ChunkEncoder::encode(const Task& task, unsigned worker, ChunkScratch& scratch) {
  auto head = head_of(task, spec_.mosaic().tiles_a_frame(), static_cast<bool>(spec_.scan()));
  head.crc = task.crc;
  head.encoded_ns = realtime_ns();  // stands for frames that need no encoding
  Progress progress;
  auto written = write(task.frame, head, worker, scratch, progress);
  scratch.drop_rows();
  flush_if_asked(worker);
  if (written.ok()) return;
  // To hold back the acknowledgement of what can never be written would stop a sender that has no room for more.
  if (written.error().code() == Errc::out_of_order) progress.outcome = WriteOutcome::too_late;
  if (progress.outcome == WriteOutcome::damaged)
    warn_damaged(written.error());
  else
    account_.failures.fail(written.error());
  settlement_.give_up(task.slot, spec_.tiling().count() - progress.chunks, progress.outcome);
  settlement_.notify_sessions();
}

Result<void> ChunkEncoder::write(const Frame& frame, const store::ChunkHead& first, unsigned worker,
                                 ChunkScratch& scratch, Progress& progress) {
  auto& slot = *writers_[worker];
  std::lock_guard lock(slot.mutex);
  const Input input{frame, slot, scratch};
  auto head = first;
  settlement_.append_values(head.cookie, scratch.rows);
  head.rows = scratch.rows;
  // What came compressed with more overhead than any of ours could be too large for its slot.
  const bool fits =
      spec_.config().placement != store::Placement::slots || frame.payload.size() <= coding_.chunk_bytes_max();
  if (spec_.tiling().whole() && frame.encoding == coding_.codec().encoding && frame.form.plain() && fits &&
      !coding_.is_filtered()) {
    auto chunk = head;
    chunk.index += spec_.mosaic().tile_in_frame(frame.element.value_or(0), 0);
    PEN_TRY(slot.writer->put(chunk, frame.payload, frame.owner, std::max(frame.capacity, frame.payload.size())));
    ++progress.chunks;
    return {};
  }
  if (frame.encoding == Encoding::none && frame.form.plain()) return write_raw(input, frame.payload, head, progress);
  // The file has one filter, and a chunk may be a part of a frame: so it is expanded and encoded again.
  auto plain = head;
  plain.crc.reset();
  scratch.frame.resize(spec_.part_bytes());
  const auto decoded = expand({frame.encoding, frame.form}, frame.spec, frame.payload, scratch.frame, scratch.codec);
  if (!decoded.ok()) progress.outcome = WriteOutcome::damaged;
  PEN_TRY(decoded, "image {}", value(frame.number));
  return write_raw(input, scratch.frame, plain, progress);
}

Result<void> ChunkEncoder::write_raw(const Input& input, Bytes raw, const store::ChunkHead& head, Progress& progress) {
  for (std::uint64_t tile = 0; tile < spec_.tiling().count(); ++tile) {
    PEN_TRY(write_tile(input, raw, tile, head));
    ++progress.chunks;
  }
  return {};
}

Result<void> ChunkEncoder::write_tile(const Input& input, Bytes raw, std::uint64_t tile, const store::ChunkHead& head) {
  const auto& tiling = spec_.tiling();
  auto of_tile = head;
  of_tile.index += spec_.mosaic().tile_in_frame(input.frame.element.value_or(0), tile);
  if (!tiling.whole()) of_tile.crc.reset();
  if (tile > 0) of_tile.rows = {};  // they go with the frame's first chunk
  auto piece = tiling.view(raw, tile);
  if (!piece) {
    auto& room = input.scratch.tile;
    room.resize(tiling.tile_bytes());
    tiling.copy(raw, tile, fill_value(input.frame.spec.type), room);
    piece = room;
  }
  return write_chunk(input, *piece, of_tile);
}

void ChunkEncoder::encode(const Block& block, unsigned worker, ChunkScratch& scratch) {
  std::uint64_t chunks = 0;
  auto written = write_block(block, worker, scratch, chunks);
  scratch.drop_rows();
  flush_if_asked(worker);
  if (written.ok()) return;
  account_.failures.fail(written.error());
  settlement_.give_up(block.cookie, spec_.tiling().count() - chunks, WriteOutcome::lost);
  settlement_.notify_sessions();
}

/// `chunks` counts those that the store has taken.
Result<void> ChunkEncoder::write_block(const Block& block, unsigned worker, ChunkScratch& scratch,
                                       std::uint64_t& chunks) {
  const auto& tiling = spec_.tiling();
  const auto frames = spec_.frames_a_chunk();
  const auto frame_bytes = spec_.part_bytes();
  const auto all = block.buffer->bytes();
  const auto fill = fill_value(spec_.series().frame.type);
  for (std::uint64_t i = 0; i < frames; ++i)
    if ((block.there >> i & 1) == 0) fill_with(all.subspan(i * frame_bytes, frame_bytes), fill);
  Frame like;  // what the ways into the store ask of a frame
  like.number = FrameNumber{block.number * frames};
  like.channel = block.channel;
  like.spec = spec_.series().frame;
  auto& slot = *writers_[worker];
  std::lock_guard lock(slot.mutex);
  settlement_.append_values(block.cookie, scratch.rows);
  for (std::uint64_t tile = 0; tile < tiling.count(); ++tile) {
    const store::ChunkHead head{.dataset = store::DatasetId{static_cast<std::uint16_t>(block.channel)},
                                .index = block.number * tiling.count() + tile,
                                .filter_mask = 0,
                                .received_ns = block.received_ns,
                                .cookie = block.cookie,
                                .encoded_ns = realtime_ns(),
                                .frame = block.there,
                                .rows = tile == 0 ? Bytes(scratch.rows) : Bytes()};
    Bytes chunk = all;
    if (!tiling.whole()) {
      scratch.tile.resize(frames * tiling.tile_bytes());
      for (std::uint64_t i = 0; i < frames; ++i)
        tiling.copy(all.subspan(i * frame_bytes, frame_bytes), tile, fill,
                    MutableBytes(scratch.tile).subspan(i * tiling.tile_bytes(), tiling.tile_bytes()));
      chunk = scratch.tile;
    }
    PEN_TRY(write_chunk({like, slot, scratch}, chunk, head));
    ++chunks;
  }
  return {};
}

Result<void> ChunkEncoder::write_chunk(const Input& input, Bytes raw, const store::ChunkHead& head) {
  if (coding_.is_filtered()) return write_filtered(input, raw, head);
  if (coding_.codec().encoding != Encoding::none) return write_encoded(input, raw, head);
  return put_plain(input, raw, head);
}

/// A part of the frame's own memory is kept until it is written; everything else is copied.
Result<void> ChunkEncoder::put_plain(const Input& input, Bytes raw, const store::ChunkHead& head) {
  const auto& frame = input.frame;
  const auto offset =
      reinterpret_cast<std::uintptr_t>(raw.data()) - reinterpret_cast<std::uintptr_t>(frame.payload.data());
  const bool own = offset <= frame.payload.size() && raw.size() <= frame.payload.size() - offset;
  if (!own) return input.slot.writer->put(head, raw, nullptr, raw.size());
  return input.slot.writer->put(head, raw, frame.owner, std::max(frame.capacity, frame.payload.size()) - offset);
}

Result<void> ChunkEncoder::write_encoded(const Input& input, Bytes raw, const store::ChunkHead& head) {
  const auto element_bytes = size_of(input.frame.spec.type);
  auto& writer = *input.slot.writer;
  PEN_TRY(writer.select_file(head.index));
  PEN_ASSIGN(const auto room, writer.reserve(encoded_bound(coding_.codec(), raw.size(), element_bytes)));
  PEN_ASSIGN(const auto size, penstock::encode(coding_.codec(), raw, element_bytes, room, input.scratch.codec));
  auto encoded = head;
  encoded.encoded_ns = realtime_ns();
  return writer.commit(encoded, size);
}

/// Through the plug-in; if that fails, the chunk is stored as it is, which its filter mask says.
Result<void> ChunkEncoder::write_filtered(const Input& input, Bytes raw, const store::ChunkHead& head) {
  const auto& filter = coding_.filters()[input.frame.channel];
  auto& filtered = input.scratch.filtered;
  auto applied = filter.plugin->apply(filter.spec, raw, filtered);
  if (const auto size = filtered.bytes().size(); applied.ok() && size > ChunkCoding::filtered_bytes_max(raw.size()))
    applied = make_error(Errc::too_large, "{} bytes became {}", raw.size(), size);
  auto chunk = head;
  chunk.encoded_ns = realtime_ns();
  if (applied.ok()) {
    chunk.crc.reset();
    const auto bytes = filtered.bytes();
    return input.slot.writer->put(chunk, bytes, nullptr, bytes.size());
  }
  note_unfiltered(input.frame, applied.error());
  chunk.filter_mask = 1;
  return put_plain(input, raw, chunk);
}

void ChunkEncoder::warn_damaged(const Error& why) {
  if (const auto suppressed = damaged_limiter_.admit())
    spdlog::warn("{}: {}{}", spec_.path(), why.message(), and_suppressed(*suppressed));
}

/// Counts it, and logs some of them.
void ChunkEncoder::note_unfiltered(const Frame& frame, const Error& why) {
  const auto count = ++account_.counters.unfiltered;
  const auto now = monotonic_ns();
  auto logged = unfiltered_logged_ns_.load();
  if (logged != 0 && now - logged < unfiltered_quiet_ns) return;
  if (!unfiltered_logged_ns_.compare_exchange_strong(logged, now)) return;
  spdlog::warn("{}: image {} is stored without its filter, {} so far: {}", spec_.path(), value(frame.number), count,
               why.message());
}

/// With the slot's lock held.
void ChunkEncoder::flush(WriterSlot& slot) {
  if (auto flushed = slot.writer->flush(); !flushed.ok()) account_.failures.fail(flushed.error());
}

/// With the slot's lock held.
void ChunkEncoder::flush_older_than(std::int64_t before_ns, WriterSlot& slot) {
  if (!slot.writer) return;
  const auto oldest = slot.writer->oldest_ns();
  if (oldest != 0 && oldest < before_ns) flush(slot);
}

void ChunkEncoder::flush_older_than(std::int64_t before_ns) {
  for (auto& slot : writers_) {
    slot->flush_before_ns = before_ns;
    if (std::unique_lock lock(slot->mutex, std::try_to_lock); lock) flush_older_than(before_ns, *slot);
  }
}

/// Here a worker that is busy whenever flush_older_than() comes by does the same between two frames.
void ChunkEncoder::flush_if_asked(unsigned worker) {
  auto& slot = *writers_[worker];
  const auto before_ns = slot.flush_before_ns.exchange(0);
  if (before_ns == 0) return;
  std::lock_guard lock(slot.mutex);
  flush_older_than(before_ns, slot);
}

void ChunkEncoder::flush_if_worthwhile(unsigned worker) {
  auto& slot = *writers_[worker];
  std::lock_guard lock(slot.mutex);
  if (!slot.writer || slot.writer->waiting_bytes() < worthwhile_bytes) return;
  flush(slot);
}

void ChunkEncoder::flush() {
  for (auto& slot : writers_) {
    std::lock_guard lock(slot->mutex);
    flush(*slot);
  }
}

void ChunkEncoder::finish() {
  for (auto& slot : writers_) {
    std::lock_guard lock(slot->mutex);
    flush(*slot);
    slot->writer.reset();
  }
}

}  // namespace penstock::recorder
