/// How series begin late and come to their end, apart from their files.

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/clock.hpp"
#include "recorder/recorder.hpp"

namespace penstock::recorder {
namespace {

/// Series that have not started, whose frames' numbers are remembered, and how many of each.
constexpr std::size_t early_series_max = 16;
constexpr std::size_t early_frames_max = 65536;

}  // namespace

/// A sender that died leaves its series open. When the place is wanted, and no frame has come for a
/// while, it is completed with what is there. With mutex_ held.
bool Recorder::end_idle_series() {
  const auto now = monotonic_ns();
  const Open* longest = nullptr;
  for (const auto& [id, open] : open_)
    if (open.file->ending().ends_in_ns(now) == 0)
      continue;  // it is about to be closed
    else if (longest == nullptr || open.file->last_activity_ns() < longest->file->last_activity_ns())
      longest = &open;
  const auto idle_ns = static_cast<std::int64_t>(config_.idle_timeout_s * 1e9);
  if (longest == nullptr || now - longest->file->last_activity_ns() < idle_ns) return false;
  spdlog::warn("{}: closing the series after {:.0f} s without a frame, because another series needs its place",
               longest->file->path(), static_cast<double>(now - longest->file->last_activity_ns()) * 1e-9);
  longest->file->ending().set(now, 0, true, EndedBy::room);
  return true;
}

Result<void> Recorder::end(const SeriesEnd& end) {
  if (end_waits_with_start(end)) return {};
  return end_now(end);
}

Result<void> Recorder::end_now(const SeriesEnd& end) {
  if (!team_.leads()) {
    team_.tell(job::lead, notice_end(end));
    return {};
  }
  if (!find_when_open(end.unique_id) && team_.ranks() == 1) {
    // A series that had all of its frames, or that was ended by command, may be closed before its source says so.
    if (std::lock_guard lock(mutex_); closed_names_.contains(end.unique_id)) return {};
    return make_error(Errc::out_of_order, "end of series \"{}\", which has not started", end.unique_id);
  }
  end_at(job::lead, end);
  return {};
}

void Recorder::end_series() {
  if (!team_.leads()) return team_.tell(job::lead, {{"tell", "end_series"}});
  std::lock_guard lock(mutex_);
  const auto now = monotonic_ns();
  for (const auto& [id, open] : open_) {
    spdlog::info("{}: ending the series on request", open.file->path());
    open.file->ending().set(now, 0, true, EndedBy::command);
  }
  changed_.notify_all();
}

/// The lead's: series whose sources have fallen silent.
void Recorder::end_silent_series(std::int64_t now_ns) {
  std::lock_guard lock(mutex_);
  for (const auto& [id, open] : open_) {
    if (!open.file->ending().is_silent(now_ns)) continue;
    spdlog::warn("{}: closing the series after {:.1f} s without a frame (end_after_s)", open.file->path(),
                 config_.end_after_s);
    open.file->ending().set(now_ns, 0, true, EndedBy::silence);
  }
}

/// Frames may still be on their way behind the end: of other clients, or through another socket.
bool Recorder::has_one_source() const {
  return team_.ranks() == 1 && config_.sources.size() == 1 &&
         (config_.sources.front().kind == SourceConfig::Kind::tcp || !config_.sources.front().bind);
}

bool Recorder::listens_to_tcp_alone() const {
  return team_.ranks() == 1 && std::all_of(config_.sources.begin(), config_.sources.end(),
                                           [](const auto& source) { return source.kind == SourceConfig::Kind::tcp; });
}

/// Each connection has one sender, whom it concerns alone if it is held back.
bool Recorder::has_sources_of_one_sender() const {
  return std::all_of(config_.sources.begin(), config_.sources.end(),
                     [](const auto& source) { return source.kind == SourceConfig::Kind::tcp || !source.bind; });
}

/// With mutex_ held, of an end that all who take part have sent: whether each connection over which frames of the
/// series could come is ordered and has brought its end. Then nothing is behind it, complete or not.
bool Recorder::nothing_can_follow(const Open& open, const SeriesEnd& end) const {
  if (end.source.empty()) return end.last && listens_to_tcp_alone();
  return team_.ranks() == 1 && is_all_pulled() && open.sources_ended.size() >= pulled_;
}

/// A frame came before its series, or a recorder that is started in mid-series has not heard of that: it is lost, and
/// the ledger says so if the series begins yet.
void Recorder::note_early(const std::string& unique_id, FrameNumber number) {
  std::lock_guard lock(mutex_);
  if (closed_names_.contains(unique_id) || closing_names_.contains(unique_id)) return;
  if (!early_frames_.contains(unique_id)) {
    if (early_frames_.size() >= early_series_max) early_frames_.erase(early_frames_.begin());
    spdlog::warn("frames of series \"{}\" arrive, from number {} on, but it has not started: they are lost", unique_id,
                 value(number));
  }
  auto& numbers = early_frames_[unique_id];
  if (numbers.size() < early_frames_max) numbers.push_back(number);
}

/// With mutex_ held: those that came before it.
void Recorder::enter_early(const std::string& unique_id, SeriesFile& file) {
  const auto early = early_frames_.extract(unique_id);
  if (early.empty()) return;
  spdlog::warn("{}: {} frames arrived before the series started; they are counted as dropped", file.path(),
               early.mapped().size());
  for (const auto number : early.mapped()) file.drop(number);
}

}  // namespace penstock::recorder
