#include "store/hdf5/indexer.hpp"

#include <spdlog/spdlog.h>

#include "base/threads.hpp"
#include "base/time/clock.hpp"

namespace penstock::store::hdf5 {
namespace {

constexpr std::size_t inbox_segments = 256;

/// Adds the time that passed in a scope.
class Timed {
 public:
  explicit Timed(std::atomic<std::int64_t>& sum) : sum_(sum), started_(monotonic_ns()) {}
  ~Timed() { sum_ += monotonic_ns() - started_; }

 private:
  std::atomic<std::int64_t>& sum_;
  const std::int64_t started_;
};

}  // namespace

Indexer::Indexer(std::unique_ptr<IndexFile> file, const StoreOptions& options, Listener* listener, Counters& counters)
    : file_(std::move(file)),
      flush_interval_(options.flush_interval),
      listener_(listener),
      counters_(counters),
      inbox_(inbox_segments),
      thread_([this] {
        begin_thread("pen-index", Role::index);
        run();
      }) {}

Indexer::~Indexer() { (void)drain(); }

Result<void> Indexer::drain() {
  inbox_.close();
  if (thread_.joinable()) thread_.join();
  if (failure_) return *failure_;
  return {};
}

void Indexer::run() {
  using Clock = std::chrono::steady_clock;
  auto due = Clock::now() + flush_interval_;
  while (true) {
    if (auto item = inbox_.pop_for(due - Clock::now()))
      std::visit([this](auto& what) { take(std::move(what)); }, *item);
    else if (inbox_.ended())
      break;
    if (Clock::now() < due) continue;
    flush();
    due = Clock::now() + flush_interval_;
  }
  flush();
}

/// Returns the positions of chunks that were there already. An error of HDF5 is the last word of the index; chunks that
/// are not admitted may come again.
Result<std::vector<std::size_t>> Indexer::enter(std::span<const PlacedChunk> chunks) {
  if (failure_) return *failure_;
  PEN_TRY(file_->admit_chunks());
  auto entered = [&] {
    const Timed timed(counters_.index_ns);
    return file_->put_chunks(chunks);
  }();
  if (!entered.ok()) {
    fail(entered.error());
    return entered;
  }
  changed_ = true;
  return entered;
}

void Indexer::take(WrittenSegment segment) {
  --counters_.index_segments;
  if (segment.failure) return report_lost(segment.chunks, *segment.failure);
  auto entered = enter(segment.chunks);
  if (!entered.ok()) return report_lost(segment.chunks, entered.error());
  if (!entered->empty()) report_refused(segment.chunks, *entered);
  count(segment.chunks);
  if (listener_ != nullptr && !segment.chunks.empty()) listener_->placed(segment.chunks, *this);
}

void Indexer::take(Foreign segment) {
  --counters_.index_segments;
  auto& chunks = segment.placed.chunks;
  share::Indexed answer{.id = segment.placed.id, .refused = {}, .failure = {}};
  if (auto entered = enter(chunks); entered.ok()) {
    answer.refused.assign(entered->begin(), entered->end());
    for (auto position = entered->rbegin(); position != entered->rend(); ++position)
      chunks.erase(chunks.begin() + static_cast<std::ptrdiff_t>(*position));
    count(chunks);
    if (listener_ != nullptr && !chunks.empty()) listener_->placed_elsewhere(chunks);
  } else {
    answer.failure = std::move(entered).error();
  }
  segment.answer(answer);
}

void Indexer::take(const share::Rows& rows) {
  if (auto written = put(rows.column, rows.run, rows.data); !written.ok() && !failure_)
    spdlog::error("rows of another rank are not in the file: {}", written.error().message());
}

void Indexer::count(std::span<const PlacedChunk> chunks) {
  for (const auto& chunk : chunks) counters_.chunk_bytes += chunk.size;
  counters_.chunks += chunks.size();
}

void Indexer::report_lost(std::span<const PlacedChunk> chunks, const Error& why) {
  counters_.lost_chunks += chunks.size();
  if (const auto suppressed = losses_limiter_.admit())
    spdlog::error("cannot write {} chunks (from {}): {}{}{}", chunks.size(),
                  chunks.empty() ? 0 : chunks.front().head.index,
                  why.code() == Errc::no_space ? "disk full; waiting for space: " : "", why.message(),
                  and_suppressed(*suppressed));
  if (listener_ != nullptr) listener_->lost(chunks, why);
}

/// Takes the refused ones out of `chunks`.
void Indexer::report_refused(std::vector<PlacedChunk>& chunks, const std::vector<std::size_t>& refused) {
  std::vector<PlacedChunk> twice;
  for (auto position = refused.rbegin(); position != refused.rend(); ++position) {
    twice.push_back(chunks[*position]);
    chunks.erase(chunks.begin() + static_cast<std::ptrdiff_t>(*position));
  }
  if (listener_ != nullptr) listener_->already_there(twice);
}

/// The listener's rows first, so that readers see a frame together with what is known of it.
void Indexer::flush() {
  if (listener_ != nullptr) listener_->tick(*this);
  if ((!changed_ && !file_->waits()) || failure_) return;
  const Timed timed(counters_.flush_ns);
  if (auto flushed = file_->flush(); !flushed.ok()) fail(flushed.error());
  changed_ = false;
}

Result<void> Indexer::put(ColumnId column, RowRun rows, Bytes data) {
  if (failure_) return *failure_;
  const Timed timed(counters_.row_ns);
  auto put = file_->put_rows(column, rows, data);
  changed_ = true;
  if (!put.ok() && put.error().code() != Errc::invalid_argument) fail(put.error());
  return put;
}

void Indexer::fail(const Error& error) {
  if (failure_) return;
  failure_ = error;
  spdlog::error("the index stops here; chunks go on to storage and can be recovered: {}", error.message());
}

}  // namespace penstock::store::hdf5
