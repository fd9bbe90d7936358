#include "store/pipeline.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/crc32c.hpp"
#include "base/threads.hpp"
#include "base/time/clock.hpp"
#include "base/time/thread_times.hpp"

namespace penstock::store {
namespace {

constexpr std::size_t unsynced_max = 1024;
/// Of a header region in memory that is kept for the next one.
constexpr std::size_t header_bytes_kept = 256 << 10;

void raise_to(std::atomic<std::int64_t>& highest, std::int64_t value) {
  auto seen = highest.load();
  while (seen < value && !highest.compare_exchange_weak(seen, value)) {
  }
}

alignas(page_bytes) const std::byte zeros[page_bytes] = {};

}  // namespace

/// Page-aligned memory for header regions; grows and is kept.
struct Pipeline::HeaderBuffer {
  struct Free {
    void operator()(std::byte* gone) const { std::free(gone); }
  };
  std::unique_ptr<std::byte, Free> memory;
  std::size_t capacity = 0;

  Result<MutableBytes> region(std::size_t bytes) {
    if (bytes > capacity) {
      const auto wanted = align_up(bytes, 16 * page_bytes);
      memory.reset(static_cast<std::byte*>(std::aligned_alloc(page_bytes, wanted)));
      capacity = memory ? wanted : 0;
      if (!memory) return make_error(Errc::out_of_memory, "no memory for a header region of {} bytes", wanted);
    }
    return MutableBytes(memory.get(), bytes);
  }
  /// Values of frames may have taken much.
  void release_much() {
    if (capacity <= header_bytes_kept) return;
    memory.reset();
    capacity = 0;
  }
};

Pipeline::Pipeline(std::shared_ptr<File> file, Space& space, const format::FileId& id, const StoreOptions& options,
                   Sequences sequences, std::vector<Places> places, Counters& counters,
                   std::function<void(WrittenSegment)> deliver)
    : file_(std::move(file)),
      space_(space),
      id_(id),
      options_(options),
      places_(std::move(places)),
      counters_(counters),
      deliver_(std::move(deliver)),
      filled_(2 * options.write_threads),
      unsynced_(unsynced_max),
      sequence_(sequences.first),
      sequence_step_(sequences.step) {
  for (unsigned i = 0; i < options.write_threads; ++i)
    writers_.emplace_back([this] {
      begin_thread("pen-write", Role::write);
      write_loop();
    });
  if (options.durability != Durability::none)
    syncer_ = std::thread([this] {
      begin_thread("pen-sync", Role::write);
      sync_loop();
    });
}

std::vector<Places> fixed_places(const FileLayout& layout) {
  std::vector<Places> places;
  for (const auto& node : layout.chunked)
    if (node.places.placement != Placement::log) places.push_back(node.places);
  return places;
}

StoreStats stats_of(const Counters& counters) {
  StoreStats stats;
  stats.chunks = counters.chunks;
  stats.chunk_bytes = counters.chunk_bytes;
  stats.segments = counters.segments;
  stats.written_bytes = counters.written_bytes;
  stats.lost_chunks = counters.lost_chunks;
  stats.write_ns = counters.write_ns;
  stats.write_ns_max = counters.write_ns_max;
  stats.sync_ns = counters.sync_ns;
  stats.index_ns = counters.index_ns;
  stats.row_ns = counters.row_ns;
  stats.flush_ns = counters.flush_ns;
  stats.index_segments = counters.index_segments;
  stats.writing_ns = counters.writing.total_ns();
  return stats;
}

Pipeline::~Pipeline() { drain(); }

Result<void> Pipeline::push(FilledSegment&& segment) {
  if (!filled_.push(std::move(segment)))
    return make_error(Errc::cancelled, "the store accepts no more chunks: it is closing");
  return {};
}

void Pipeline::drain() {
  filled_.close();
  for (auto& thread : writers_)
    if (thread.joinable()) thread.join();
  unsynced_.close();
  if (syncer_.joinable()) syncer_.join();
}

void Pipeline::write_loop() {
  HeaderBuffer header;
  while (auto segment = filled_.pop()) {
    const auto started = monotonic_ns();
    const auto failed_syncs = failed_syncs_.load();
    auto address = write_segment(*segment, header);
    const auto took = monotonic_ns() - started;
    counters_.write_ns += took;
    raise_to(counters_.write_ns_max, took);
    auto next =
        address.ok() ? written(*segment, *address, std::nullopt) : written(*segment, 0, std::move(address).error());
    segment.reset();  // its memory is free for the writers before the index gets to it
    header.release_much();
    if (options_.durability == Durability::none || next.failure)
      deliver_(std::move(next));
    else
      unsynced_.push({std::move(next), failed_syncs});
  }
}

/// Gives the segment its place, writes it, and returns its address; its records' offsets are final then.
Result<std::uint64_t> Pipeline::write_segment(FilledSegment& segment, HeaderBuffer& buffer) {
  for (const auto& [record, data] : segment.unsummed)
    segment.records[record].crc = crc32c({data, segment.records[record].size});
  const auto header_bytes =
      format::header_region_bytes(segment.records.size() * format::record_size_bytes + segment.rows.size());
  const auto data_bytes = align_up(segment.data_bytes, page_bytes);
  for (auto& record : segment.records) record.offset += static_cast<std::uint32_t>(header_bytes);
  PEN_ASSIGN(const auto region, buffer.region(header_bytes));
  const auto segment_bytes = header_bytes + data_bytes;
  auto lock = turn();
  PEN_ASSIGN(const auto address, take_place(segment, segment_bytes));

  format::SegmentHeader header;
  header.file_id = id_;
  header.sequence = sequence_.fetch_add(sequence_step_);
  header.segment_bytes = segment_bytes;
  header.writer = segment.writer;
  header.created_ns = realtime_ns();
  header.address = address;
  format::encode_chunks(header, segment.records, segment.rows, region);

  std::vector<iovec> pieces{{region.data(), region.size()}};
  pieces.insert(pieces.end(), segment.pieces.begin(), segment.pieces.end());
  if (data_bytes > segment.data_bytes)
    pieces.push_back({const_cast<std::byte*>(zeros), data_bytes - segment.data_bytes});
  if (auto result = write_at(pieces, address); !result.ok()) {
    give_back(address, segment_bytes, result.error(), region);
    return std::move(result).error();
  }
  if (!places_.empty()) space_.cover(address + segment_bytes);
  if (lock) lock.unlock();
  // The disk works from now on, and not only when the kernel finds that too much is waiting. What it has leaves the
  // page cache: the next segments get pages that the machine has at hand.
  file_->start_writeback(address, segment_bytes);
  counters_.written_bytes += segment_bytes;
  ++counters_.segments;
  return address;
}

Result<void> Pipeline::write_at(const std::vector<iovec>& pieces, std::uint64_t address) {
  const AnyTime::Within writing(counters_.writing);
  return file_->write_at(pieces, address);
}

/// A place is used again only after the disk was full. If the header of the failed segment stayed there, a scan would
/// follow it past a smaller segment that comes to the place later.
void Pipeline::give_back(std::uint64_t address, std::uint64_t bytes, const Error& why, MutableBytes memory) {
  if (why.code() != Errc::no_space || !places_.empty()) return;
  if (erase_header(address, memory.first(page_bytes)).ok()) space_.give_back(address, bytes);
}

/// On a full disk a page that was never written cannot be written with zeros either, so it is read first.
Result<void> Pipeline::erase_header(std::uint64_t address, MutableBytes page) {
  PEN_ASSIGN(const auto count, file_->read_at(page, address));
  if (!format::starts_segment(page.first(count))) return {};
  return write_at({{const_cast<std::byte*>(zeros), page_bytes}}, address);
}

Result<std::uint64_t> Pipeline::take_place(const FilledSegment& segment, std::uint64_t bytes) {
  if (places_.empty()) return space_.take_segment(bytes);
  const auto& record = segment.records.front();
  const auto& places = places_[record.dataset];
  if (bytes > places.place_bytes)
    return make_error(Errc::too_large, "chunk {} takes {} bytes; its slot has {}", record.chunk_index, bytes,
                      places.place_bytes);
  return places.address_of(record.chunk_index);
}

/// Writes through the page cache to one file follow one another in the kernel, and those who wait
/// there burn a processor. They wait here instead, having made their checksums already.
std::unique_lock<std::mutex> Pipeline::turn() {
  if (direct()) return {};
  std::unique_lock turn(buffered_turn_, std::try_to_lock);
  if (!turn) {
    const Waiting waiting(Wait::turn);
    turn.lock();
  }
  return turn;
}

WrittenSegment Pipeline::written(const FilledSegment& segment, std::uint64_t address,
                                 std::optional<Error> failure) const {
  WrittenSegment done;
  done.chunks.reserve(segment.records.size());
  const auto now = realtime_ns();
  for (std::size_t i = 0; i < segment.records.size(); ++i) {
    const auto& record = segment.records[i];
    const ChunkHead head{.dataset = static_cast<DatasetId>(record.dataset),
                         .index = record.chunk_index,
                         .filter_mask = record.filter_mask,
                         .received_ns = record.received_ns,
                         .cookie = segment.companions[i].cookie,
                         .encoded_ns = segment.companions[i].encoded_ns,
                         .frame = record.frame};
    done.chunks.push_back({head, failure ? 0 : address + record.offset, record.size, record.crc, now});
  }
  done.failure = std::move(failure);
  return done;
}

/// A sync that fails gives up the pages that it could not write, and the kernel tells that once: a later one
/// succeeds without them. So it also speaks of the segments that were written meanwhile and are not in its batch, and
/// is no mere lack of room even where that was the reason: pages of the index may be among those given up.
void Pipeline::sync_loop() {
  std::optional<Error> failure;
  auto last = std::chrono::steady_clock::now();
  while (auto first = unsynced_.pop()) {
    // The sync comes early if many segments wait: when the queue is full, the write threads wait for the sync.
    if (options_.durability == Durability::interval)
      unsynced_.await_items(unsynced_max / 2, last + options_.sync_interval - std::chrono::steady_clock::now());
    std::vector<Unsynced> batch;
    batch.push_back(std::move(*first));
    while (auto more = unsynced_.pop_for(std::chrono::seconds(0))) batch.push_back(std::move(*more));
    const auto started = monotonic_ns();
    const auto synced = file_->sync();
    counters_.sync_ns += monotonic_ns() - started;
    last = std::chrono::steady_clock::now();
    if (!synced.ok()) {
      failure = Error(Errc::io, synced.error().message());
      ++failed_syncs_;
    }
    for (auto& [segment, failed_syncs] : batch) {
      if (failed_syncs < failed_syncs_) segment.failure = failure;
      deliver_(std::move(segment));
    }
  }
}

}  // namespace penstock::store
