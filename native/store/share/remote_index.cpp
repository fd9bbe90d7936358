#include "store/share/remote_index.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/threads.hpp"
#include "base/time/thread_times.hpp"

namespace penstock::store::share {

RemoteIndex::RemoteIndex(std::function<void(std::vector<std::byte>)> send, const StoreOptions& options,
                         Listener* listener, Counters& counters)
    : send_(std::move(send)),
      flush_interval_(options.flush_interval),
      listener_(listener),
      counters_(counters),
      inbox_(open_max),
      thread_([this] {
        begin_thread("pen-index", Role::index);
        run();
      }) {}

RemoteIndex::~RemoteIndex() { (void)drain(); }

void RemoteIndex::push(WrittenSegment segment) {
  MutexLock lock(mutex_);
  const auto may_go_on = [&]() PEN_REQUIRES(mutex_) { return open_ < open_max; };
  if (!may_go_on()) {
    const Waiting waiting(Wait::room);
    changed_.wait(lock, may_go_on);
  }
  ++open_;
  ++counters_.index_segments;
  if (segment.failure) {
    lock.unlock();
    (void)inbox_.push({std::move(segment), {}});
    return;
  }
  const auto id = next_id_++;
  const auto message = encode(id, segment.chunks);
  unanswered_.emplace(id, std::move(segment));
  lock.unlock();
  send_(message);
}

Result<void> RemoteIndex::answered(Indexed answer) {
  Settled settled;
  {
    MutexLock lock(mutex_);
    auto found = unanswered_.extract(answer.id);
    if (found.empty()) return make_error(Errc::malformed, "an answer to segment {}, which was not sent", answer.id);
    settled.segment = std::move(found.mapped());
  }
  const auto count = settled.segment.chunks.size();
  settled.segment.failure = std::move(answer.failure);
  for (const auto position : answer.refused)
    if (position >= count && !settled.segment.failure)
      settled.segment.failure =
          make_error(Errc::malformed, "the answer of rank 0 is about chunk {} of {}", position, count);
  settled.already_there = std::move(answer.refused);
  (void)inbox_.push(std::move(settled));
  return {};
}

Result<void> RemoteIndex::drain() {
  {
    MutexLock lock(mutex_);
    changed_.wait(lock, [&]() PEN_REQUIRES(mutex_) { return open_ == 0; });
  }
  inbox_.close();
  if (thread_.joinable()) thread_.join();
  if (failure_) return *failure_;
  return {};
}

void RemoteIndex::run() {
  using Clock = std::chrono::steady_clock;
  auto due = Clock::now() + flush_interval_;
  while (true) {
    if (auto settled = inbox_.pop_for(due - Clock::now())) {
      settle(*settled);
      MutexLock lock(mutex_);
      --open_;
      --counters_.index_segments;
      changed_.notify_all();
    } else if (inbox_.ended()) {
      break;
    }
    if (Clock::now() < due) continue;
    if (listener_ != nullptr) listener_->tick(*this);
    due = Clock::now() + flush_interval_;
  }
  if (listener_ != nullptr) listener_->tick(*this);
}

void RemoteIndex::settle(Settled& settled) {
  auto& [segment, twice] = settled;
  if (segment.failure) {
    counters_.lost_chunks += segment.chunks.size();
    if (segment.failure->code() == Errc::hdf5 && !failure_) failure_ = segment.failure;
    if (const auto suppressed = losses_limiter_.admit())
      spdlog::error("cannot write {} chunks: {}{}{}", segment.chunks.size(),
                    segment.failure->code() == Errc::no_space ? "disk full; waiting for space: " : "",
                    segment.failure->message(), and_suppressed(*suppressed));
    if (listener_ != nullptr) listener_->lost(segment.chunks, *segment.failure);
    return;
  }
  std::vector<PlacedChunk> placed, already;
  std::sort(twice.begin(), twice.end());
  for (std::size_t i = 0; i < segment.chunks.size(); ++i) {
    auto& to = std::binary_search(twice.begin(), twice.end(), i) ? already : placed;
    to.push_back(segment.chunks[i]);
  }
  for (const auto& chunk : placed) counters_.chunk_bytes += chunk.size;
  counters_.chunks += placed.size();
  if (listener_ == nullptr) return;
  if (!already.empty()) listener_->already_there(already);
  if (!placed.empty()) listener_->placed(placed, *this);
}

Result<void> RemoteIndex::put(ColumnId column, RowRun rows, Bytes data) {
  send_(encode(column, rows, data));
  return {};
}

}  // namespace penstock::store::share
