#include "recorder/series/series_file.hpp"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/clock.hpp"
#include "base/crc32c.hpp"
#include "recorder/tree/gaps.hpp"
#include "recorder/tree/possible.hpp"
#include "stream/element.hpp"

namespace penstock::recorder {
namespace {

/// An open-ended series may leave this many numbers out; more is taken for a wrong number.
constexpr std::uint64_t gap_frames_max = 1'000'000;
constexpr std::uint64_t damage_reach = 1024;  // of a damaged frame beyond the last one, in a series with an open end
/// A segment from here on is written though it is not full when no frame waits: its header and
/// padding, 8 KiB, are less than a hundredth of it.
constexpr std::uint64_t worthwhile_bytes = 1 << 20;
/// Between two attempts to make the file on a storage that had no room for it.
constexpr std::int64_t fit_interval_ns = 200'000'000;
/// For the workers of a series that is to close, before what they left unfilled is sent on its way.
constexpr auto idle_patience = std::chrono::milliseconds(50);
/// A payload up to here has just come through the cache, where a checksum costs little.
constexpr std::size_t cached_bytes_max = 4 << 20;

/// Rather than lose a series whose frames cannot be cut as configured, its chunks are whole frames.
Result<Mosaic> mosaic_of(const Series& series, const std::vector<std::uint64_t>& tile) {
  const auto grid = series.element.value_or(ElementPlace{});
  auto mosaic = Mosaic::of(series.frame, grid, tile);
  if (!mosaic.ok() && grid.has_gaps() && mosaic.error().code() == Errc::too_large)
    return mosaic.error().with_context(fmt::format("user_data.penstock.element.gap is {}", stream::gap_text(grid)));
  if (mosaic.ok() || tile.empty()) return mosaic;
  spdlog::warn("series \"{}\": chunk.shape: {}; its chunks are whole {}", series.unique_id, mosaic.error().message(),
               grid.count() > 1 ? "elements" : "frames");
  return Mosaic::of(series.frame, grid, {});
}

/// The scan that the start message brings, or the configuration, if the series can have it.
Result<ScanConfig> scan_of(const Series& series, const Config& config, unsigned ranks, std::uint64_t chunks_a_frame) {
  PEN_ASSIGN(auto scan, ScanConfig::of_series(series.user_data_json, config.scan));
  if (!scan) return scan;
  PEN_TRY(config.check_chunks(chunks_a_frame > 1, true));
  const auto elements = series.element.value_or(ElementPlace{}).count();
  if (scan.order == ScanConfig::Order::given && elements > 1)
    return make_error(
        Errc::unsupported,
        "scan.order is \"given\", and the detector has {} elements, which may disagree about a frame's place",
        elements);
  // A rank does not know which places the frames of others claim.
  if (scan.order == ScanConfig::Order::given && ranks > 1)
    return make_error(Errc::unsupported,
                      "scan.order is \"given\", and the recorder has {} ranks; frames that bring their places need a "
                      "recorder of one rank",
                      ranks);
  if (scan.points() > chunks_max / chunks_a_frame)
    return make_error(Errc::too_large, "the scan has {} points; with {} chunks a frame at most {} are possible",
                      scan.points(), chunks_a_frame, chunks_max / chunks_a_frame);
  return scan;
}

}  // namespace

SeriesFile::SeriesFile(Env& env, const Config& config, Team& team, Series series, Mosaic mosaic, ScanConfig scan,
                       std::string path)
    : env_(env),
      config_(config),
      team_(team),
      series_(std::move(series)),
      path_(std::move(path)),
      mosaic_(std::move(mosaic)),
      scan_(std::move(scan)),
      codec_(config.codec),
      ledger_(parts()),
      partial_(tiling().count()) {}

SeriesFile::~SeriesFile() { drop_store(); }

/// Checks what the series announces.
Result<std::shared_ptr<SeriesFile>> SeriesFile::make(Env& env, const Config& config, Team& team, Series series,
                                                     std::string path) {
  const auto elements = series.element.value_or(ElementPlace{}).count();
  if (series.channels.empty() || series.channels.size() * elements > 32)
    return make_error(Errc::unsupported, "channels has {} entries; from 1 to {} are possible{}", series.channels.size(),
                      32 / elements, elements > 1 ? fmt::format(" with {} elements", elements) : "");
  if (series.frame.shape.empty() || series.frame.shape.size() > 3)
    return make_error(Errc::unsupported, "frames have {} dimensions; 1 to 3 are possible", series.frame.shape.size());
  PEN_ASSIGN(const auto bytes, series.frame.bytes(config.frame_bytes_max), "frame");
  PEN_ASSIGN(auto mosaic, mosaic_of(series, config.chunk.shape));
  const auto chunks_a_frame = mosaic.tiles_a_frame();
  if (series.frames > chunks_max / chunks_a_frame)
    return make_error(Errc::too_large, "number_of_images is {}; at most {} are possible", series.frames,
                      chunks_max / chunks_a_frame);
  PEN_TRY(config.check_chunks(chunks_a_frame > 1, false));
  auto scan = scan_of(series, config, team.ranks(), chunks_a_frame);
  if (!scan.ok()) {
    if (!set_scan_aside(series, scan.error())) return std::move(scan).error();
    scan = ScanConfig();
  }
  PEN_ASSIGN(auto blocks, make_blocks(config, team.ranks(), series, mosaic.tiling(), *scan, bytes));
  const auto raw = mosaic.tiling().tile_bytes() * (blocks ? blocks->frames() : 1);
  const auto encoded =
      !config.filters.empty() ? filtered_bytes_max(raw) : encoded_bound(config.codec, raw, size_of(series.frame.type));
  const auto chunk = std::max<std::uint64_t>(encoded, raw);
  const auto room = config.segment_pool_bytes() - (blocks ? config.block_pool_bytes() : 0);
  if (chunk + 2 * page_bytes > room)
    return make_error(Errc::too_large,
                      "chunks of {} bytes need a pool_bytes of at least {}; the recorder has {}: enlarge it", raw,
                      (chunk + 2 * page_bytes) * (config.pool_bytes / room), config.pool_bytes);
  std::shared_ptr<SeriesFile> file(
      new SeriesFile(env, config, team, std::move(series), std::move(mosaic), std::move(*scan), std::move(path)));
  file->raw_bytes_a_part_ = bytes;
  if (!file->maps_have_room(gap_mask_type))
    file->series_.remarks.push_back(make_error(
        Errc::too_large,
        "masks of frames of {} pixels need more than tables_bytes, which is {}: the file has none; enlarge it",
        fmt::join(file->mosaic_.assembled().shape, " × "), config.tables_bytes));
  file->blocks_ = std::move(blocks);
  if (file->blocks_) file->ledger_.watch_windows();
  PEN_TRY(file->check_window(file->series_.window_frames));
  PEN_ASSIGN(file->filters_,
             settle_filters(config.filters, file->series_, chunk_shape(file->series_, file->arrangement())));
  file->last_activity_ns_ = monotonic_ns();
  return file;
}

Result<std::shared_ptr<SeriesFile>> SeriesFile::create(Env& env, const Config& config, Team& team, Series series,
                                                       std::string path) {
  PEN_ASSIGN(auto file, make(env, config, team, std::move(series), std::move(path)));
  PEN_TRY(file->create_store(config.codec.encoding, {}, false));
  return file;
}

Result<std::shared_ptr<SeriesFile>> SeriesFile::without_room(Env& env, const Config& config, Team& team, Series series,
                                                             std::string path, const Error& why) {
  PEN_ASSIGN(auto file, make(env, config, team, std::move(series), std::move(path)));
  file->may_fit_again_ = true;
  file->fail(why);
  return file;
}

Result<std::shared_ptr<SeriesFile>> SeriesFile::join(Env& env, const Config& config, Team& team, Series series,
                                                     std::string path) {
  return make(env, config, team, std::move(series), std::move(path));
}

store::StoreOptions SeriesFile::store_options() const {
  auto options = config_.store;
  options.buffer_bytes = config_.segment_pool_bytes() - (blocks_ ? config_.block_pool_bytes() : 0);
  options.segment_bytes = std::min(options.segment_bytes, options.buffer_bytes / 2 / page_bytes * page_bytes);
  return options;
}

/// Rather than lose a series whose frames cannot be in slots, its file is written as a log.
store::Placement SeriesFile::placement() const {
  const auto instead = [&](const std::string& why) {
    spdlog::warn("{}: store.placement is not \"log\", but {}; the file is written as with \"log\"", path_, why);
    return store::Placement::log;
  };
  // A frame that comes to two ranks is written to one place twice, which is harmless where the bytes are the same.
  if (config_.placement == store::Placement::slots && filtered_ && team_.ranks() > 1)
    return instead("nobody can tell that a filter plug-in makes the same bytes of a frame on two ranks");
  if (config_.placement != store::Placement::log && (scan_ || mosaic_.tiles_a_frame() > 1 || blocks_))
    return instead("fixed places are for whole frames one behind the other");
  return config_.placement;
}

void SeriesFile::use(Encoding encoding, const std::vector<MetaColumn>& columns) {
  codec_.encoding = encoding;
  filtered_ = !filters_.empty() && encoding == Encoding::none;
  const auto raw = chunk_bytes();
  const auto encoded_max =
      filtered_ ? filtered_bytes_max(raw) : encoded_bound(codec_, raw, size_of(series_.frame.type));
  chunk_bytes_max_ = std::max<std::uint64_t>(encoded_max, raw);
  columns_ = config_.layout ? config_.layout->complete(columns) : columns;
  const auto states = team_.leads() ? RowBatch::States::written : RowBatch::States::left_to_the_lead;
  batch_ = std::make_unique<RowBatch>(
      columns, states,
      [this](const std::string& name, const char* what) {
        spdlog::warn("{}: \"{}\", which frames bring along, {}", path_, name.substr(0, 64), what);
      },
      scan_ ? RowBatch::Places::written : RowBatch::Places::none);
}

void SeriesFile::note_edges(const Frame& frame) {
  std::lock_guard lock(edges_mutex_);
  config_.layout->note(frame, edges_);
}

EdgeValues SeriesFile::edges() const {
  std::lock_guard lock(edges_mutex_);
  return edges_;
}

void SeriesFile::make_writers() {
  for (unsigned i = 0; i < config_.threads; ++i) {
    writers_.push_back(std::make_unique<WriterSlot>());
    writers_.back()->writer = store_->make_writer();
  }
}

void SeriesFile::drop_store() {
  if (entered_) team_.leave(file_);
  entered_ = false;
  writers_.clear();
  store_.reset();
}

Result<void> SeriesFile::create_store(Encoding encoding, const std::vector<MetaColumn>& columns, bool replace) {
  drop_store();
  use(encoding, columns);
  auto options = store_options();
  options.overwrite = may_overwrite() || replace;
  PEN_ASSIGN(const auto number, team_.new_file());
  std::tie(file_, file_base_) = number;
  PEN_ASSIGN(store_,
             store::Store::create(env_, path_, layout(placement()), options, this, team_.share(file_, file_base_)));
  team_.enter(file_, store_.get());
  entered_ = true;
  make_writers();
  return {};
}

/// In place of the file of this series alone, whose name goes first: readers may have it open already, and lock it.
/// Somebody may put another in its place, while this one waits for room, say: then it waits on, until that one is moved
/// away.
Result<void> SeriesFile::make_again(Encoding encoding, const std::vector<MetaColumn>& columns) {
  if (store_ != nullptr) {
    if (!store_->still_named())
      return make_error(Errc::not_found, "the file was removed or replaced before its first frame");
    PEN_TRY(env_.remove(path_));
  }
  auto made = create_store(encoding, columns, false);
  if (!made.ok() && made.error().code() == Errc::already_exists) {
    if (const auto more = taken_told_.tell())
      spdlog::error("{}: somebody made it before its first frame: the series' frames are lost until it is moved away{}",
                    path_, *more);
    return make_error(Errc::no_space, "{}", made.error().message());
  }
  return made;
}

/// Only the first frame tells how the detector compresses and which metadata it sends; where that
/// is not what the file was made for, the file (which holds no frame yet) is made again. Where the storage has no room
/// for it, a later frame is the first one.
Result<void> SeriesFile::fit(Encoding encoding, const std::vector<MetaColumn>& columns) {
  if (fitted_.load(std::memory_order_acquire)) return {};
  std::lock_guard lock(first_mutex_);
  if (fitted_) return {};
  if (first_seen_ && !may_fit_again_) return make_error(Errc::io, "{}", first_failure());
  if (may_fit_again_ && monotonic_ns() - fit_tried_ns_ < fit_interval_ns)
    return make_error(Errc::no_space, "{}", first_failure());
  first_seen_ = true;
  fit_tried_ns_ = monotonic_ns();
  const auto wanted = encoding == Encoding::none || !is_chunk_a_frame() ? config_.codec.encoding : encoding;
  if (encoding != Encoding::none && !is_chunk_a_frame())
    spdlog::warn(
        "{}: its frames come compressed ({}), and a chunk {}: each is expanded and compressed "
        "again ({}), which costs processor time; with chunks of whole frames it would be stored as it is",
        path_, name(encoding), blocks_ ? "has several frames" : "is a part of a frame", name(wanted));
  Result<void> opened;
  if (!team_.leads()) {
    opened = join_store(wanted, columns);
  } else if (may_fit_again_ || wanted != codec_.encoding || !columns.empty()) {
    opened = make_again(wanted, columns);
  }
  may_fit_again_ = team_.leads() && !opened.ok() && opened.error().code() == Errc::no_space;
  if (!opened.ok()) {
    fail(opened.error());
    return opened;
  }
  fitted_.store(true, std::memory_order_release);
  return {};
}

Result<void> SeriesFile::check(const Frame& frame, std::uint64_t raw_bytes) const {
  const auto number = value(frame.number);
  if (series_.frames > 0 && number >= series_.frames)
    return make_error(Errc::malformed, "image_id is {}; the series has {} frames", number, series_.frames);
  if (number >= chunks_max / mosaic_.tiles_a_frame())
    return make_error(Errc::too_large, "image_id is {}; at most {} frames are possible", number,
                      chunks_max / mosaic_.tiles_a_frame());
  if (series_.frames == 0 && number > ledger_.end() + gap_frames_max)
    return make_error(Errc::malformed, "image_id is {}; the highest so far is below {} and at most {} may be left out",
                      number, ledger_.end(), gap_frames_max);
  if (frame.channel >= series_.channels.size())
    return make_error(Errc::malformed, "channel is {}; the series has {}", frame.channel, series_.channels.size());
  PEN_TRY(check_element(frame));
  if (!(frame.spec == series_.frame))
    return make_error(Errc::mismatch, "image {} has shape [{}] of {}; the series has [{}] of {}", number,
                      fmt::join(frame.spec.shape, ", "), name(frame.spec.type), fmt::join(series_.frame.shape, ", "),
                      name(series_.frame.type));
  const auto sent_bytes = frame.form.sent_bytes(raw_bytes);
  if (frame.encoding == Encoding::none && frame.payload.size() != sent_bytes)
    return make_error(Errc::mismatch, "image {} has {} bytes; its shape and type need {}", number, frame.payload.size(),
                      sent_bytes);
  return {};
}

Result<std::optional<Task>> SeriesFile::admit(Frame frame, ValuesRoom room) {
  {
    std::lock_guard lock(mutex_);
    if (closing_)
      return make_error(Errc::out_of_order, "image {} came after the series was closed", value(frame.number));
    if (removed_) return make_error(Errc::not_found, "image {}: {}", value(frame.number), problem_);
    ++tasks_;
  }
  auto task = admit_open(std::move(frame), std::move(room));
  if (!task.ok() || !*task) release_task();
  return task;
}

Result<std::optional<Task>> SeriesFile::admit_open(Frame frame, ValuesRoom room) {
  if (!team_.leads() && !can_be(frame.number)) learn_end();
  if (auto checked = check(frame, raw_bytes_a_part_); !checked.ok()) {
    if (checked.error().code() == Errc::mismatch) damage(frame.number, frame.element);
    return std::move(checked).error();
  }
  auto crc = frame.payload_crc;
  if (frame.encoding != Encoding::none) {
    // First the pass over all bytes, which the processor foresees, then the walk from block to block.
    if (!crc && frame.payload.size() <= cached_bytes_max) crc = crc32c(frame.payload);
    auto framing = check_framing(frame.encoding, frame.payload, frame.form.element_bytes(frame.spec.type),
                                 frame.form.sent_bytes(raw_bytes_a_part_));
    if (!framing.ok()) {
      ledger_.damaged(frame.number, part_of(frame.channel, frame.element.value_or(0)));
      return std::move(framing).error().with_context(fmt::format("image {}", value(frame.number)));
    }
  }
  if (config_.layout) {
    config_.layout->complete(frame);
    note_edges(frame);
  }
  if (!fitted_.load(std::memory_order_acquire)) {
    note_series_date(frame.series_date);
    // What has to be expanded before it is stored does not tell how the file is encoded.
    auto fitted = fit(frame.form.plain() ? frame.encoding : Encoding::none, meta_columns(frame.metadata));
    if (!fitted.ok() && fitted.error().code() == Errc::no_space) return lose(frame);
    PEN_TRY(fitted);
  }
  const auto part = part_of(frame.channel, frame.element.value_or(0));
  const auto admission = ledger_.receive(frame.number, part, frame.session);
  if (admission == Ledger::Admission::no_room) return far_from_others(frame.number);
  if (admission == Ledger::Admission::duplicate) {
    notify_sessions();
    return task_for(block_waited_for(frame.session));
  }
  const auto place = place_of(frame);
  if (!place.ok()) {
    ledger_.give_up({frame.number, part}, FrameState::damaged);
    notify_sessions();
    return place.error();
  }
  Blocks::Joined joined;
  if (blocks_) {
    PEN_ASSIGN(joined, join_block(frame));
  }
  raw_bytes_ += raw_bytes_a_part_;
  meter_.raw_bytes += raw_bytes_a_part_;
  ++meter_.frames_received;
  last_activity_ns_ = monotonic_ns();
  note_received(frame.received_ns);
  shorten_text(frame.metadata);
  const auto slot = slots_.put({.number = value(frame.number),
                                .part = part,
                                .exposure_start_ns = frame.exposure_start_ns,
                                .exposure_stop_ns = frame.exposure_stop_ns,
                                .exposure_real_ns = frame.exposure_real_ns,
                                .received_ns = frame.received_ns,
                                .admitted_ns = monotonic_ns(),
                                .place = static_cast<std::int64_t>(*place),
                                .metadata = std::move(frame.metadata),
                                .room = std::move(room)},
                               tiling().count());
  {
    std::lock_guard lock(mutex_);
    ++unsettled_;
  }
  return std::optional<Task>(Task{std::move(frame), slot, *place, crc, std::move(joined.block), std::move(joined.due)});
}

/// Times of exposure count from there, which need not be when the detector was armed. The first frame's counts.
void SeriesFile::note_series_date(const std::string& date) {
  std::lock_guard lock(first_mutex_);
  if (series_date_.empty()) series_date_ = date;
}

bool SeriesFile::can_be(FrameNumber number) const {
  return value(number) < (series_.frames > 0 ? series_.frames : ledger_.end() + gap_frames_max);
}

void SeriesFile::drop(FrameNumber number) {
  if (can_be(number)) ledger_.dropped(number);
}

void SeriesFile::damage(FrameNumber number, std::optional<std::uint32_t> element) {
  // A number far off, which nothing bears out, does not lengthen a series.
  const auto end = series_.frames > 0 ? series_.frames : ledger_.end() + damage_reach;
  if (value(number) >= end) return;
  ledger_.damaged(number,
                  element && *element < mosaic_.elements() ? std::optional(part_of(0, *element)) : std::nullopt);
}

void SeriesFile::release_task() {
  std::lock_guard lock(mutex_);
  if (--tasks_ == 0) idle_.notify_all();
}

/// With mutex_ held.
void SeriesFile::settle(std::uint64_t frames) {
  unsettled_ -= frames;
  if (unsettled_ == 0) idle_.notify_all();
}

void SeriesFile::attach(Session session) {
  std::lock_guard lock(mutex_);
  if (session && std::find(sessions_.begin(), sessions_.end(), session) == sessions_.end())
    sessions_.push_back(std::move(session));
}

std::vector<Session> SeriesFile::sessions() const {
  std::lock_guard lock(mutex_);
  return sessions_;
}

void SeriesFile::flush_older_than(std::int64_t before_ns) {
  if (!fitted_) return;
  for (auto& slot : writers_) {
    std::unique_lock lock(slot->mutex, std::try_to_lock);  // a busy writer fills its segment by itself
    if (!lock || !slot->writer) continue;
    const auto oldest = slot->writer->oldest_ns();
    if (oldest == 0 || oldest >= before_ns) continue;
    if (auto flushed = slot->writer->flush(); !flushed.ok()) fail(flushed.error());
  }
}

void SeriesFile::flush_if_worthwhile(unsigned worker) {
  auto& slot = *writers_[worker];
  std::lock_guard lock(slot.mutex);
  if (!slot.writer || slot.writer->waiting_bytes() < worthwhile_bytes) return;
  if (auto flushed = slot.writer->flush(); !flushed.ok()) fail(flushed.error());
}

bool SeriesFile::busy() const {
  std::lock_guard lock(mutex_);
  return tasks_ > 0 || unsettled_ > 0;
}

Result<void> SeriesFile::close() {
  stop_waiting();
  {
    std::unique_lock lock(mutex_);
    closing_ = true;
    // A worker may wait for memory that another one's segment holds, which no frame will fill any more.
    while (!idle_.wait_for(lock, idle_patience, [&] { return tasks_ == 0; })) {
      lock.unlock();
      flush_older_than(monotonic_ns());
      lock.lock();
    }
  }
  // The first writer may have to wait for memory that another one's segment holds.
  if (blocks_)
    for (auto& slot : writers_) {
      std::lock_guard lock(slot->mutex);
      if (auto flushed = slot->writer->flush(); !flushed.ok()) fail(flushed.error());
    }
  write_open_blocks();
  for (auto& slot : writers_) {
    std::lock_guard lock(slot->mutex);
    if (auto flushed = slot->writer->flush(); !flushed.ok()) fail(flushed.error());
    slot->writer.reset();
  }
  if (!store_ && !team_.leads()) tell_blemishes();
  if (!store_) return problem().empty() ? Result<void>{} : make_error(Errc::io, "{}", first_failure());
  const auto frames = std::max(series_.frames, ledger_.end());
  {
    // What became of the last segments' frames belongs into the final counts.
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return unsettled_ == 0; });
  }
  settled_ = team_.leads();
  // The lead hears no more of other ranks; another rank hears the lead until all is settled.
  if (team_.leads()) {
    team_.leave(file_);
    note_partial();
  }
  auto finished = store_->finish(values_at_end(frames));
  if (!team_.leads()) team_.leave(file_);
  entered_ = false;
  if (!finished.ok()) spoil(finished.error());
  if (problem().empty() && !first_failure().empty())
    spdlog::info("{}: what the storage did not take has come again and is there: {}", path_, first_failure());
  return finished;
}

void SeriesFile::placed(std::span<const store::PlacedChunk> chunks, store::RowWriter& rows) {
  std::vector<RowSlots::Settled> settled;
  std::uint64_t bytes = 0;
  for (const auto& chunk : chunks) {
    bytes += chunk.size;
    note_part(chunk.head);
    settle_chunks(chunk.head.cookie, Fate::placed, 1, chunk.head.encoded_ns, chunk.written_ns, settled);
  }
  meter_.stored_bytes += bytes;
  failing_since_ns_ = 0;
  ask_again_interval_ns_ = 0;
  {
    std::lock_guard lock(mutex_);
    stored_bytes_ += bytes;
  }
  conclude(std::move(settled));
  if (batch_->is_full())
    if (auto written = batch_->write(rows); !written.ok()) spoil(written.error());
  notify_sessions();
}

void SeriesFile::lost(std::span<const store::PlacedChunk> chunks, const Error& why) {
  fail(why);
  std::int64_t never = 0;
  failing_since_ns_.compare_exchange_strong(never, monotonic_ns());
  for (const auto& chunk : chunks) give_up(chunk.head.cookie, 1, Fate::lost);
}

/// The batch before the states: a frame whose parts went to several ranks is whole with the last one.
void SeriesFile::tick(store::RowWriter& rows) {
  if (auto written = batch_->write(rows); !written.ok()) spoil(written.error());
  if (auto written = write_states(whole_elsewhere_, FrameState::received, rows); !written.ok()) spoil(written.error());
  whole_elsewhere_.clear();
  if (!team_.leads()) return tell_blemishes();
  for (const auto& [number, state] : ledger_.take_blemishes()) {
    const auto byte = static_cast<std::byte>(state);
    auto put = rows.put(store::ColumnId{static_cast<std::uint16_t>(Column::state)}, {value(number)}, Bytes(&byte, 1));
    if (!put.ok()) spoil(put.error());
  }
}

}  // namespace penstock::recorder
