/// What the recorder tells of its series: refusals, remarks, progress and ends, into the log and to whoever listens.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "recorder/recorder.hpp"

namespace penstock::recorder {
namespace {

constexpr std::int64_t progress_interval_ns = 500'000'000;
constexpr unsigned rejects_a_second = 10;
constexpr unsigned notes_a_second = 64;  ///< a start message may have one for each of its fields
constexpr std::size_t refused_names_max = 1024;

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

/// With mutex_ held: whether a refusal goes into the log and to whoever listens. All are counted, but a flood fills
/// neither.
bool Recorder::may_tell(unsigned most) {
  const auto now = monotonic_ns();
  if (now - reject_window_ns_ > 1'000'000'000) {
    reject_window_ns_ = now;
    rejects_in_window_ = 0;
  }
  return ++rejects_in_window_ <= most;
}

bool Recorder::refused_everything() const { return rejected_messages_ > 0 && !any_begun_; }

void Recorder::reject(std::string_view source, const Error& why) {
  ++rejected_messages_;
  turn_away(source, why);
}

void Recorder::turn_away(std::string_view source, const Error& why) {
  ++rejected_;
  tell("rejected", source, why);
}

void Recorder::tell(std::string_view event, std::string_view source, const Error& what) {
  std::uint64_t suppressed = 0;
  {
    std::lock_guard lock(mutex_);
    auto& limiter = what.code() == Errc::out_of_order ? missing_starts_limiter_ : limiter_;
    const auto admitted = limiter.admit(message_kind(what.code(), what.message()));
    if (!admitted || !may_tell(event == "note" ? notes_a_second : rejects_a_second)) return;
    suppressed = *admitted;
  }
  const auto message = what.message() + and_suppressed(suppressed);
  spdlog::warn("{}{}: {}", event == "rejected" ? "rejected from " : "", source, message);
  events_.emit(event, {{"source", source}, {"code", name(what.code())}, {"message", message}});
}

/// What it was to begin has no file, unless another start of that name had begun it.
void Recorder::refuse_start(const std::string& series_unique_id, const Error& why) {
  {
    std::lock_guard lock(mutex_);
    for (const auto* names : {&opening_, &closing_names_, &closed_names_})
      if (names->contains(series_unique_id)) return;
    if (open_.contains(series_unique_id) || waiting_.contains(series_unique_id)) return;
  }
  if (!team_.leads())
    return team_.tell(job::lead,
                      {{"tell", "refused"}, {"series_unique_id", series_unique_id}, {"problem", why.message()}});
  note_refusal(series_unique_id.empty() ? "a series without a name" : series_unique_id, why);
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

/// Counted as a series that is refused: a part of what the detector sent is in no file. It does not count for
/// Config::series_limit, since the series it is of does.
void Recorder::refuse_element(const std::string& series_unique_id, std::string_view source, const Error& why) {
  {
    std::lock_guard lock(mutex_);
    if (!open_.contains(series_unique_id) && !opening_.contains(series_unique_id) &&
        !waiting_.contains(series_unique_id)) {
      if (early_refused_.size() >= refused_names_max) early_refused_.clear();
      early_refused_[series_unique_id].emplace(source);
    } else {
      ++refused_elements_;
      ++refusals_;
      if (!may_tell(rejects_a_second)) return;
      events_.emit("series_refused",
                   {{"series_unique_id", series_unique_id}, {"code", name(why.code())}, {"message", why.message()}});
      return;
    }
  }
  refuse_start(series_unique_id, why);
}

void Recorder::note(std::string_view source, const Error& what) { tell("note", source, what); }

/// Whoever waits for the series waits in vain, though another start message may bring it yet. False where it was told.
bool Recorder::note_refusal(const std::string& unique_id, const Error& why) {
  {
    std::lock_guard lock(mutex_);
    if (refused_names_.contains(unique_id)) return false;
    if (refused_names_.size() >= refused_names_max) refused_names_.clear();
    refused_names_.insert(unique_id);
    ++refused_series_;
    ++refusals_;
    changed_.notify_all();
    if (!may_tell(rejects_a_second)) return true;
  }
  events_.emit("series_refused",
               {{"series_unique_id", unique_id}, {"code", name(why.code())}, {"message", why.message()}});
  return true;
}

void Recorder::report_progress(std::int64_t now_ns) {
  std::vector<nlohmann::json> all;
  {
    std::lock_guard lock(mutex_);
    for (auto& [id, open] : open_)
      if (now_ns - open.progress_ns >= progress_interval_ns) all.push_back(progress_of(id, open, now_ns));
  }
  for (auto& progress : all) events_.emit_if_heard("progress", std::move(progress));
}

/// With mutex_ held.
nlohmann::json Recorder::progress_of(const std::string& id, Open& open, std::int64_t now_ns) const {
  const auto since = seconds(now_ns - open.progress_ns);
  const auto stats = open.file->stats();
  // Frames that were lost count no longer.
  const auto before = std::min(open.raw_bytes_before, stats.raw_bytes);
  nlohmann::json progress = {
      {"series_unique_id", id},
      {"frames_received", stats.ledger.received},
      {"frames_written", stats.frames_written},
      {"frames_announced", open.file->series().frames},
      {"raw_bytes", stats.raw_bytes},
      {"stored_bytes", stats.stored_bytes},
      {"pool_used_bytes", pool_.used_bytes()},
      {"pool_bytes", pool_.budget_bytes()},
      {"rejected", rejected_.load()},
      {"ends_in_s", nullptr},
      {"holdup", open.file->holdup()},
      {"raw_bytes_per_s", static_cast<double>(stats.raw_bytes - before) / since},
      {"stored_bytes_per_s", static_cast<double>(stats.stored_bytes - open.stored_bytes_before) / since}};
  if (const auto left = open.file->ending().ends_in_ns(now_ns)) progress["ends_in_s"] = seconds(*left);
  open.raw_bytes_before = stats.raw_bytes;
  open.stored_bytes_before = stats.stored_bytes;
  open.progress_ns = now_ns;
  return progress;
}

void Recorder::report_end(const Open& open, const std::string& problem) {
  const auto stats = open.file->stats();
  const auto& series = open.file->series();
  const auto frames = std::max(series.frames, stats.ledger.end);
  const auto ms = [](std::uint64_t ns) { return static_cast<double>(ns) * 1e-6; };
  if (open.file->was_removed())
    spdlog::error("{} was deleted during the recording: its {} frames are lost", open.file->path(),
                  stats.frames_written);
  else
    spdlog::info("{} is complete: {} of {} frames, {:.1f} MB{}", open.file->path(), stats.ledger.received, frames,
                 static_cast<double>(stats.stored_bytes) * 1e-6, problem.empty() ? "" : "; with a problem: " + problem);
  events_.emit("series_end",
               {{"series_unique_id", series.unique_id},
                {"file", open.file->path()},
                {"ended_by", name(open.file->ending().ended_by())},
                {"removed", open.file->was_removed()},
                {"problem", problem.empty() ? nlohmann::json() : nlohmann::json(problem)},
                {"frames_announced", series.frames},
                {"frames_received", stats.ledger.received},
                {"frames_written", stats.frames_written},
                {"missing", frames - std::min(frames, stats.ledger.received)},
                {"never_came", open.file->never_came()},
                {"filled", open.file->filled()},
                {"duplicate", stats.ledger.duplicate},
                {"late", stats.ledger.late},
                {"damaged", stats.ledger.damaged},
                {"dropped", stats.ledger.dropped},
                {"lost", stats.ledger.lost},
                {"partial", stats.ledger.partial},
                {"unfiltered", stats.unfiltered},
                {"rejected", rejected_.load()},
                {"raw_bytes", stats.raw_bytes},
                {"stored_bytes", stats.stored_bytes},
                {"pool_used_bytes_max", pool_.used_bytes_max()},
                {"pool_bytes", pool_.budget_bytes()},
                {"frames_seconds", seconds(std::max(open.file->last_activity_ns(), open.started_ns) - open.started_ns)},
                {"seconds", seconds(monotonic_ns() - open.started_ns)},
                {"latency_ms",
                 {{"p50", ms(stats.latency.quantile_ns(0.5))},
                  {"p90", ms(stats.latency.quantile_ns(0.9))},
                  {"p99", ms(stats.latency.quantile_ns(0.99))},
                  {"max", ms(stats.latency.max_ns())}}},
                {"stage_seconds",
                 {{"compress", seconds(stats.encode_ns)},
                  {"write", seconds(stats.store.write_ns)},
                  {"sync", seconds(stats.store.sync_ns)},
                  {"index", seconds(stats.store.index_ns)},
                  {"rows", seconds(stats.store.row_ns)},
                  {"flush", seconds(stats.store.flush_ns)}}}});
}

}  // namespace penstock::recorder
