/// The part of a series' file between a frame and its chunks: expanding, cutting, encoding, and what became of it.

#include <spdlog/spdlog.h>

#include "base/clock.hpp"
#include "recorder/series/series_file.hpp"
#include "recorder/tree/expand.hpp"

namespace penstock::recorder {
namespace {

/// Between two lines of the log about frames that the filter plug-in failed on.
constexpr std::int64_t unfiltered_quiet_ns = 10'000'000'000;

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

/// Where the frame lies in its dataset, which no other frame may claim.
Result<std::uint64_t> SeriesFile::place_of(const Frame& frame) {
  PEN_ASSIGN(const auto place, scan_.place_of(frame));
  if (place >= chunks_max / mosaic_.tiles_a_frame())
    return make_error(Errc::too_large, "image {} belongs to place {}; at most {} are possible", value(frame.number),
                      place, chunks_max / mosaic_.tiles_a_frame());
  if (scan_.order == ScanConfig::Order::given) PEN_TRY(places_.claim(place, frame.number));
  return place;
}

void SeriesFile::encode(Task task, unsigned worker, CodecScratch& scratch) {
  const auto started = monotonic_ns();
  if (blocks_) {
    gather(std::move(task), worker, scratch);
    return note_encoding(monotonic_ns() - started);
  }
  auto head = head_of(task, mosaic_.tiles_a_frame(), static_cast<bool>(scan_));
  head.crc = task.crc;
  head.encoded_ns = realtime_ns();  // stands for frames that need no encoding
  Handed handed;
  if (auto written = write(task.frame, head, worker, scratch, handed); !written.ok()) {
    // To hold back the acknowledgement of what can never be written would stop a sender that has no room for more.
    if (written.error().code() == Errc::out_of_order) handed.fate = Fate::too_late;
    if (handed.fate == Fate::damaged)
      tell_damaged(written.error());
    else
      fail(written.error());
    give_up(task.slot, tiling().count() - handed.chunks, handed.fate);
    notify_sessions();
  }
  note_encoding(monotonic_ns() - started);
  task = {};  // the payload's memory goes back before the series may close
  release_task();
}

void SeriesFile::note_encoding(std::int64_t ns) {
  encode_ns_ += ns;
  meter_.compress.add(ns);
}

Result<void> SeriesFile::write(const Frame& frame, const store::ChunkHead& head, unsigned worker, CodecScratch& scratch,
                               Handed& handed) {
  auto& slot = *writers_[worker];
  std::lock_guard lock(slot.mutex);
  // What came compressed with more overhead than any of ours could be too large for its slot.
  const bool fits = config_.placement != store::Placement::slots || frame.payload.size() <= chunk_bytes_max_;
  if (tiling().whole() && frame.encoding == codec_.encoding && frame.form.plain() && fits && !filtered_) {
    auto whole = head;
    whole.index += mosaic_.tile_in_frame(frame.element.value_or(0), 0);
    PEN_TRY(slot.writer->put(whole, frame.payload, frame.owner, std::max(frame.capacity, frame.payload.size())));
    ++handed.chunks;
    return {};
  }
  if (frame.encoding == Encoding::none && frame.form.plain())
    return write_raw(frame, frame.payload, head, slot, scratch, handed);
  // The file has one filter, and a chunk may be a part of a frame: so it is expanded and encoded again.
  auto plain = head;
  plain.crc.reset();
  slot.frame.resize(raw_bytes_a_part_);
  const auto decoded = expand({frame.encoding, frame.form}, frame.spec, frame.payload, slot.frame, scratch);
  if (!decoded.ok()) handed.fate = Fate::damaged;
  PEN_TRY(decoded, "image {}", value(frame.number));
  return write_raw(frame, slot.frame, plain, slot, scratch, handed);
}

Result<void> SeriesFile::write_raw(const Frame& frame, Bytes raw, const store::ChunkHead& head, WriterSlot& slot,
                                   CodecScratch& scratch, Handed& handed) {
  for (std::uint64_t tile = 0; tile < tiling().count(); ++tile) {
    PEN_TRY(write_tile(frame, raw, tile, head, slot, scratch));
    ++handed.chunks;
  }
  return {};
}

Result<void> SeriesFile::write_tile(const Frame& frame, Bytes raw, std::uint64_t tile, const store::ChunkHead& head,
                                    WriterSlot& slot, CodecScratch& scratch) {
  auto of_tile = head;
  of_tile.index += mosaic_.tile_in_frame(frame.element.value_or(0), tile);
  if (!tiling().whole()) of_tile.crc.reset();
  auto piece = tiling().view(raw, tile);
  if (!piece) {
    slot.tile.resize(tiling().tile_bytes());
    tiling().copy(raw, tile, fill_value(frame.spec.type), slot.tile);
    piece = slot.tile;
  }
  return write_chunk(frame, *piece, of_tile, slot, scratch);
}

Result<void> SeriesFile::write_chunk(const Frame& frame, Bytes raw, const store::ChunkHead& head, WriterSlot& slot,
                                     CodecScratch& scratch) {
  if (filtered_) return write_filtered(frame, raw, head, slot);
  if (codec_.encoding != Encoding::none) return write_encoded(frame, raw, head, slot, scratch);
  return put_plain(frame, raw, head, slot);
}

/// A part of the frame's own memory is kept until it is written; everything else is copied.
Result<void> SeriesFile::put_plain(const Frame& frame, Bytes raw, const store::ChunkHead& head, WriterSlot& slot) {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(raw.data()) - reinterpret_cast<std::uintptr_t>(frame.payload.data());
  const bool own = offset <= frame.payload.size() && raw.size() <= frame.payload.size() - offset;
  if (!own) return slot.writer->put(head, raw, nullptr, raw.size());
  return slot.writer->put(head, raw, frame.owner, std::max(frame.capacity, frame.payload.size()) - offset);
}

Result<void> SeriesFile::write_encoded(const Frame& frame, Bytes raw, const store::ChunkHead& head, WriterSlot& slot,
                                       CodecScratch& scratch) {
  const auto element_bytes = size_of(frame.spec.type);
  PEN_TRY(slot.writer->aim(head.index));
  PEN_ASSIGN(const auto room, slot.writer->reserve(encoded_bound(codec_, raw.size(), element_bytes)));
  PEN_ASSIGN(const auto size, penstock::encode(codec_, raw, element_bytes, room, scratch));
  auto encoded = head;
  encoded.encoded_ns = realtime_ns();
  return slot.writer->commit(encoded, size);
}

/// Through the plug-in; where that fails the chunk is stored as it is, and says so.
Result<void> SeriesFile::write_filtered(const Frame& frame, Bytes raw, const store::ChunkHead& head, WriterSlot& slot) {
  const auto& filter = filters_[frame.channel];
  auto applied = filter.plugin->apply(filter.spec, raw, slot.filtered);
  if (const auto size = slot.filtered.bytes().size(); applied.ok() && size > filtered_bytes_max(raw.size()))
    applied = make_error(Errc::too_large, "{} bytes became {}", raw.size(), size);
  auto chunk = head;
  chunk.encoded_ns = realtime_ns();
  if (applied.ok()) {
    chunk.crc.reset();
    const auto bytes = slot.filtered.bytes();
    return slot.writer->put(chunk, bytes, nullptr, bytes.size());
  }
  note_unfiltered(frame, applied.error());
  chunk.filter_mask = 1;
  return put_plain(frame, raw, chunk, slot);
}

void SeriesFile::tell_damaged(const Error& why) {
  if (const auto more = damaged_told_.tell()) spdlog::warn("{}: {}{}", path_, why.message(), *more);
}

/// Counts it, and tells of it now and then.
void SeriesFile::note_unfiltered(const Frame& frame, const Error& why) {
  const auto count = ++unfiltered_;
  const auto now = monotonic_ns();
  auto told = unfiltered_told_ns_.load();
  if (told != 0 && now - told < unfiltered_quiet_ns) return;
  if (!unfiltered_told_ns_.compare_exchange_strong(told, now)) return;
  spdlog::warn("{}: image {} is stored unfiltered, {} so far: {}", path_, value(frame.number), count, why.message());
}

/// `chunks` chunks with this cookie came to their end: the frames of which these were the last.
void SeriesFile::settle_chunks(std::uint64_t cookie, Fate fate, std::uint64_t chunks, std::int64_t encoded_ns,
                               std::int64_t written_ns, std::vector<RowSlots::Settled>& settled) {
  const auto settle_frame = [&](std::uint64_t slot) {
    if (auto frame = slots_.settle(slot, fate, chunks, encoded_ns, written_ns)) settled.push_back(std::move(*frame));
  };
  if (!blocks_) return settle_frame(cookie);
  for (const auto slot : blocks_->settle(cookie, fate, chunks)) settle_frame(slot);
}

/// The frame is given up with its last chunk; it is not on the indexer's thread alone that this is called.
void SeriesFile::give_up(std::uint64_t cookie, std::uint64_t chunks, Fate fate) {
  std::vector<RowSlots::Settled> settled;
  settle_chunks(cookie, fate, chunks, -1, -1, settled);
  if (!settled.empty()) conclude(std::move(settled));
}

/// All chunks of these frames have come to their end. Of lost ones nothing enters the columns here.
void SeriesFile::conclude(std::vector<RowSlots::Settled> settled) {
  std::vector<Ledger::Item> placed;
  std::vector<Ledger::Item> there;
  std::vector<Ledger::Item> lost;
  for (const auto& [row, fate] : settled) {
    const Ledger::Item item{FrameNumber{row.number}, row.part};
    switch (fate) {
      case Fate::placed: placed.push_back(item); break;
      case Fate::already_there: there.push_back(item); break;
      case Fate::damaged: ledger_.give_up(item, FrameState::damaged); break;
      case Fate::too_late: ledger_.give_up(item, FrameState::dropped); break;
      case Fate::lost: lost.push_back(item); break;
    }
  }
  // What is not stored counts again when it comes again.
  raw_bytes_ -= (settled.size() - placed.size()) * raw_bytes_a_part_;
  ledger_.placed(placed);
  ledger_.already_there(there);
  ledger_.lost(lost);
  const auto now = monotonic_ns();
  std::vector<std::int64_t> latencies;
  latencies.reserve(placed.size());
  for (auto& each : settled) {
    if (each.fate != Fate::placed) continue;
    auto& row = each.row;
    row.whole = ledger_.whole(FrameNumber{row.number});
    latencies.push_back(now - row.admitted_ns);
    meter_.latency.add(latencies.back());
    batch_->add(std::move(row));
  }
  meter_.frames_written += placed.size();
  std::lock_guard lock(mutex_);
  for (const auto latency : latencies) latency_.add(latency);
  images_written_ += placed.size();
  settle(settled.size());
}

Ledger::Item SeriesFile::item_of(const store::ChunkHead& head) const {
  const auto chunks_a_frame = mosaic_.tiles_a_frame();
  const auto number = scan_ ? head.frame : head.index / chunks_a_frame;
  const auto element = mosaic_.part(head.index % chunks_a_frame).element;
  return {FrameNumber{number}, part_of(static_cast<std::uint32_t>(head.dataset), element)};
}

/// Whether the frame's part is in the file with this chunk, whoever brought its others: in a team several ranks
/// may bring some, and its lead hears of all.
bool SeriesFile::note_part(const store::ChunkHead& head) {
  if (team_.ranks() == 1 || !team_.leads()) return false;
  const auto [number, part] = item_of(head);
  return partial_.add(number, part, mosaic_.part(head.index % mosaic_.tiles_a_frame()).tile);
}

}  // namespace penstock::recorder
