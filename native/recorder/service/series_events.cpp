#include "recorder/service/series_events.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/time/clock.hpp"

namespace penstock::recorder {
namespace {

constexpr std::int64_t progress_interval_ns = 500'000'000;

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

void SeriesEvents::begin(const SeriesFile& file) {
  const auto now = monotonic_ns();
  const auto stats = file.stats();
  std::lock_guard lock(mutex_);
  open_[&file] = {.started_ns = now, .told_ns = now, .raw_bytes = stats.raw_bytes, .stored_bytes = stats.stored_bytes};
}

void SeriesEvents::progress(const SeriesFile& file, std::optional<std::int64_t> ends_in_ns, std::int64_t now_ns) {
  Progress before;
  {
    std::lock_guard lock(mutex_);
    const auto found = open_.find(&file);
    if (found == open_.end() || now_ns - found->second.told_ns < progress_interval_ns) return;
    before = found->second;
  }
  const auto since = seconds(now_ns - before.told_ns);
  const auto stats = file.stats();
  // Frames that were lost count no longer.
  const auto raw_bytes_before = std::min(before.raw_bytes, stats.raw_bytes);
  nlohmann::json event = {
      {"series_unique_id", file.series().unique_id},
      {"frames_received", stats.ledger.received},
      {"frames_written", stats.frames_written},
      {"frames_announced", file.series().frames},
      {"raw_bytes", stats.raw_bytes},
      {"stored_bytes", stats.stored_bytes},
      {"pool_used_bytes", pool_.used_bytes()},
      {"pool_bytes", pool_.budget_bytes()},
      {"rejected", report_.rejected()},
      {"ends_in_s", nullptr},
      {"holdup", file.holdup()},
      {"raw_bytes_per_s", static_cast<double>(stats.raw_bytes - raw_bytes_before) / since},
      {"stored_bytes_per_s", static_cast<double>(stats.stored_bytes - before.stored_bytes) / since}};
  if (ends_in_ns) event["ends_in_s"] = seconds(*ends_in_ns);
  {
    std::lock_guard lock(mutex_);
    if (const auto found = open_.find(&file); found != open_.end())
      found->second = {before.started_ns, now_ns, stats.raw_bytes, stats.stored_bytes};
  }
  events_.emit_if_heard("progress", std::move(event));
}

void SeriesEvents::ended(const SeriesFile& file, series::EndedBy why, const std::string& problem) {
  Progress progress;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = open_.extract(&file); !found.empty()) progress = found.mapped();
  }
  const auto stats = file.stats();
  const auto& start = file.series();
  const auto frames = std::max(start.frames, stats.ledger.end);
  const auto last_frame_ns = std::max(file.facts().last_activity, progress.started_ns);
  const auto ms = [](std::uint64_t ns) { return static_cast<double>(ns) * 1e-6; };
  if (file.was_removed())
    spdlog::error("{} was deleted during the recording: its {} frames are lost", file.path(), stats.frames_written);
  else
    spdlog::info("{} is complete: {} of {} frames, {:.1f} MB{}", file.path(), stats.ledger.received, frames,
                 static_cast<double>(stats.stored_bytes) * 1e-6, problem.empty() ? "" : "; with a problem: " + problem);
  events_.emit("series_end", {{"series_unique_id", start.unique_id},
                              {"file", file.path()},
                              {"ended_by", series::name(why)},
                              {"removed", file.was_removed()},
                              {"problem", problem.empty() ? nlohmann::json() : nlohmann::json(problem)},
                              {"frames_announced", start.frames},
                              {"frames_received", stats.ledger.received},
                              {"frames_written", stats.frames_written},
                              {"missing", frames - std::min(frames, stats.ledger.received)},
                              {"never_came", file.never_came()},
                              {"filled", file.spec().filled(stats.ledger)},
                              {"duplicate", stats.ledger.duplicate},
                              {"late", stats.ledger.late},
                              {"damaged", stats.ledger.damaged},
                              {"dropped", stats.ledger.dropped},
                              {"lost", stats.ledger.lost},
                              {"partial", stats.ledger.partial},
                              {"unfiltered", stats.unfiltered},
                              {"rejected", report_.rejected()},
                              {"raw_bytes", stats.raw_bytes},
                              {"stored_bytes", stats.stored_bytes},
                              {"pool_used_bytes_max", pool_.used_bytes_max()},
                              {"pool_bytes", pool_.budget_bytes()},
                              {"frames_seconds", seconds(last_frame_ns - progress.started_ns)},
                              {"seconds", seconds(monotonic_ns() - progress.started_ns)},
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
