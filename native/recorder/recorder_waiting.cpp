/// Starts that wait for a file to be closed, and what comes behind them, while other series are recorded.

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/threads.hpp"
#include "recorder/recorder.hpp"

namespace penstock::recorder {
namespace {

using namespace std::chrono_literals;

/// What a frame takes beside its pixels, as far as waiting is concerned.
constexpr std::uint64_t frame_overhead_bytes = 1024;
constexpr std::uint64_t event_overhead_bytes = 128;
/// Between two looks whether a silent series can make room, and two questions to the coordinator.
constexpr auto retry_interval = 50ms;

std::uint64_t bytes_of(const Series& series) {
  std::uint64_t bytes = frame_overhead_bytes + series.user_data_cbor.size();
  for (const auto* arrays : {&series.pixel_mask, &series.flatfield})
    for (const auto& array : *arrays) bytes += array.data.size();
  if (series.countrate_correction_table) bytes += series.countrate_correction_table->data.size();
  for (const auto& [name, item] : series.unknown) bytes += item.size();
  return bytes;
}

/// Frames matter more than masks.
Error leave_tables_out(Series& series, const WaitingBytes& room) {
  const auto before = bytes_of(series);
  series.pixel_mask.clear();
  series.flatfield.clear();
  series.countrate_correction_table.reset();
  return make_error(Errc::too_large,
                    "series \"{}\" is recorded without its masks, flat fields and tables ({} bytes): waiting starts "
                    "use {} of the {} bytes of tables_bytes; increase it",
                    series.unique_id, before - bytes_of(series), room.held(), room.max());
}

}  // namespace

/// With mutex_ held: what an event that waits counts against. A start's tables may be as large as those of open files.
WaitingBytes& Recorder::waiting_bytes_for(const Waiting::Event& event) {
  return std::holds_alternative<Waiting::Start>(event) ? waiting_starts_bytes_ : waiting_frames_bytes_;
}

/// With mutex_ held: whether the event waits with its series' start. An error where there is no room for it.
Result<bool> Recorder::wait_with_start(const std::string& unique_id, Waiting::Event event, std::uint64_t bytes) {
  const auto found = waiting_.find(unique_id);
  if (found == waiting_.end()) return false;
  if (auto& waiting = waiting_bytes_for(event); !waiting.hold(bytes)) {
    ++found->second.refused;
    const bool is_start = std::holds_alternative<Waiting::Start>(event);
    return make_error(Errc::refused,
                      "series \"{}\" cannot wait until one of {} open files is closed: {} bytes of {} wait already, "
                      "the maximum is {}: increase {}, or reduce end_timeout_s",
                      unique_id, places_.places(), waiting.held(), is_start ? "such starts" : "what came behind starts",
                      waiting.max(), is_start ? "tables_bytes" : "pool_bytes");
  }
  if (const auto* start = std::get_if<Waiting::Start>(&event); start != nullptr && !start->series.source.empty())
    found->second.sources.insert(start->series.source);
  found->second.events.push_back({std::move(event), bytes});
  return true;
}

bool Recorder::is_waiting(const std::string& unique_id) const {
  std::lock_guard lock(mutex_);
  return waiting_.contains(unique_id);
}

/// Another start of a series of which one waits: of another element, source or connection.
bool Recorder::start_waits_with_start(Series& series, std::shared_ptr<AckListener>& acks, Result<void>& outcome) {
  std::lock_guard lock(mutex_);
  if (!waiting_.contains(series.unique_id)) return false;
  const auto unique_id = series.unique_id;
  const auto bytes = bytes_of(series);
  const auto waits = wait_with_start(unique_id, Waiting::Start{std::move(series), std::move(acks)}, bytes);
  if (!waits.ok()) outcome = waits.error();
  return true;
}

/// Takes the series, unless another start of its name waits or is being opened since: nothing then, and it is to be
/// begun again.
std::optional<Result<void>> Recorder::wait_for_place(Series& series, const std::shared_ptr<AckListener>& acks) {
  const auto unique_id = series.unique_id;
  auto why = make_error(Errc::no_place, "series \"{}\" waits until one of {} open files is closed", unique_id,
                        places_.places());
  std::optional<Error> without_tables;
  const auto channels = series.channels;
  {
    std::unique_lock lock(mutex_);
    if (waiting_.contains(unique_id) || open_.contains(unique_id) || opening_.contains(unique_id)) return std::nullopt;
    const bool may_wait = !stopping_ && waits_;
    if (may_wait && !waiting_starts_bytes_.has_room(bytes_of(series)))
      without_tables = leave_tables_out(series, waiting_starts_bytes_);
    const auto bytes = bytes_of(series);
    if (!may_wait || !waiting_starts_bytes_.has_room(bytes) || !places_.wait(unique_id)) {
      lock.unlock();
      return refuse_to_wait(unique_id);
    }
    // From here on it is a series of its own, whose frames are no other's of its name.
    series.generation = ++generations_;
    // The series before from there may be what has the place.
    if (team_.leads()) end_others_of(series.source, unique_id, job::lead);
    auto& waiting = waiting_[unique_id];
    waiting.generation = series.generation;
    waiting.channels = series.channels;
    waiting.holds_source = holds_back() && (acks != nullptr || !series.source.empty());
    (void)wait_with_start(unique_id, Waiting::Start{std::move(series), acks}, bytes);
  }
  changed_.notify_all();
  if (!team_.leads())
    team_.tell(job::lead, {{"tell", "waits"}, {"series_unique_id", unique_id}, {"channels", channels}});
  note("start", why);
  if (without_tables) note("start", *without_tables);
  return Result<void>{};
}

Result<void> Recorder::refuse_to_wait(const std::string& unique_id) {
  auto refused =
      make_error(Errc::refused, "series \"{}\": {} files are open, and no more starts may wait; end a series first",
                 unique_id, places_.places());
  if (!team_.leads())
    refuse_start(unique_id, refused);
  else if (note_refusal(unique_id, refused))
    spdlog::error("{}", refused.message());
  return refused;
}

/// A frame of a series whose start waits. A source of which nobody else's messages depend is held back when there is no
/// more room for them; another one's frame is refused, and in the ledger.
Result<void> Recorder::wait_with_start(std::unique_lock<std::mutex> lock, Frame frame) {
  const auto unique_id = frame.series_unique_id;
  const auto number = frame.number;
  const auto bytes = frame.payload.size() + memory_bytes(frame.metadata) + frame_overhead_bytes;
  if (waiting_.at(unique_id).holds_source)
    changed_.wait(lock, [&] {
      return stopping_ || !waits_ || !waiting_.contains(unique_id) || waiting_frames_bytes_.has_room(bytes);
    });
  if (!waiting_.contains(unique_id)) {
    lock.unlock();
    return put(std::move(frame));
  }
  const auto waits = wait_with_start(unique_id, std::move(frame), bytes);
  if (waits.ok()) return {};
  // In its turn, ahead of the end.
  if (auto& waiting = waiting_.at(unique_id); waiting.refused <= Waiting::dropped_max)
    waiting.events.push_back({Waiting::Lost{number}, 0});
  return waits.error().with_context(fmt::format("image {}", value(number)));
}

/// On a thread of its own: to make a file takes as long as the storage does. What waits behind one start holds up no
/// other. Another rank asks the coordinator in the order in which the starts came.
void Recorder::open_waiting() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    reap_let_in(false);
    lock.lock();
    const auto is_wanted = [&] { return places_.anyone_waits() || monotonic_ns() < place_wanted_until_ns_; };
    if (!is_wanted()) {
      changed_.wait(lock, [&] { return stopping_ || is_wanted(); });
      continue;
    }
    if (const auto next = places_.next()) {
      lock.unlock();
      const bool done = begin_next(*next);
      lock.lock();
      if (!done) changed_.wait_for(lock, retry_interval, [&] { return stopping_; });
      continue;
    }
    (void)end_idle_series();
    changed_.wait_for(lock, retry_interval);
  }
}

/// False where the coordinator has no place for it yet.
bool Recorder::begin_next(const std::string& unique_id) {
  if (team_.leads()) {
    let_in_beside([this, unique_id] {
      if (const auto begun = begin_waiting(unique_id)) let_in(unique_id, *begun);
    });
    return true;
  }
  const auto begun = begin_waiting(unique_id);
  if (begun) let_in_beside([this, unique_id, begun = *begun] { let_in(unique_id, begun); });
  return begun.has_value();
}

void Recorder::let_in_beside(std::function<void()> work) {
  auto one = std::make_unique<LettingIn>();
  one->thread = std::thread([work = std::move(work), done = &one->done] {
    begin_thread("pen-open", Role::other);
    work();
    *done = true;
  });
  std::lock_guard lock(mutex_);
  letting_in_.push_back(std::move(one));
}

void Recorder::reap_let_in(bool all) {
  std::vector<std::unique_ptr<LettingIn>> ended;
  {
    std::lock_guard lock(mutex_);
    for (auto& one : letting_in_)
      if (all || one->done) ended.push_back(std::move(one));
    std::erase(letting_in_, nullptr);
  }
  for (const auto& one : ended) one->thread.join();
}

/// A source sends one series after the other, and the start of one ends the one before: what came earlier is let in
/// first.
void Recorder::wait_for_turn(const std::string& unique_id, const std::string& source) {
  if (source.empty()) return;
  std::unique_lock lock(mutex_);
  const auto generation = waiting_.at(unique_id).generation;
  changed_.wait(lock, [&] {
    return std::none_of(waiting_.begin(), waiting_.end(), [&](const auto& each) {
      return each.second.generation < generation && each.second.sources.contains(source);
    });
  });
}

/// Opens a series that has got its place. Nothing where the coordinator has no place for it yet.
std::optional<Result<void>> Recorder::begin_waiting(const std::string& unique_id) {
  Waiting::Start start;
  {
    std::lock_guard lock(mutex_);
    start = std::move(std::get<Waiting::Start>(waiting_.at(unique_id).events.front().event));
  }
  wait_for_turn(unique_id, start.series.source);
  auto begun = begin_now(start.series, start.acks);
  if (!begun.ok() && begun.error().code() == Errc::no_place) {
    std::lock_guard lock(mutex_);
    places_.wait_again(unique_id);
    waiting_.at(unique_id).events.front().event = std::move(start);
    return std::nullopt;
  }
  if (!begun.ok()) {
    {
      std::lock_guard lock(mutex_);
      if (!open_.contains(unique_id) && !opening_.contains(unique_id)) places_.leave(unique_id);
    }
    if (!team_.leads()) team_.tell(job::lead, {{"tell", "waits_no_more"}, {"series_unique_id", unique_id}});
    if (start.acks) start.acks->closed(unique_id, begun.error().message());
  }
  std::lock_guard lock(mutex_);
  auto& first = waiting_.at(unique_id).events.front();
  waiting_bytes_for(first.event).release(first.bytes);
  waiting_.at(unique_id).events.pop_front();
  return begun;
}

/// Lets in what waited for a series that is open now, or could not be opened.
void Recorder::let_in(const std::string& unique_id, const Result<void>& begun) {
  std::uint64_t refused = 0;
  for (auto item = next_waiting(unique_id); item; item = next_waiting(unique_id)) {
    if (begun.ok()) {
      if (auto taken = take_waiting(unique_id, item->event); !taken.ok())
        reject("a waiting start message", taken.error());
    } else if (const auto* frame = std::get_if<Frame>(&item->event)) {
      note_early(unique_id, frame->number);
      ++refused;
    } else if (const auto* start = std::get_if<Waiting::Start>(&item->event); start != nullptr && start->acks) {
      start->acks->refused(unique_id, start->series.element, begun.error().message());
    }
    std::lock_guard lock(mutex_);
    waiting_bytes_for(item->event).release(item->bytes);
  }
  if (refused > 0)
    reject("a waiting start message",
           make_error(Errc::refused, "{} images belong to series \"{}\", whose start was rejected: {}", refused,
                      unique_id, begun.error().message()));
}

/// What waits next; behind the last one nothing waits any more.
std::optional<Recorder::Waiting::Item> Recorder::next_waiting(const std::string& unique_id) {
  std::optional<Waiting::Item> next;
  {
    std::lock_guard lock(mutex_);
    auto& waiting = waiting_.at(unique_id);
    if (!waiting.events.empty()) {
      next = std::move(waiting.events.front());
      waiting.events.pop_front();
    } else {
      if (waiting.refused > 0)
        spdlog::warn("series \"{}\": {} messages were dropped while its start was waiting, for lack of memory",
                     unique_id, waiting.refused);
      waiting_.erase(unique_id);
    }
  }
  changed_.notify_all();
  return next;
}

Result<void> Recorder::take_waiting(const std::string& unique_id, Waiting::Event& event) {
  if (auto* start = std::get_if<Waiting::Start>(&event)) {
    const auto element = start->series.element;
    wait_for_turn(unique_id, start->series.source);
    auto begun = begin_now(start->series, start->acks);
    // It was acknowledged when it came.
    if (!begun.ok() && start->acks) start->acks->refused(unique_id, element, begun.error().message());
    return begun;
  }
  if (auto* frame = std::get_if<Frame>(&event)) {
    if (frame->session != nullptr && frame->session->is_refused())
      return make_error(Errc::refused, "image {} of series \"{}\" comes from a client whose start was rejected",
                        value(frame->number), unique_id);
    return put_now(find(unique_id), std::move(*frame));
  }
  if (auto* end = std::get_if<SeriesEnd>(&event)) return end_now(*end);
  const auto file = find(unique_id);
  if (file == nullptr) return {};
  if (auto* session = std::get_if<Session>(&event)) file->expect(*session);
  if (auto* lost = std::get_if<Waiting::Lost>(&event)) {
    if (lost->damaged)
      file->damage(lost->number, lost->element);
    else
      file->drop(lost->number);
  }
  return {};
}

/// The end of a series whose start waits is never refused, and one of each is enough.
bool Recorder::end_waits_with_start(const SeriesEnd& end) {
  std::lock_guard lock(mutex_);
  return end_waits(end);
}

/// With mutex_ held.
bool Recorder::end_waits(const SeriesEnd& end) {
  const auto found = waiting_.find(end.unique_id);
  if (found == waiting_.end()) return false;
  // One of its name that was closed before.
  if (end.generation != 0 && end.generation != found->second.generation) return false;
  const bool fits = waiting_frames_bytes_.hold(event_overhead_bytes);
  const auto* last = found->second.events.empty() ? nullptr : &found->second.events.back();
  const bool repeats = last != nullptr && last->bytes == 0 && std::holds_alternative<SeriesEnd>(last->event);
  if (fits || !repeats) found->second.events.push_back({end, fits ? event_overhead_bytes : 0});
  return true;
}

/// Of a frame that was lost on its way, and of a session that will put some. True where they wait with the start.
bool Recorder::waits_with_start(const std::string& unique_id, Waiting::Event event) {
  std::lock_guard lock(mutex_);
  if (!waiting_.contains(unique_id)) return false;
  // There are no more sessions than connections, and none may be forgotten.
  const bool is_session = std::holds_alternative<Session>(event);
  (void)wait_with_start(unique_id, std::move(event), is_session ? 0 : event_overhead_bytes);
  return true;
}

/// Another rank's, whose lead opens nothing any more.
void Recorder::refuse_waiting(const std::string& unique_id) {
  std::lock_guard lock(mutex_);
  const auto waiting = waiting_.extract(unique_id);
  places_.leave(unique_id);
  ++failed_series_;
  const auto why =
      fmt::format("series \"{}\" is not recorded: its start was waiting when the recorder stopped", unique_id);
  spdlog::error("{}", why);
  team_.tell(job::lead, {{"tell", "waits_no_more"}, {"series_unique_id", unique_id}});
  for (auto& item : waiting.mapped().events) {
    waiting_bytes_for(item.event).release(item.bytes);
    if (auto* start = std::get_if<Waiting::Start>(&item.event); start != nullptr && start->acks)
      start->acks->closed(unique_id, why);
  }
}

/// The lead's: other ranks have frames of the series (empty: of any), and have not heard yet that it is open.
void Recorder::wait_for_frames_elsewhere(const std::string& unique_id) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(join_patience_ns), [&] {
    return std::none_of(frames_elsewhere_.begin(), frames_elsewhere_.end(), [&](const auto& each) {
      return open_.contains(each.first) && (unique_id.empty() || each.first == unique_id);
    });
  });
}

/// Frames of a series whose start waits on another rank, or for the lead's place, wait for it here.
void Recorder::wait_with_frames(const std::string& unique_id, std::vector<std::string> channels) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || open_.contains(unique_id) || waiting_.contains(unique_id) || opening_.contains(unique_id)) return;
    if (waiting_.size() >= Waiting::starts_max) return;
    auto& waiting = waiting_[unique_id];
    waiting.channels = std::move(channels);
    waiting.holds_source = holds_back() && has_sources_of_one_sender();
  }
  spdlog::info("series \"{}\": its start waits until a file is closed; frames that arrive here wait for it", unique_id);
  let_in_beside([this, unique_id] { let_in_when_open(unique_id); });
}

void Recorder::let_in_when_open(const std::string& unique_id) { let_in(unique_id, wait_until_open(unique_id)); }

/// Until a series whose start waits elsewhere is open here.
Result<void> Recorder::wait_until_open(const std::string& unique_id) {
  if (team_.leads()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [&] { return stopping_ || open_.contains(unique_id) || !waits_elsewhere_.contains(unique_id); });
    if (open_.contains(unique_id)) return {};
    return make_error(Errc::refused, "its start waited on another rank and was not accepted");
  }
  for (;;) {
    auto found = team_.ask({{"ask", "find"}, {"series_unique_id", unique_id}}, std::chrono::seconds(60));
    const bool waits = found.ok() ? found->value("waits", false) : found.error().code() == Errc::locked;
    if (!waits && !found.ok()) return std::move(found).error();
    if (!waits) {
      auto file = join_found(unique_id, *found);
      if (file.ok()) return {};
      if (file.error().code() != Errc::no_place) return std::move(file).error();
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, retry_interval, [&] { return stopping_; });
    if (stopping_) return make_error(Errc::refused, "its start waited on another rank when the recorder stopped");
  }
}

/// When the recorder stops, what waited is recorded all the same, as files are closed.
void Recorder::finish_waiting() {
  for (;;) {
    std::optional<std::string> next;
    {
      std::lock_guard lock(mutex_);
      if (!places_.anyone_waits()) return;
      next = places_.next();
    }
    if (next && team_.leads()) {
      if (const auto begun = begin_waiting(*next)) let_in(*next, *begun);
      wait_for_frames_elsewhere(*next);
    } else if (next) {
      refuse_waiting(*next);
    }
    close_ready(monotonic_ns(), true);
    reap(true);
  }
}

}  // namespace penstock::recorder
