/// Presents to the registry what happens to series, and does what it says: the only place with a mutex around it.
///
/// Sources' threads, the team's and the timekeeper's call it. What takes as long as the storage or another rank is done
/// without the mutex: files are made by the thread whose start opens them, or, if that waited, on one of their own, as
/// they are closed. No decision about a series is made here.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/time/clock.hpp"
#include "recorder/service/answers.hpp"
#include "recorder/service/errands.hpp"
#include "recorder/service/metrics/totals.hpp"
#include "recorder/service/report.hpp"
#include "recorder/service/slots.hpp"
#include "recorder/team/rank_role.hpp"
#include "series/registry.hpp"

namespace penstock::recorder {

/// Of a rank.
struct SeriesCounts {
  std::atomic<std::uint64_t> complete{0};
  std::atomic<std::uint64_t> failed{0};  ///< files that could not be completed, or joined
  std::atomic<std::uint64_t> unmade{0};  ///< series without a file, each time
  std::atomic<bool> any_begun{false};    ///< a series has had its file
};

class Control {
 public:
  /// Takes a frame into a series that is open.
  using Admit = std::function<Result<void>(const std::shared_ptr<SeriesFile>& file, Frame frame)>;
  /// Both outlive it.
  Control(const series::Rules& rules, Report& report, Totals& totals);
  void start(RankRole& role, Admit admit);
  /// When sources have been stopped: closes every series, and waits for that. tick() has to go on meanwhile.
  void stop();
  void stop_waiting();

  // For sources. Each waits as the registry says.
  /// `before`: what its source has begun before under this name.
  Result<void> begin(Start start, const SeriesEnd* before = nullptr);
  /// The file that takes the frame; null if the frame is kept until there is one, or is in one that is being closed.
  Result<std::shared_ptr<SeriesFile>> take(Frame& frame);
  void lose(const std::string& series_unique_id, Lost lost);
  Result<void> end(const SeriesEnd& end);
  bool expect(const std::string& series_unique_id, const Session& session);
  std::optional<std::vector<std::string>> channels(const std::string& series_unique_id);
  std::uint64_t generation(const std::string& series_unique_id) const;
  void refuse_start(const std::string& series_unique_id, const Error& why);
  void refuse_element(const std::string& series_unique_id, std::string_view source, const Error& why);

  /// The file of a series that is open, or is being closed; null if there is none.
  std::shared_ptr<SeriesFile> find(const std::string& series_unique_id) const;
  /// Those that are open.
  std::vector<std::shared_ptr<SeriesFile>> files() const;
  std::optional<std::int64_t> ends_in_ns(const std::string& series_unique_id) const;
  /// Each moment: measures the files.
  void tick();
  /// Waits up to `wait` for `series` of them to be closed or refused; true if they are. 0: never.
  bool wait_for_closed(std::uint64_t series, std::chrono::milliseconds wait);

  // For the team.
  /// A start that came to another rank.
  Result<Found> begin_elsewhere(Start start);
  /// A series of which something came to another rank, `waited_ns` ago. `locked`: ask again.
  Result<Found> find_elsewhere(const std::string& series_unique_id, unsigned rank, bool again, std::int64_t waited_ns);
  void present(const series::Event& event);
  /// A file is closed, and everybody has heard of it.
  void note_closed();

  SeriesCounts& counts() { return counts_; }
  const SeriesCounts& counts() const { return counts_; }
  std::uint64_t refused_series() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Step {
    series::Answer answer;
    std::optional<series::Open> open = {};  ///< for this thread
    bool is_refused = false;
  };

  struct KeepNothing {
    void operator()(const series::Answer&) const {}
  };
  template <typename Keep = KeepNothing>
  Step step(const series::Event& event, Keep keep = {});
  template <typename Event, typename Keep = KeepNothing>
  Step resolve(Lock& lock, Event event, Keep keep = {});
  void obey(const series::Command& command, Step& step);
  void obey(const series::Notify& what, Step& step);
  Result<void> make(Lock& lock, const series::Open& open, Start& start);
  Result<void> settle(const std::string& name, Found found, Start* start);
  Result<void> take_part(Lock& lock, Start& start);
  Error refuse(const std::string& name, const Step& step, Error why);
  /// Of a start that the registry rejects. Releases the lock.
  Error refuse(Lock& lock, const Step& step, const Series& start);
  void open_waiting(const series::Open& open);
  void present_line(const std::string& name, const Result<void>& begun);
  std::optional<Kept> next_of_line(const std::string& name);
  Result<void> present(const std::string& name, Kept kept);
  void close(const std::shared_ptr<SeriesFile>& file, const series::Close& why);
  void drop_if_empty(const std::string& name);

  const series::Rules rules_;
  Report& report_;
  Totals& totals_;
  RankRole* role_ = nullptr;  // constant after start(), as is admit_
  Admit admit_;
  SeriesCounts counts_;
  Errands errands_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // guarded by mutex_
  series::Registry registry_;
  Slots slots_;
  std::uint64_t closed_ = 0;
};

/// Keeps what waits before anything is obeyed: its turn may come in the same step.
template <typename Keep>
Control::Step Control::step(const series::Event& event, Keep keep) {
  auto actions = registry_.step(monotonic_ns(), event);
  Step step{.answer = actions.answer};
  if (step.answer.kind == series::Answer::Kind::wait) keep(step.answer);
  for (const auto& command : actions.commands) obey(command, step);
  const bool is_frequent = std::holds_alternative<series::FrameSeen>(event) ||
                           std::holds_alternative<series::Measured>(event) ||
                           std::holds_alternative<series::Tick>(event);
  if (!is_frequent || !actions.commands.empty()) changed_.notify_all();
  return step;
}

/// Presents the event until it is answered, and looks for its series elsewhere where that is to be done.
template <typename Event, typename Keep>
Control::Step Control::resolve(Lock& lock, Event event, Keep keep) {
  for (;;) {
    auto step = this->step(event, keep);
    if (step.answer.kind != series::Answer::Kind::wait_until) return step;
    if (event.since == 0) event.since = monotonic_ns();
    if (step.open) {
      lock.unlock();
      (void)settle(event.name, role_->seek(event.name, step.open->again), nullptr);
      lock.lock();
    } else {
      changed_.wait_for(lock, std::chrono::nanoseconds(step.answer.until - monotonic_ns()));
    }
  }
}

}  // namespace penstock::recorder
