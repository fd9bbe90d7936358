/// The recorder: sources put frames in, workers compress them, each series goes into its own file.
///
/// Threads: the sources' own, `threads` workers, one that keeps time (progress, timers, measuring), those that open and
/// close files, one that tends each file, and the store's. Memory: the pool and the segment buffers, both within
/// Config::pool_bytes, and beside them Config::values_bytes() for the values that frames bring along.
///
/// It may be one rank of a team (docs/explanation/decisions/0008-ranks-of-a-job.md): the coordinator opens and closes
/// each series, the other ranks join those whose frames come to them.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time/ticker.hpp"
#include "frame/sink.hpp"
#include "recorder/service/control.hpp"
#include "recorder/service/events.hpp"
#include "recorder/service/memory/kept_memory.hpp"
#include "recorder/service/memory/value_memory.hpp"
#include "recorder/service/metrics/stage_events.hpp"
#include "recorder/service/metrics/totals.hpp"
#include "recorder/service/report.hpp"
#include "recorder/service/workers.hpp"
#include "recorder/team/team.hpp"

namespace penstock::recorder {

/// An error where files cannot be created in `folder`. Creates one and removes it.
Result<void> try_folder(const std::string& folder);

class Recorder final : public FrameSink {
 public:
  /// `env`, `events` and `team` outlive the recorder.
  Recorder(Env& env, Config config, Events& events, Team& team);
  /// Stops as stop() does.
  ~Recorder() override;

  /// Checks the folder and starts the threads.
  /// In a team every rank has to call stop() after it, whatever came of it.
  Result<void> start();
  /// Closes every open series with what has come (its file is complete) and ends the threads. The
  /// sources must have been stopped before. In a team it returns when all ranks are here.
  void stop();
  /// Frames on their way wait for nobody any more, neither for other clients' nor for a file to appear, and starts not
  /// for another series to close: sources can be stopped at once.
  void stop_waiting();
  /// Asks the whole team to stop: from now on told_to_stop() in every rank.
  void tell_to_stop() { role_->say_stop(); }
  bool told_to_stop() const { return role_->told_to_stop(); }
  /// Ends every open series, here or in the whole team, with the frames that have come; others may follow.
  void end_series() { role_->end_all(); }
  /// Waits up to `wait` for Config::series_limit series to be closed or refused; true if they are.
  bool wait_for_limit(std::chrono::milliseconds wait) { return control_.wait_for_closed(config_.series_limit, wait); }
  /// Series whose file could not be completed, or, where this is not the coordinator, joined.
  std::uint64_t failed_series() const { return control_.counts().failed; }
  /// The coordinator's: series that have no file, for whatever reason. One that is begun again and again counts once,
  /// and not at all once it has its file.
  std::uint64_t refused_series() const { return control_.refused_series(); }
  /// Messages came, and not one of them was of a series that was begun.
  bool refused_everything() const { return report_.rejected_messages() > 0 && !control_.counts().any_begun; }
  /// Waits for no storage.
  Snapshot snapshot() const;

  Result<void> begin(Series series, std::shared_ptr<AckListener> acks) override;
  Result<void> begin_anew(Series series, const SeriesEnd& before) override;
  std::uint64_t generation(const std::string& series_unique_id) const override;
  Result<void> put(Frame frame) override;
  Result<void> end(const SeriesEnd& end) override { return control_.end(end); }
  bool holds_back() const override { return config_.when_full == WhenFull::hold; }
  bool keeps_payloads() const override { return config_.stores_plain(); }
  void drop(const std::string& series_unique_id, FrameNumber number) override;
  void damage(const std::string& series_unique_id, FrameNumber number,
              std::optional<std::uint32_t> element = {}) override;
  bool expect(const std::string& series_unique_id, const std::shared_ptr<AckListener>& session) override;
  std::uint64_t window_needed(const std::string& series_unique_id) override;
  std::optional<std::vector<std::string>> channels(const std::string& series_unique_id) override;
  void reject(std::string_view source, const Error& why) override { report_.reject(source, why); }
  void turn_away(std::string_view source, const Error& why) override { report_.turn_away(source, why); }
  void refuse_start(const std::string& series_unique_id, const Error& why) override;
  void refuse_element(const std::string& series_unique_id, std::string_view source, const Error& why) override;
  void note(std::string_view source, const Error& what) override { report_.note(source, what); }
  BufferPool& pool() override { return pool_; }

 private:
  Result<void> admit(const std::shared_ptr<SeriesFile>& series, Frame frame);
  void note_remarks(Series& series);
  void keep_time();

  Env& env_;
  Config config_;  // constant once start() has loaded its filters
  BufferPool pool_;
  Report report_;
  Totals totals_;
  Control control_;
  KeptMemory kept_memory_;
  ValueMemory values_;
  StageEvents stage_events_;
  const std::unique_ptr<RankRole> role_;
  Workers workers_;
  std::atomic<bool> stopped_{false};
  Ticker timekeeper_;
};

}  // namespace penstock::recorder
