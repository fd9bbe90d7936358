/// The index of a rank that has none: the lead's, reached by messages.
///
/// Takes the place that hdf5::Indexer has with the lead: one thread that notifies the listener of the outcome of
/// the chunks, and lets it put rows. At most `open_max` segments wait for the lead's answer or for the
/// listener; then push() waits.
#pragma once

#include <map>
#include <thread>

#include "base/log_rate_limiter.hpp"
#include "base/mutex.hpp"
#include "base/queue.hpp"
#include "store/pipeline.hpp"
#include "store/share/messages.hpp"

namespace penstock::store::share {

class RemoteIndex final : private RowWriter {
 public:
  /// `send` takes messages to the lead. `listener` may be null; it and `counters` outlive the index.
  RemoteIndex(std::function<void(std::vector<std::byte>)> send, const StoreOptions& options, Listener* listener,
              Counters& counters);
  ~RemoteIndex() override;

  /// Waits while too much is unanswered.
  void push(WrittenSegment segment);
  /// The lead's answer. Does not block.
  Result<void> answered(Indexed answer);
  /// Waits until everything is answered, lets the listener put its last rows, and joins the thread.
  /// Returns the first failure of the lead's index, if there was one.
  Result<void> drain();

 private:
  static constexpr std::size_t open_max = 64;

  struct Settled {
    WrittenSegment segment;
    std::vector<std::uint32_t> already_there;
  };

  void run();
  void settle(Settled& settled);
  Result<void> put(ColumnId column, RowRun rows, Bytes data) override;

  const std::function<void(std::vector<std::byte>)> send_;
  const std::chrono::milliseconds flush_interval_;
  Listener* const listener_;
  Counters& counters_;
  LogRateLimiter losses_limiter_;

  Mutex mutex_;
  CondVar changed_;
  std::map<std::uint64_t, WrittenSegment> unanswered_ PEN_GUARDED_BY(mutex_);
  std::uint64_t next_id_ PEN_GUARDED_BY(mutex_) = 0;
  std::size_t open_ PEN_GUARDED_BY(mutex_) = 0;  ///< pushed and not yet settled

  BoundedQueue<Settled> inbox_;  // never full: what is in it is open
  // of the index's thread until it is joined
  std::optional<Error> failure_;
  std::thread thread_;
};

}  // namespace penstock::store::share
