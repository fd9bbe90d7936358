#include "store/hdf5/indexer.hpp"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include "base/clock.hpp"

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
        pthread_setname_np(pthread_self(), "pen-index");
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
    if (auto segment = inbox_.pop_for(due - Clock::now()))
      index(std::move(*segment));
    else if (inbox_.closed())
      break;
    if (Clock::now() < due) continue;
    flush();
    due = Clock::now() + flush_interval_;
  }
  flush();
}

void Indexer::index(WrittenSegment segment) {
  if (segment.failure) return report_lost(segment.chunks, *segment.failure);
  if (failure_) return report_lost(segment.chunks, *failure_);
  auto entered = [&] {
    const Timed timed(counters_.index_ns);
    return file_->put_chunks(segment.chunks);
  }();
  if (!entered.ok()) {
    fail(entered.error());
    return report_lost(segment.chunks, entered.error());
  }
  if (!entered->empty()) report_refused(segment.chunks, *entered);
  std::uint64_t bytes = 0;
  for (const auto& chunk : segment.chunks) bytes += chunk.size;
  counters_.chunks += segment.chunks.size();
  counters_.chunk_bytes += bytes;
  changed_ = true;
  if (listener_ != nullptr && !segment.chunks.empty()) listener_->placed(segment.chunks, *this);
}

void Indexer::report_lost(std::span<const PlacedChunk> chunks, const Error& why) {
  counters_.lost_chunks += chunks.size();
  spdlog::error("{} chunks from number {} on are not in the file's index: {}", chunks.size(),
                chunks.empty() ? 0 : chunks.front().head.index, why.message());
  if (listener_ != nullptr) listener_->lost(chunks, why);
}

/// Takes the refused ones out of `chunks`.
void Indexer::report_refused(std::vector<PlacedChunk>& chunks, const std::vector<std::size_t>& refused) {
  std::vector<PlacedChunk> twice;
  for (auto position = refused.rbegin(); position != refused.rend(); ++position) {
    twice.push_back(chunks[*position]);
    chunks.erase(chunks.begin() + static_cast<std::ptrdiff_t>(*position));
  }
  report_lost(twice, make_error(Errc::already_exists, "the file holds a chunk {} already; that one stays",
                                twice.front().head.index));
}

/// The listener's rows first, so that readers see a frame together with what is known of it.
void Indexer::flush() {
  if (listener_ != nullptr) listener_->tick(*this);
  if (!changed_ || failure_) return;
  const Timed timed(counters_.flush_ns);
  if (auto flushed = file_->flush(); !flushed.ok()) fail(flushed.error());
  changed_ = false;
}

Result<void> Indexer::put(ColumnId column, std::uint64_t first, Bytes data) {
  if (failure_) return *failure_;
  const Timed timed(counters_.row_ns);
  auto put = file_->put_rows(column, first, data);
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
