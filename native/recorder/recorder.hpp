/// The recorder: sources put frames in, workers compress them, each series goes into its own file.
///
/// Threads: the sources' own, `threads` workers, one that keeps time (progress, timers, closing),
/// and the store's. Memory: the pool and the segment buffers, both within Config::pool_bytes, and beside them
/// values_budget_bytes for the values that frames bring along.
///
/// It may be one rank of a team (docs/explanation/decisions/0008-ranks-of-a-job.md): the lead opens and closes
/// each series, the other ranks join those whose frames come to them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <variant>
#include <vector>

#include "base/log_rate_limiter.hpp"
#include "base/queue.hpp"
#include "frame/sink.hpp"
#include "recorder/series/series_file.hpp"
#include "recorder/service/events.hpp"
#include "recorder/service/totals.hpp"
#include "recorder/team.hpp"
#include "series/places.hpp"

namespace penstock::recorder {

using penstock::series::Places;
using penstock::series::WaitingBytes;

/// An error, with the field and both values, where a start message is not of the series that another one began.
Result<void> check_same_series(const Series& begun, const Series& again);
/// Of a start that came over ZeroMQ, where one of the two has elements: `mismatch` where none of its frames would fit.
Result<void> check_elements_fit(const Series& begun, const Series& again);
/// Where the frames of the start's element come in.
std::string endpoint_of(const Series& start);
/// An error where files cannot be created in `folder`. Creates one and removes it.
Result<void> try_folder(const std::string& folder);
/// What a rank reports to rank 0 about an end.
nlohmann::json notice_end(const SeriesEnd& end);

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
  void tell_to_stop();
  bool told_to_stop() const { return told_to_stop_; }
  /// Ends every open series, here or in the whole team, with the frames that have come; others may follow.
  void end_series();
  /// Waits up to `wait` for Config::series_limit series to be closed or refused; true if they are.
  bool wait_for_limit(std::chrono::milliseconds wait);
  /// Series whose file could not be completed, or, where this is not the lead, joined.
  std::uint64_t failed_series() const { return failed_series_; }
  /// The lead's: series that have no file, for whatever reason. One that is begun again and again counts once, and not
  /// at all once it has its file.
  std::uint64_t refused_series() const;
  /// Messages came, and not one of them was of a series that was begun.
  bool refused_everything() const;
  /// Waits for no storage.
  Snapshot snapshot() const;

  Result<void> begin(Series series, std::shared_ptr<AckListener> acks) override;
  Result<void> begin_anew(Series series, const SeriesEnd& before) override;
  std::uint64_t generation(const std::string& series_unique_id) const override;
  Result<void> put(Frame frame) override;
  Result<void> end(const SeriesEnd& end) override;
  bool holds_back() const override { return config_.when_full == WhenFull::hold; }
  bool keeps_payloads() const override { return config_.stores_plain(); }
  void drop(const std::string& series_unique_id, FrameNumber number) override;
  void damage(const std::string& series_unique_id, FrameNumber number,
              std::optional<std::uint32_t> element = {}) override;
  void expect(const std::string& series_unique_id, const std::shared_ptr<AckListener>& session) override;
  std::uint64_t window_needed(const std::string& series_unique_id) override;
  std::optional<std::vector<std::string>> channels(const std::string& series_unique_id) override;
  void reject(std::string_view source, const Error& why) override;
  void turn_away(std::string_view source, const Error& why) override;
  void refuse_start(const std::string& series_unique_id, const Error& why) override;
  void refuse_element(const std::string& series_unique_id, std::string_view source, const Error& why) override;
  void note(std::string_view source, const Error& what) override;
  BufferPool& pool() override { return pool_; }

 private:
  struct Work {
    std::shared_ptr<SeriesFile> series;
    Task task;
  };
  struct Closing {
    std::shared_ptr<SeriesFile> series;
    std::atomic<bool> done{false};
    std::thread thread;
  };
  struct Open {
    std::shared_ptr<SeriesFile> file;
    std::int64_t started_ns = 0;         ///< monotonic
    std::uint64_t raw_bytes_before = 0;  ///< at the last progress event
    std::uint64_t stored_bytes_before = 0;
    std::int64_t progress_ns = 0;
    // The lead's in a team: ranks that joined, those whose sources began the series, and those whose ended it.
    std::set<unsigned> joined;
    std::set<unsigned> began;
    std::set<unsigned> ended;
    // Of a detector of several elements: ranks whose sources began the stream of each, and ended it.
    std::map<std::uint32_t, std::set<unsigned>> elements_began = {};
    std::map<std::uint32_t, std::set<unsigned>> elements_ended = {};
    // Of another rank: the lead wants the series closed.
    bool asked_to_close = false;
    // The lead's: sources that send one series after the other, with the element that each brings, and those that have
    // ended this one.
    std::map<std::string, std::optional<std::uint32_t>> sources_began = {};
    std::set<std::string> sources_ended = {};
    /// Where the frames of each element come in.
    std::map<std::uint32_t, std::string> element_endpoints = {};
  };
  /// What the lead does for a closing series while the other ranks close theirs.
  struct Parting {
    std::shared_ptr<SeriesFile> file;
    std::set<unsigned> awaited;
    std::vector<nlohmann::json> parts;
  };

  /// Opens a series whose start waited, and lets in what waited behind it.
  struct LettingIn {
    std::atomic<bool> done{false};
    std::thread thread;
  };

  /// A start that waits for a place, and what came behind it.
  struct Waiting {
    struct Start {
      Series series;
      std::shared_ptr<AckListener> acks;
    };
    struct Lost {
      FrameNumber number;
      bool damaged = false;
      std::optional<std::uint32_t> element = {};
    };
    using Event = std::variant<Start, Frame, SeriesEnd, Lost, Session>;
    struct Item {
      Event event;
      std::uint64_t bytes = 0;  ///< that count for it in waiting_bytes_for()
    };
    static constexpr std::size_t dropped_max = 65536;
    static constexpr std::size_t starts_max = 64;
    std::deque<Item> events;  ///< the first one is its start, unless that waits on another rank
    std::vector<std::string> channels;
    std::uint64_t generation = 0;
    std::set<std::string> sources;  ///< of its starts, of those that send one series after the other
    bool holds_source = false;      ///< rather than refuse a frame
    std::uint64_t refused = 0;      ///< events; the first dropped_max frames of them are passed to the frame accounting
  };

  std::shared_ptr<SeriesFile> find(const std::string& series_unique_id) const;
  Result<ValuesRoom> room_for_values(const Frame& frame, const SeriesFile& series);
  void write_chunks_that_hold_values(std::atomic<std::int64_t>& since_ns);
  void bound_columns(Frame& frame, const SeriesFile& series);
  Result<void> begin_now(Series& series, const std::shared_ptr<AckListener>& acks);
  Result<void> put_now(const std::shared_ptr<SeriesFile>& series, Frame frame);
  Result<void> end_now(const SeriesEnd& end);
  std::optional<Result<void>> wait_for_place(Series& series, const std::shared_ptr<AckListener>& acks);
  Result<bool> wait_with_start(const std::string& unique_id, Waiting::Event event, std::uint64_t bytes);
  Result<void> wait_with_start(std::unique_lock<std::mutex> lock, Frame frame);
  bool waits_with_start(const std::string& unique_id, Waiting::Event event);
  Result<void> refuse_to_wait(const std::string& unique_id);
  bool start_waits_with_start(Series& series, std::shared_ptr<AckListener>& acks, Result<void>& outcome);
  bool end_waits_with_start(const SeriesEnd& end);
  bool end_waits(const SeriesEnd& end);
  void wait_for_frames_elsewhere(const std::string& unique_id);
  bool has_sources_of_one_sender() const;
  void wait_for_turn(const std::string& unique_id, const std::string& source);
  bool is_waiting(const std::string& unique_id) const;
  void open_waiting();
  std::optional<Result<void>> begin_waiting(const std::string& unique_id);
  bool begin_next(const std::string& unique_id);
  void let_in_beside(std::function<void()> work);
  void let_in(const std::string& unique_id, const Result<void>& begun);
  void reap_let_in(bool all);
  void wait_with_frames(const std::string& unique_id, std::vector<std::string> channels);
  void let_in_when_open(const std::string& unique_id);
  Result<void> wait_until_open(const std::string& unique_id);
  std::shared_ptr<SeriesFile> settle_found(const std::string& unique_id, const nlohmann::json& found);
  Result<std::shared_ptr<SeriesFile>> join_found(const std::string& unique_id, const nlohmann::json& found);
  std::optional<Waiting::Item> next_waiting(const std::string& unique_id);
  Result<void> take_waiting(const std::string& unique_id, Waiting::Event& event);
  void refuse_waiting(const std::string& unique_id);
  WaitingBytes& waiting_bytes_for(const Waiting::Event& event);
  void finish_waiting();
  std::chrono::seconds opening_patience() const;
  std::shared_ptr<SeriesFile> find_when_open(const std::string& series_unique_id);
  Result<std::shared_ptr<SeriesFile>> open(Series& series, bool answered);
  Result<std::shared_ptr<SeriesFile>> make_file(Series series, std::string& path, bool answered);
  Result<std::shared_ptr<SeriesFile>> join(Series& series, bool with_session);
  std::shared_ptr<SeriesFile> adopt(const std::string& series_unique_id);
  std::shared_ptr<SeriesFile> adopt_from_lead(const std::string& series_unique_id, std::chrono::nanoseconds patience);
  std::shared_ptr<SeriesFile> wait_for_start(const std::string& series_unique_id, std::chrono::nanoseconds patience);
  Result<void> settle(const std::string& unique_id, Result<std::shared_ptr<SeriesFile>>& file);
  bool may_tell(unsigned most);
  void tell(std::string_view event, std::string_view source, const Error& what);
  bool note_refusal(const std::string& unique_id, const Error& why);
  void release(const std::string& unique_id);
  Result<void> tell_of_session(const Series& series);
  Result<void> tell_of_source(const Series& series);
  void answer_close_without_file(const std::string& unique_id);
  void end_at(unsigned rank, const SeriesEnd& end);
  static bool have_all_ended(const Open& open);
  bool nothing_can_follow(const Open& open, const SeriesEnd& end) const;
  void note_element(const std::string& unique_id, const std::optional<ElementPlace>& element, unsigned rank);
  bool note_source(const std::string& unique_id, const std::string& source, const std::optional<ElementPlace>& element,
                   unsigned rank = job::lead);
  void end_others_of(const std::string& source, const std::string& unique_id, unsigned rank);
  void end_open(Open& open, unsigned rank, const SeriesEnd& end);
  void tell_if_busy(std::int64_t now_ns);

  Result<nlohmann::json> answer(unsigned from, const nlohmann::json& question);
  Result<nlohmann::json> answer_begin(unsigned from, const nlohmann::json& question);
  Result<nlohmann::json> answer_find(unsigned from, const nlohmann::json& question);
  Result<nlohmann::json> answer_terms(const nlohmann::json& question);
  void hear(unsigned from, const nlohmann::json& notice);
  void hear_blemishes(const std::string& unique_id, const nlohmann::json& notice);
  void hear_close(const std::string& unique_id);
  void hear_part(unsigned from, const std::string& unique_id, const nlohmann::json& notice);
  void part_from_others(const Open& open);
  void part_from_lead(const Open& open);
  void wait_for_the_others();
  bool end_idle_series();
  void end_silent_series(std::int64_t now_ns);
  bool has_one_source() const;
  bool listens_to_tcp_alone() const;
  bool is_all_pulled() const { return config_.sources.size() == pulled_; }
  Result<void> wait_until_ended(const std::string& unique_id, std::uint64_t generation);
  bool is_closing(const std::string& unique_id) const;
  void await_close(const std::string& unique_id);
  void note_early(const std::string& unique_id, FrameNumber number);
  void enter_early(const std::string& unique_id, SeriesFile& file);
  Result<void> claim(const std::string& unique_id, const std::optional<ElementPlace>& element,
                     const std::string& late_source = {}, const std::string& arm_date = {});
  Result<void> claim_element(const Series& start);
  void decode_maps(Series& series, std::uint64_t used_bytes);
  void work(unsigned worker);
  void keep_time();
  void report_progress(std::int64_t now_ns);
  nlohmann::json progress_of(const std::string& id, Open& open, std::int64_t now_ns) const;
  void close_ready(std::int64_t now_ns, bool all);
  void close_one(const Open& open);
  void report_end(const Open& open, const std::string& problem);
  void reap(bool all);

  /// For another rank with frames of a series that is open at last to hear of that.
  static constexpr std::int64_t join_patience_ns = 2'000'000'000;

  Env& env_;
  Config config_;             // constant once start() has loaded its filters
  const std::size_t pulled_;  ///< sources that send one series after the other
  Events& events_;
  Team& team_;
  BufferPool pool_;
  // They count memory that lives elsewhere.
  BufferPool values_pool_{values_budget_bytes};
  BufferPool gathering_values_pool_{values_budget_bytes};  ///< for frames whose chunk has others already
  /// Monotonic, since when no frame that is dropped otherwise found room; 0: one did.
  std::atomic<std::int64_t> values_full_ns_{0};
  BoundedQueue<Work> queue_;
  std::vector<std::thread> workers_;
  std::thread timekeeper_;
  std::thread opener_;  ///< of files whose start had to wait
  Totals totals_;
  bool joined_team_ = false;
  std::int64_t busy_told_ns_ = 0;           // of the timekeeper
  std::atomic<std::uint64_t> rejected_{0};  ///< messages and connections
  std::atomic<std::uint64_t> rejected_messages_{0};
  std::atomic<std::uint64_t> complete_series_{0};
  std::atomic<std::uint64_t> failed_series_{0};
  std::atomic<std::uint64_t> unmade_series_{0};  ///< those that have no file, each time
  std::atomic<std::uint64_t> refusals_{0};       ///< of series, as reported
  std::atomic<std::uint64_t> generations_{0};    ///< the newest series'
  std::atomic<bool> any_begun_{false};           ///< a series has had its file
  std::atomic<bool> told_to_stop_{false};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // guarded by mutex_
  Places places_;
  WaitingBytes waiting_starts_bytes_;
  WaitingBytes waiting_frames_bytes_;
  std::map<std::string, Waiting> waiting_;
  std::vector<std::unique_ptr<LettingIn>> letting_in_;
  /// The lead's: series whose start waits on another rank, with their channels; and ranks with frames that wait for a
  /// series to be opened.
  std::map<std::string, std::vector<std::string>> waits_elsewhere_;
  std::map<std::string, std::set<unsigned>> frames_elsewhere_;
  std::map<std::string, Open> open_;
  std::set<std::string> opening_;  ///< whose file is being made
  std::set<std::string> close_when_open_;
  std::set<std::string> closed_names_;
  /// Of closed series that have all the frames they announced, with the date on which each was armed.
  std::map<std::string, std::string> whole_names_;
  struct ClosedElements {
    std::set<std::uint32_t> elements;  ///< that took part
    std::int64_t until_ns = 0;         ///< monotonic
  };
  std::map<std::string, ClosedElements> closed_elements_;
  std::set<std::string> closing_names_;
  /// Of which rank, which element, and which source.
  using EarlyEnd = std::tuple<unsigned, std::optional<std::uint32_t>, std::string>;
  std::map<std::string, std::set<EarlyEnd>> early_ends_;          ///< by series that has not started
  std::map<std::string, std::vector<FrameNumber>> early_frames_;  ///< alike
  std::map<std::string, std::int64_t> unknown_;  ///< series that the lead did not know, and when (monotonic)
  std::map<std::string, Parting> partings_;
  std::map<std::string, std::vector<Session>> untold_;  ///< of closed series whose file the lead is completing
  std::set<unsigned> stopped_ranks_;
  bool dismissed_ = false;  ///< by the lead, when every series is closed
  bool stopping_ = false;
  std::int64_t place_wanted_until_ns_ = 0;  ///< monotonic; by another rank
  bool waits_ = true;                       ///< for others' series to close
  std::uint64_t closed_series_ = 0;
  std::uint64_t refused_series_ = 0;
  std::set<std::string> refused_names_;                         ///< the last of them
  std::uint64_t refused_elements_ = 0;                          ///< of series that were begun
  std::map<std::string, std::set<std::string>> early_refused_;  ///< sources of elements, by series that has not begun
  std::int64_t reject_window_ns_ = 0;
  unsigned rejects_in_window_ = 0;
  static constexpr std::int64_t log_interval_ns_max = 600'000'000'000;
  /// Of messages that are rejected or noted. Frames without a start come for as long as the detector runs: one line
  /// for each series is enough.
  LogRateLimiter limiter_{{.burst = 5, .interval_ns_max = log_interval_ns_max}};
  LogRateLimiter missing_starts_limiter_{{.burst = 1, .interval_ns_max = log_interval_ns_max}};

  // The timekeeper's thread, and stop() after it has ended.
  std::vector<std::unique_ptr<Closing>> closing_;
};

}  // namespace penstock::recorder
