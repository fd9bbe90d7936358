#include "recorder/service/recorder.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/time/clock.hpp"

namespace penstock::recorder {
namespace {

constexpr auto tick = std::chrono::milliseconds(50);

}  // namespace

Result<void> try_folder(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    return make_error(Errc::not_found, "folder {} does not exist; create it, or choose another one with `folder`",
                      folder);
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return errno_error(
        errno,
        fmt::format("folder {} is not writable; give this user permission, or choose another with `folder`", folder));
  // The right to write says little: a file system that is read-only, or has no files of users, refuses all the same.
  const auto name = fmt::format("{}/.penstock-{}.tmp", folder, ::getpid());
  const auto made = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const auto problem = errno;
  if (made >= 0) {
    ::close(made);
    ::unlink(name.c_str());
    return {};
  }
  // A full storage may have room again; a rank on another machine may have the same number.
  if (problem == ENOSPC || problem == EDQUOT || problem == EEXIST) return {};
  return make_error(Errc::invalid_argument, "cannot create files in {} ({}): choose another --folder", folder,
                    std::system_category().message(problem));
}

Recorder::Recorder(Env& env, Config config, Events& events, Team& team)
    : env_(env),
      config_(std::move(config)),
      pool_(config_.frame_pool_bytes(), config_.store.huge_pages),
      report_(events),
      control_(rules_of(config_, team), report_, totals_),
      kept_memory_(config_.pool_bytes),
      values_(config_, [this] { return control_.files(); }),
      stage_events_(events, team.rank(), [this] { return snapshot(); }),
      role_(make_role({env, config_, team, events, report_, pool_})) {
  config_.store.buffers.emplace(config_.shared_segment_bytes(), config_.store.huge_pages);
}

Recorder::~Recorder() { stop(); }

Result<void> Recorder::start() {
  control_.start(*role_, [this](const std::shared_ptr<SeriesFile>& series, Frame frame) {
    return admit(series, std::move(frame));
  });
  PEN_TRY(try_folder(config_.folder));
  PEN_TRY(config_.load_filters());
  PEN_ASSIGN(const auto free, env_.free_bytes(config_.folder));
  if (free < config_.store.extent_bytes)
    spdlog::warn("folder {} has only {} MB free", config_.folder, free / 1'000'000);
  workers_.start(config_.threads);
  timekeeper_.start("pen-time", tick, [this] { keep_time(); });
  return {};
}

void Recorder::stop() {
  if (stopped_.exchange(true)) return;
  control_.stop();
  timekeeper_.stop();
  workers_.stop();
}

void Recorder::stop_waiting() {
  control_.stop_waiting();
  values_.stop_waiting();
}

Snapshot Recorder::snapshot() const {
  Snapshot now;
  now.meters = totals_.now();
  now.open_series = totals_.open_series();
  now.complete_series = control_.counts().complete;
  now.failed_series = control_.counts().failed + control_.counts().unmade;
  now.refused_series = report_.refusals();
  now.rejected = report_.rejected();
  now.queued_frames = workers_.waiting();
  now.pool_bytes = pool_.budget_bytes();
  now.pool_used_bytes = pool_.used_bytes();
  now.pool_used_bytes_max = pool_.used_bytes_max();
  now.values_used_bytes_max = values_.used_bytes_max();
  return now;
}

void Recorder::note_remarks(Series& series) {
  for (const auto& remark : std::exchange(series.remarks, {}))
    note(series.source.empty() ? "start" : series.source,
         remark.with_context(fmt::format("series \"{}\"", series.unique_id)));
}

Result<void> Recorder::begin(Series series, std::shared_ptr<AckListener> acks) {
  note_remarks(series);
  const bool answered = acks != nullptr;
  return control_.begin({.series = std::move(series), .acks = std::move(acks), .answered = answered});
}

/// A detector that was started anew cannot be told that the name of its series is taken: it is held back until the
/// series before is closed, and then the file gets a number.
Result<void> Recorder::begin_anew(Series series, const SeriesEnd& before) {
  note_remarks(series);
  return control_.begin({.series = std::move(series)}, &before);
}

std::uint64_t Recorder::generation(const std::string& series_unique_id) const {
  return control_.generation(series_unique_id);
}

Result<void> Recorder::put(Frame frame) {
  PEN_ASSIGN(const auto series, control_.take(frame));
  return series ? admit(series, std::move(frame)) : Result<void>{};
}

Result<void> Recorder::admit(const std::shared_ptr<SeriesFile>& series, Frame frame) {
  if (!holds_back() && workers_.is_full()) {
    series->drop(frame.number);
    return make_error(Errc::refused, "image {} is dropped: {} frames are waiting", value(frame.number),
                      Workers::queue_frames);
  }
  if (expand_arrays(frame.metadata))
    spdlog::warn("{}: image {}: an array in its metadata cannot be decompressed", series->path(), value(frame.number));
  auto room = values_.room_for(frame, *series);
  if (!room.ok()) {
    series->drop(frame.number);
    return std::move(room).error();
  }
  PEN_ASSIGN(auto task, series->admit(std::move(frame), std::move(*room)));
  if (task) workers_.push(series, std::move(*task));
  return {};
}

void Recorder::drop(const std::string& series_unique_id, FrameNumber number) {
  control_.lose(series_unique_id, {number});
}

void Recorder::damage(const std::string& series_unique_id, FrameNumber number, std::optional<std::uint32_t> element) {
  control_.lose(series_unique_id, {number, true, element});
}

bool Recorder::expect(const std::string& series_unique_id, const std::shared_ptr<AckListener>& session) {
  return control_.expect(series_unique_id, session);
}

std::uint64_t Recorder::window_needed(const std::string& series_unique_id) {
  const auto series = control_.find(series_unique_id);
  return series ? series->spec().window_needed() : 0;
}

std::optional<std::vector<std::string>> Recorder::channels(const std::string& series_unique_id) {
  return control_.channels(series_unique_id);
}

void Recorder::refuse_start(const std::string& series_unique_id, const Error& why) {
  control_.refuse_start(series_unique_id, why);
}

void Recorder::refuse_element(const std::string& series_unique_id, std::string_view source, const Error& why) {
  control_.refuse_element(series_unique_id, source, why);
}

/// Nothing here touches the storage, for other ranks wait no longer for one that is silent.
void Recorder::keep_time() {
  const auto now = monotonic_ns();
  const auto files = control_.files();
  const bool any_frame_waits = workers_.waiting() > 0;
  // A series that is being closed is not among the files, and its last frames may take minutes to compress.
  if (!files.empty() || any_frame_waits) stage_events_.tick(now);
  role_->tick(files, any_frame_waits);
  control_.tick();
  kept_memory_.tick(now);
}

}  // namespace penstock::recorder
