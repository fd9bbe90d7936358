#include "recorder/recorder.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/clock.hpp"
#include "base/threads.hpp"
#include "recorder/config/file_name.hpp"
#include "recorder/tree/possible.hpp"

namespace penstock::recorder {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t queue_frames = 4096;
constexpr std::int64_t tick_ns = 50'000'000;
constexpr std::int64_t segment_age_max_ns = 200'000'000;
constexpr std::size_t closed_names_max = 1024;
constexpr std::int64_t place_wanted_ns = 1'000'000'000;  ///< another rank asks again much sooner
/// So long after its close a series of the same name is taken for the same, if an element begins that it lacked.
constexpr std::int64_t late_element_ns = 60'000'000'000;

std::size_t count_pulled(const std::vector<SourceConfig>& sources) {
  std::set<std::string> endpoints;
  for (const auto& source : sources)
    if (source.kind == SourceConfig::Kind::zmq && !source.bind) endpoints.insert(source.endpoint);
  return endpoints.size();
}

}  // namespace

Result<void> try_folder(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    return make_error(Errc::not_found, "folder {} does not exist; create it, or choose another one with `folder`",
                      folder);
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return errno_error(errno, fmt::format("folder {} is not writable; give this user permission, or choose another "
                                          "with `folder`",
                                          folder));
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

std::string endpoint_of(const Series& start) { return start.endpoint.empty() ? "TCP" : start.endpoint; }

/// With the series, so that no other sender can claim the element of the one that began it.
static std::map<std::uint32_t, std::string> endpoints_of(const Series& start) {
  if (!start.element) return {};
  return {{start.element->number, endpoint_of(start)}};
}

Recorder::Recorder(Env& env, Config config, Events& events, Team& team)
    : env_(env),
      config_(std::move(config)),
      pulled_(count_pulled(config_.sources)),
      events_(events),
      team_(team),
      pool_(config_.frame_pool_bytes(), config_.store.huge_pages),
      queue_(queue_frames),
      places_(config_.open_files_max(), Waiting::starts_max),
      waiting_starts_bytes_(config_.tables_bytes),
      waiting_frames_bytes_(config_.waiting_bytes_max()) {
  config_.store.buffers.emplace(config_.shared_segment_bytes(), config_.store.huge_pages);
}

Recorder::~Recorder() { stop(); }

Result<void> Recorder::start() {
  team_.start({[this](unsigned from, const auto& question) { return answer(from, question); },
               [this](unsigned from, const auto& notice) { hear(from, notice); }});
  joined_team_ = true;
  PEN_TRY(try_folder(config_.folder));
  PEN_TRY(config_.load_filters());
  PEN_ASSIGN(const auto free, env_.free_bytes(config_.folder));
  if (free < config_.store.extent_bytes)
    spdlog::warn("folder {} has only {} MB free", config_.folder, free / 1'000'000);
  for (unsigned i = 0; i < config_.threads; ++i)
    workers_.emplace_back([this, i] {
      begin_thread("pen-compress", Role::compress);
      work(i);
    });
  timekeeper_ = std::thread([this] {
    begin_thread("pen-time", Role::other);
    keep_time();
  });
  opener_ = std::thread([this] {
    begin_thread("pen-open", Role::other);
    open_waiting();
  });
  return {};
}

void Recorder::stop() {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
  }
  if (joined_team_) wait_for_the_others();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (timekeeper_.joinable()) timekeeper_.join();
  if (opener_.joinable()) opener_.join();
  reap_let_in(true);
  if (team_.leads()) wait_for_frames_elsewhere({});
  close_ready(monotonic_ns(), true);
  reap(true);
  finish_waiting();
  if (team_.leads()) team_.tell_all({{"tell", "dismissed"}});
  queue_.close();
  for (auto& worker : workers_) worker.join();
  workers_.clear();
}

bool Recorder::wait_for_limit(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  if (config_.series_limit == 0) {
    changed_.wait_for(lock, wait);
    return false;
  }
  return changed_.wait_for(lock, wait, [&] {
    // A refused series is no reason to end another one.
    return closed_series_ >= config_.series_limit || (closed_series_ + refused_series_ >= config_.series_limit &&
                                                      open_.empty() && opening_.empty() && waiting_.empty());
  });
}

void Recorder::stop_waiting() {
  std::lock_guard lock(mutex_);
  waits_ = false;
  for (const auto& [id, open] : open_) open.file->stop_waiting();
  changed_.notify_all();
}

std::uint64_t Recorder::refused_series() const {
  std::lock_guard lock(mutex_);
  return refused_series_ + refused_elements_;
}

Snapshot Recorder::snapshot() const {
  Snapshot now;
  now.meters = totals_.now();
  now.open_series = totals_.open_series();
  now.complete_series = complete_series_;
  now.failed_series = failed_series_ + unmade_series_;
  now.refused_series = refusals_;
  now.rejected = rejected_;
  now.queued_frames = queue_.size();
  now.pool_bytes = pool_.budget_bytes();
  now.pool_used_bytes = pool_.used_bytes();
  now.pool_used_bytes_max = pool_.used_bytes_max();
  now.values_used_bytes_max = values_pool_.used_bytes_max();
  return now;
}

std::shared_ptr<SeriesFile> Recorder::find(const std::string& series_unique_id) const {
  std::lock_guard lock(mutex_);
  const auto found = open_.find(series_unique_id);
  return found == open_.end() ? nullptr : found->second.file;
}

Result<void> Recorder::begin(Series series, std::shared_ptr<AckListener> acks) {
  const std::string unique_id = series.unique_id;
  const auto element = series.element;
  const auto source = series.source;
  for (const auto& remark : std::exchange(series.remarks, {}))
    note(source.empty() ? "start" : source, remark.with_context(fmt::format("series \"{}\"", unique_id)));
  // Each rank pulls frames of every stream, and only one of them its start.
  if (element && element->count() > 1 && !acks && team_.ranks() > 1) {
    auto why = make_error(
        Errc::unsupported,
        "series \"{}\" has {} elements over ZeroMQ, but the recorder has {} ranks; such elements require one rank, "
        "or TCP",
        unique_id, element->count(), team_.ranks());
    refuse_start(unique_id, why);
    return why;
  }
  for (;;) {
    Result<void> outcome;
    if (start_waits_with_start(series, acks, outcome)) return outcome;
    auto begun = begin_now(series, acks);
    if (begun.ok() || begun.error().code() != Errc::no_place) return begun;
    if (auto waits = wait_for_place(series, acks)) return *std::move(waits);
  }
}

/// Leaves the series as it is where that is `no_place`.
Result<void> Recorder::begin_now(Series& series, const std::shared_ptr<AckListener>& acks) {
  const std::string unique_id = series.unique_id;
  const auto element = series.element;
  const auto source = series.source;
  auto file = find_when_open(unique_id);
  if (!file && !acks && is_closing(unique_id)) {
    await_close(unique_id);
    file = find_when_open(unique_id);
  }
  if (!file) {
    auto made = team_.leads() ? open(series, acks != nullptr) : join(series, acks != nullptr);
    if (made.ok()) {
      PEN_TRY(claim_element((*made)->series()));
      (*made)->element_starts().begin((*made)->series());
      if (team_.leads()) note_element(unique_id, element, job::lead);
      if (team_.leads()) note_source(unique_id, source, element);
      (*made)->attach(acks);
      return team_.leads() && acks ? tell_of_session((*made)->series()) : Result<void>{};
    }
    // Another source may have been quicker.
    if (made.error().code() == Errc::out_of_order) file = find_when_open(unique_id);
    if (!file) return std::move(made).error();
  }
  PEN_TRY(check_elements_fit(file->series(), series));
  PEN_TRY(check_same_series(file->series(), series));
  PEN_TRY(claim_element(series));
  if (element && team_.leads()) decode_maps(series, file->element_starts().map_bytes());
  const bool another_element = file->element_starts().begin(series);
  bool another_source = team_.leads() && note_source(unique_id, source, element);
  // Which of the pushers have begun, the lead knows.
  if (!team_.leads() && !acks && !another_element && !source.empty()) {
    PEN_TRY(tell_of_source(series));
    another_source = true;
  }
  if (!another_element && !another_source && !acks)
    return make_error(Errc::out_of_order, "series_unique_id \"{}\" has started already", unique_id);
  if (team_.leads()) note_element(unique_id, element, job::lead);
  if (!acks) return {};
  PEN_TRY(file->spec().check_window(series.window_frames));
  file->attach(acks);
  if (!element) spdlog::info("{}: its source has reconnected", file->path());
  return tell_of_session(series);
}

/// The lead's: makes the series' file. Takes the series once it is sure that nobody else makes it.
Result<std::shared_ptr<SeriesFile>> Recorder::open(Series& series, bool answered) {
  const std::string unique_id = series.unique_id;
  const auto named = file_path(config_.folder, config_.file_name, series, realtime_ns());
  if (!named.ok()) {
    note_refusal(unique_id, named.error());
    return named.error();
  }
  auto path = *named;
  const auto id = series.id;
  const auto frames = series.frames;
  PEN_TRY(claim(unique_id, series.element, series.anew ? std::string() : series.source, series.arm_date));
  if (series.generation == 0) series.generation = ++generations_;
  decode_maps(series, 0);
  for (const auto& remark : set_aside_impossible(series))
    note("start", remark.with_context(fmt::format("series \"{}\"", unique_id)));
  // Without the lock: to create a file takes milliseconds, in which other series' frames come in.
  auto file = make_file(std::move(series), path, answered);
  PEN_TRY(settle(unique_id, file));
  for (const auto& remark : (*file)->series().remarks)
    note("start", remark.with_context(fmt::format("series \"{}\"", unique_id)));
  const auto before = (*file)->stats().frames_before;
  spdlog::info("series \"{}\" resumes {}, which has {} frames", unique_id, path, before);
  events_.emit("series_start", {{"series_unique_id", unique_id},
                                {"series_id", id},
                                {"file", path},
                                {"frames", frames},
                                {"frames_before", before}});
  return file;
}

/// The claimed place of a series is taken by its file, or is free again.
Result<void> Recorder::settle(const std::string& unique_id, Result<std::shared_ptr<SeriesFile>>& file) {
  if (!file.ok() && team_.leads()) note_refusal(unique_id, file.error());
  std::lock_guard lock(mutex_);
  opening_.erase(unique_id);
  waits_elsewhere_.erase(unique_id);
  changed_.notify_all();
  if (!file.ok()) {
    places_.leave(unique_id);
    answer_close_without_file(unique_id);
    // The recorder's own trouble, whoever else is told of it; what a client asked for in vain is not.
    if (file.error().code() != Errc::refused) ++(team_.leads() ? unmade_series_ : failed_series_);
    spdlog::error("series \"{}\" is not recorded: {}", unique_id, file.error().message());
    return file.error().with_context(fmt::format("series \"{}\"", unique_id));
  }
  any_begun_ = true;
  const auto now = monotonic_ns();
  const auto before = (*file)->stats();
  open_.emplace(unique_id, Open{.file = *file,
                                .started_ns = now,
                                .raw_bytes_before = before.raw_bytes,
                                .stored_bytes_before = before.stored_bytes,
                                .progress_ns = now,
                                .joined = {},
                                .began = {},
                                .ended = {},
                                .asked_to_close = close_when_open_.erase(unique_id) > 0,
                                .element_endpoints = endpoints_of((*file)->series())});
  totals_.open(*file);
  enter_early(unique_id, **file);
  closed_names_.erase(unique_id);
  whole_names_.erase(unique_id);
  refused_series_ -= refused_names_.erase(unique_id);
  // Of one of its elements, before others began it: that one is not recorded.
  if (const auto early = early_refused_.extract(unique_id); !early.empty()) refused_elements_ += early.mapped().size();
  if (const auto early = early_ends_.extract(unique_id); !early.empty())
    for (const auto& [rank, element, source] : early.mapped())
      end_open(open_.at(unique_id), rank,
               {.id = 0, .unique_id = unique_id, .by_all = true, .element = element, .source = source});
  return {};
}

/// For somebody else to make a series' file: the scan of a large one that was left takes its time.
std::chrono::seconds Recorder::opening_patience() const { return std::chrono::seconds(config_.resume ? 600 : 10); }

/// Also of a series whose file is just being made.
std::shared_ptr<SeriesFile> Recorder::find_when_open(const std::string& series_unique_id) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, opening_patience(), [&] { return !opening_.contains(series_unique_id); });
  const auto found = open_.find(series_unique_id);
  return found == open_.end() ? nullptr : found->second.file;
}

/// Takes one of the places for open files, until the file is closed or could not be made. `no_place` where none is
/// free.
Result<void> Recorder::claim(const std::string& unique_id, const std::optional<ElementPlace>& element,
                             const std::string& late_source, const std::string& arm_date) {
  std::unique_lock lock(mutex_);
  if (stopping_ && !places_.has(unique_id)) return make_error(Errc::refused, "the recorder is stopping");
  if (closing_names_.contains(unique_id))
    return make_error(Errc::refused, "series \"{}\" is being closed; try again later", unique_id);
  // Of a pusher that was late with its start, when others had brought everything. Armed anew it is another series.
  if (const auto whole = whole_names_.find(unique_id);
      !late_source.empty() && whole != whole_names_.end() && whole->second == arm_date)
    return make_error(Errc::out_of_order, "series_unique_id \"{}\" is closed already, with all of its frames",
                      unique_id);
  // Another series of the same name begins with elements that were in the one before.
  if (const auto before = closed_elements_.find(unique_id); element && before != closed_elements_.end() &&
                                                            monotonic_ns() < before->second.until_ns &&
                                                            !before->second.elements.contains(element->number))
    return make_error(Errc::out_of_order, "series \"{}\" was closed without its element {}, which arrived too late",
                      unique_id, element->number);
  if (open_.contains(unique_id) || opening_.contains(unique_id))
    return make_error(Errc::out_of_order, "series_unique_id \"{}\" has started already", unique_id);
  if (!places_.take(unique_id)) {
    // Another rank asks again and again, and the opener makes room for it as for those that wait here.
    place_wanted_until_ns_ = monotonic_ns() + place_wanted_ns;
    changed_.notify_all();
    return make_error(Errc::no_place, "series \"{}\": {} files are open already", unique_id, places_.places());
  }
  opening_.insert(unique_id);
  return {};
}

Result<void> Recorder::put(Frame frame) {
  std::shared_ptr<SeriesFile> series;
  {
    std::unique_lock lock(mutex_);
    if (!waiting_.empty() && waiting_.contains(frame.series_unique_id))
      return wait_with_start(std::move(lock), std::move(frame));
    if (const auto found = open_.find(frame.series_unique_id); found != open_.end()) series = found->second.file;
  }
  if (!series) series = adopt(frame.series_unique_id);
  // Its start may have come meanwhile, and wait.
  if (!series && is_waiting(frame.series_unique_id)) return put(std::move(frame));
  return put_now(series, std::move(frame));
}

Result<void> Recorder::put_now(const std::shared_ptr<SeriesFile>& series, Frame frame) {
  if (!series) {
    note_early(frame.series_unique_id, frame.number);
    return make_error(Errc::out_of_order, "image {} belongs to series \"{}\", which has not started",
                      value(frame.number), frame.series_unique_id);
  }
  if (frame.generation != 0 && frame.generation != series->series().generation)
    return make_error(Errc::out_of_order,
                      "image {} belongs to a series \"{}\" that is closed; another one of that name is open",
                      value(frame.number), frame.series_unique_id);
  if (!holds_back() && queue_.size() >= queue_frames) {
    series->drop(frame.number);
    return make_error(Errc::refused, "image {} is dropped: {} frames are waiting", value(frame.number), queue_frames);
  }
  if (expand_arrays(frame.metadata))
    spdlog::warn("{}: image {}: an array in its metadata cannot be decompressed", series->path(), value(frame.number));
  bound_columns(frame, *series);
  auto room = room_for_values(frame, *series);
  if (!room.ok()) {
    series->drop(frame.number);
    return std::move(room).error();
  }
  PEN_ASSIGN(auto task, series->admit(std::move(frame), std::move(*room)));
  if (!task) return {};
  queue_.push({series, std::move(*task)});
  return {};
}

void Recorder::drop(const std::string& series_unique_id, FrameNumber number) {
  if (waits_with_start(series_unique_id, Waiting::Lost{number})) return;
  auto series = find(series_unique_id);
  if (!series) series = adopt(series_unique_id);
  if (series)
    series->drop(number);
  else
    (void)waits_with_start(series_unique_id, Waiting::Lost{number});
}

void Recorder::damage(const std::string& series_unique_id, FrameNumber number, std::optional<std::uint32_t> element) {
  if (waits_with_start(series_unique_id, Waiting::Lost{number, true, element})) return;
  auto series = find(series_unique_id);
  if (!series) series = adopt(series_unique_id);
  if (series)
    series->damage(number, element);
  else
    (void)waits_with_start(series_unique_id, Waiting::Lost{number, true, element});
}

void Recorder::expect(const std::string& series_unique_id, const std::shared_ptr<AckListener>& session) {
  if (waits_with_start(series_unique_id, session)) return;
  if (const auto series = find(series_unique_id)) series->expect(session);
}

std::uint64_t Recorder::window_needed(const std::string& series_unique_id) {
  const auto series = find(series_unique_id);
  return series ? series->spec().window_needed() : 0;
}

void Recorder::work(unsigned worker) {
  CodecScratch scratch;
  while (auto work = queue_.pop()) {
    const auto series = std::move(work->series);
    series->encode(std::move(work->task), worker, scratch);
    // With nothing to do, a segment that is worth a write need not wait for more.
    if (queue_.size() == 0) series->flush_if_worthwhile(worker);
  }
}

void Recorder::keep_time() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::nanoseconds(tick_ns), [&] { return stopping_; });
      if (stopping_) return;
    }
    const auto now = monotonic_ns();
    std::vector<std::shared_ptr<SeriesFile>> files;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [id, open] : open_) files.push_back(open.file);
    }
    for (const auto& file : files) {
      file->tend(now, segment_age_max_ns);
    }
    if (team_.leads()) {
      report_progress(now);
      end_silent_series(now);
    } else {
      tell_if_busy(now);
    }
    close_ready(now, false);
    reap(false);
  }
}

void Recorder::close_ready(std::int64_t now_ns, bool all) {
  std::vector<Open> ready;
  {
    std::lock_guard lock(mutex_);
    for (auto it = open_.begin(); it != open_.end();) {
      const auto& open = it->second;
      // What waited for it is still let in, or has yet to come from another rank.
      const bool more_waits = waiting_.contains(it->first) ||
                              (frames_elsewhere_.contains(it->first) && now_ns - open.started_ns < join_patience_ns);
      if (!all && more_waits) {
        ++it;
        continue;
      }
      if (!all && !(team_.leads() ? open.file->ending().ready_to_close(now_ns) : open.asked_to_close)) {
        ++it;
        continue;
      }
      frames_elsewhere_.erase(it->first);
      if (team_.leads() && !open.joined.empty()) partings_[it->first] = {open.file, open.joined, {}};
      if (closed_names_.size() >= closed_names_max) {
        closed_names_.clear();
        whole_names_.clear();
      }
      closed_names_.insert(it->first);
      if (const auto frames = open.file->series().frames; frames > 0 && open.file->stats().ledger.received == frames)
        whole_names_[it->first] = open.file->series().arm_date;
      closing_names_.insert(it->first);
      if (closed_elements_.size() >= closed_names_max) closed_elements_.clear();
      closed_elements_.erase(it->first);
      if (open.file->spec().has_elements())
        closed_elements_[it->first] = {open.file->element_starts().begun(), now_ns + late_element_ns};
      ready.push_back(std::move(it->second));
      it = open_.erase(it);
    }
  }
  for (auto& open : ready) {
    auto closing = std::make_unique<Closing>();
    closing->series = open.file;
    closing->thread = std::thread([this, open = std::move(open), done = &closing->done] {
      begin_thread("pen-close", Role::other);
      close_one(open);
      *done = true;
    });
    closing_.push_back(std::move(closing));
  }
}

void Recorder::close_one(const Open& open) {
  const auto& unique_id = open.file->series().unique_id;
  if (!team_.leads()) {
    part_from_lead(open);
    totals_.close(open.file);
    std::lock_guard lock(mutex_);
    closing_names_.erase(unique_id);
    places_.leave(unique_id);
    return changed_.notify_all();
  }
  part_from_others(open);
  const auto closed = open.file->close();
  for (const auto& lack : open.file->partial()) note(open.file->path(), lack);
  const std::string problem = open.file->problem();
  ++(closed.ok() && problem.empty() ? complete_series_ : failed_series_);
  totals_.close(open.file);
  {
    // Whoever hears that it is closed may begin another one of the same name.
    std::lock_guard lock(mutex_);
    closing_names_.erase(unique_id);
    places_.leave(unique_id);
  }
  for (const auto rank : open.joined)
    team_.tell(rank, {{"tell", "closed"},
                      {"series_unique_id", unique_id},
                      {"problem", problem},
                      {"ended_by", name(open.file->ending().ended_by())}});
  for (const auto& session : open.file->sessions()) {
    session->ended(unique_id, name(open.file->ending().ended_by()));
    session->closed(unique_id, problem);
  }
  report_end(open, problem);  // last: whoever reads the events may take its time
  std::lock_guard lock(mutex_);
  ++closed_series_;
  changed_.notify_all();
}

void Recorder::reap(bool all) {
  std::erase_if(closing_, [&](auto& closing) {
    if (!all && !closing->done) return false;
    closing->thread.join();
    return true;
  });
}

}  // namespace penstock::recorder
