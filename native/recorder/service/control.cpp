#include "recorder/service/control.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/time/clock.hpp"
#include "recorder/series/opening/same_series.hpp"
#include "recorder/service/facts.hpp"

namespace penstock::recorder {
Control::Control(const series::Rules& rules, Report& report, Totals& totals)
    : rules_(rules), report_(report), totals_(totals), registry_(rules) {}

void Control::start(RankRole& role, Admit admit) {
  role_ = &role;
  admit_ = std::move(admit);
  role.start(*this);
}

void Control::stop() {
  if (role_ == nullptr) return;
  role_->wait_for_stop();
  {
    Lock lock(mutex_);
    (void)step(series::Stop{});
    changed_.wait(lock, [&] { return registry_.idle(); });
  }
  errands_.join();
  role_->dismiss();
}

void Control::stop_waiting() {
  Lock lock(mutex_);
  (void)step(series::StopWaiting{});
  for (const auto& [name, slot] : slots_.all())
    if (slot.file) slot.file->stop_waiting();
}

// Steps, with mutex_ held.

void Control::obey(const series::Command& command, Step& step) {
  if (const auto* open = std::get_if<series::Open>(&command)) {
    if (!open->from_line)
      step.open = *open;
    else
      errands_.start("pen-open", [this, open = *open] { open_waiting(open); });
  } else if (const auto* close = std::get_if<series::Close>(&command)) {
    errands_.start("pen-close", [this, why = *close, file = slots_.file(close->name)] { this->close(file, why); });
  } else {
    obey(std::get<series::Notify>(command), step);
  }
}

void Control::obey(const series::Notify& what, Step& step) {
  using What = series::Notify::What;
  switch (what.what) {
    case What::refused: step.is_refused = true; break;
    case What::early:
      spdlog::warn("frames of series \"{}\" arrive, from number {} on, but it has not started: they are lost",
                   what.name, what.numbers.front());
      break;
    case What::dropped: {
      const auto file = slots_.file(what.name);
      spdlog::warn("{}: {} frames arrived before the series started; they are counted as dropped", file->path(),
                   what.numbers.size());
      for (const auto number : what.numbers) file->drop(FrameNumber{number});
      break;
    }
    case What::in_vain:
      if (what.rank == rules_.rank) {
        errands_.start("pen-open", [this, name = what.name] {
          present_line(name, make_error(Errc::refused, "its start waited on another rank and was not accepted"));
        });
        break;
      }
      [[fallthrough]];
    default: role_->notify(what);
  }
}

// What sources send.

Result<void> Control::begin(Start start, const SeriesEnd* before) {
  const auto unique_id = start.series.unique_id;
  // It may be closed already. With several ranks frames of both come through others as well.
  if (before != nullptr && (rules_.alone() || before->by_start)) (void)end(*before);
  start.series.anew = before != nullptr && rules_.alone();
  start.rank = rules_.rank;
  auto event = started(start);
  Lock lock(mutex_);
  if (before != nullptr) {
    // With several ranks they are not told apart.
    event.before = std::max<std::uint64_t>(before->generation, rules_.alone() ? 0 : 1);
    const auto file = slots_.file(unique_id);
    if (file && file->series().generation == before->generation)
      spdlog::warn("{}: another series of the same name starts, and waits until this one is closed", file->path());
  }
  std::optional<Error> waits, without_tables;
  const auto keep_start = [&](const series::Answer& answer) {
    auto& slot = slots_.get(unique_id);
    start.series.generation = answer.generation;
    const bool is_first = answer.state == series::State::waiting && slot.line.empty();
    if (is_first) waits = waits_until_one_is_closed(unique_id, rules_);
    if (is_first) slot.channels = start.series.channels;
    if (answer.is_bare)
      without_tables = make_error(Errc::too_large,
                                  "series \"{}\" is recorded without its masks, flat fields and tables ({} bytes): "
                                  "waiting starts use {} of the {} bytes of tables_bytes; increase it",
                                  unique_id, strip_tables(start.series), registry_.starts_bytes().held(),
                                  registry_.starts_bytes().max());
    const auto bytes = bytes_of(start.series);
    slots_.keep(unique_id, {std::move(start), bytes});
  };
  const auto step = resolve(lock, std::move(event), keep_start);
  if (step.answer.kind == series::Answer::Kind::accept) {
    start.series.generation = step.answer.generation;
    return step.open ? make(lock, *step.open, start) : take_part(lock, start);
  }
  if (step.answer.kind == series::Answer::Kind::reject) return refuse(lock, step, start.series);
  lock.unlock();
  if (waits) report_.note("start", *waits);
  if (without_tables) report_.note("start", *without_tables);
  return {};
}

Error Control::refuse(const std::string& name, const Step& step, Error why) {
  if (step.is_refused) role_->refused(name, why);
  return why;
}

Error Control::refuse(Lock& lock, const Step& step, const Series& start) {
  auto why = refusal_of(registry_, rules_, step.answer, start, slots_.file(start.unique_id).get());
  lock.unlock();
  return refuse(start.unique_id, step, std::move(why));
}

/// Opens the series on this thread.
Result<void> Control::make(Lock& lock, const series::Open& open, Start& start) {
  slots_.get(open.name).channels = start.series.channels;
  lock.unlock();
  auto found = role_->open(start.series, start.answered);
  auto settled = settle(open.name, std::move(found), &start);
  lock.lock();
  return settled;
}

/// What came of looking for the file of a series. `start`: the one that opens it, which waits on if there is none yet.
Result<void> Control::settle(const std::string& name, Found found, Start* start) {
  if (!found.waits && found.file.ok()) {
    auto& file = **found.file;
    file.element_starts().begin(file.series());
    if (start != nullptr) file.attach(start->acks);
    role_->begun(file);
  }
  Lock lock(mutex_);
  auto& slot = slots_.get(name);
  if (found.waits) {
    slot.channels = std::move(found.channels);
    const auto step = this->step(series::Waits{name}, [&](const series::Answer&) {
      slot.has_line = true;
      if (start == nullptr) return;
      const auto bytes = bytes_of(start->series);
      slot.line.push({std::move(*start), bytes});
    });
    if (step.answer.kind != series::Answer::Kind::reject) return {};
    drop_if_empty(name);
    return refuse(lock, step, start->series);
  }
  if (found.file.ok()) {
    slot.file = *found.file;
    counts_.any_begun = true;
    totals_.open(slot.file);
    (void)step(series::Opened{name, announced(slot.file->series())});
    return {};
  }
  auto why = found.file.error();
  const auto step = this->step(series::OpenFailed{name});
  drop_if_empty(name);
  lock.unlock();
  // The recorder's own trouble, whoever else is told of it; what a client asked for in vain is not.
  if (found.fault != Found::Fault::none) {
    if (why.code() != Errc::refused) ++(found.fault == Found::Fault::no_file ? counts_.unmade : counts_.failed);
    spdlog::error("series \"{}\" is not recorded: {}", name, why.message());
    why = why.with_context(fmt::format("series \"{}\"", name));
  }
  return refuse(name, step, std::move(why));
}

/// Another start of a series that is open.
Result<void> Control::take_part(Lock& lock, Start& start) {
  const auto file = slots_.file(start.series.unique_id);
  if (!file) return make_error(Errc::out_of_order, "series \"{}\" is closed already", start.series.unique_id);
  lock.unlock();
  auto taken = role_->take_part(*file, start.series, start.answered);
  if (taken.ok() && start.acks) {
    taken = file->spec().check_window(start.series.window_frames);
    if (taken.ok()) file->attach(start.acks);
    if (taken.ok() && !start.series.element) spdlog::info("{}: its source has reconnected", file->path());
  }
  lock.lock();
  return taken;
}

Result<std::shared_ptr<SeriesFile>> Control::take(Frame& frame) {
  series::FrameSeen event{.name = frame.series_unique_id,
                          .generation = frame.generation,
                          .number = value(frame.number),
                          .bytes = bytes_of(frame)};
  Lock lock(mutex_);
  // A client that has come back sends again what the file may have: closed() says what is safe.
  const bool is_closed = registry_.state(event.name) == series::State::closed;
  if (is_closed && frame.session != nullptr && role_->has_handed_over(event.name)) return std::shared_ptr<SeriesFile>();
  event.is_free = frame.session != nullptr && frame.session->waiting == 0;
  const auto step = resolve(lock, event, [&](const auto&) {
    slots_.keep(event.name, {std::move(frame), event.bytes});
  });
  if (step.answer.kind == series::Answer::Kind::accept) return slots_.file(event.name);
  if (step.answer.kind == series::Answer::Kind::wait) return std::shared_ptr<SeriesFile>();
  const bool is_closing = registry_.state(event.name) == series::State::closing;
  const auto closing = is_closing && frame.session != nullptr ? slots_.file(event.name) : nullptr;
  if (closing && closing->has(frame)) return std::shared_ptr<SeriesFile>();
  if (step.answer.why == series::Why::no_room) {
    // In its turn, ahead of the end.
    constexpr std::size_t dropped_max = 65536;
    if (++slots_.get(event.name).refused <= dropped_max) slots_.keep(event.name, {Lost{frame.number}, 0});
  }
  return refusal_of(registry_, rules_, step.answer, frame);
}

void Control::lose(const std::string& series_unique_id, Lost lost) {
  std::shared_ptr<SeriesFile> file;
  {
    Lock lock(mutex_);
    const auto step = resolve(
        lock, series::FrameSeen{.name = series_unique_id, .number = value(lost.number), .bytes = event_overhead_bytes},
        [&](const auto&) {
          slots_.keep(series_unique_id, {lost, event_overhead_bytes});
        });
    if (step.answer.kind == series::Answer::Kind::accept) file = slots_.file(series_unique_id);
  }
  if (file == nullptr) return;
  if (lost.damaged)
    file->damage(lost.number, lost.element);
  else
    file->drop(lost.number);
}

Result<void> Control::end(const SeriesEnd& end) {
  Lock lock(mutex_);
  const auto step = resolve(lock, ended(end, rules_.rank), [&](const auto&) { slots_.keep(end.unique_id, {end, 0}); });
  if (step.answer.kind != series::Answer::Kind::reject) return {};
  return make_error(Errc::out_of_order, "end of series \"{}\", which has not started", end.unique_id);
}

bool Control::expect(const std::string& series_unique_id, const Session& session) {
  std::shared_ptr<SeriesFile> file;
  {
    Lock lock(mutex_);
    const auto state = registry_.state(series_unique_id);
    if (state == series::State::closing || state == series::State::closed) return false;
    const auto* slot = slots_.find(series_unique_id);
    // There are no more sessions than connections, and none may be forgotten.
    if (slot != nullptr && slot->has_line) slots_.keep(series_unique_id, {session, 0});
    if (slot != nullptr && !slot->has_line) file = slot->file;
  }
  if (file) file->expect(session);
  return true;
}

std::optional<std::vector<std::string>> Control::channels(const std::string& series_unique_id) {
  Lock lock(mutex_);
  const auto step = resolve(lock, series::Sought{.name = series_unique_id, .rank = rules_.rank});
  if (step.answer.kind != series::Answer::Kind::accept) return std::nullopt;
  const auto& slot = slots_.get(series_unique_id);
  return slot.file ? slot.file->series().channels : slot.channels;
}

std::uint64_t Control::generation(const std::string& series_unique_id) const {
  Lock lock(mutex_);
  return registry_.generation(series_unique_id);
}

void Control::refuse_start(const std::string& series_unique_id, const Error& why) {
  const auto name = series_unique_id.empty() ? "a series without a name" : series_unique_id;
  Lock lock(mutex_);
  const auto step = this->step(series::StartRefused{name});
  lock.unlock();
  (void)refuse(name, step, why);
}

void Control::refuse_element(const std::string& series_unique_id, std::string_view source, const Error& why) {
  Lock lock(mutex_);
  const auto step = this->step(series::ElementRefused{series_unique_id, std::string(source)});
  lock.unlock();
  if (step.answer.kind == series::Answer::Kind::accept)
    report_.refused(series_unique_id, why);
  else
    (void)refuse(series_unique_id, step, why);
}

// Files.

std::shared_ptr<SeriesFile> Control::find(const std::string& series_unique_id) const {
  Lock lock(mutex_);
  return slots_.file(series_unique_id);
}

std::vector<std::shared_ptr<SeriesFile>> Control::files() const {
  std::vector<std::shared_ptr<SeriesFile>> open;
  Lock lock(mutex_);
  for (const auto& [name, slot] : slots_.all())
    if (slot.file && registry_.state(name) != series::State::closing) open.push_back(slot.file);
  return open;
}

std::optional<std::int64_t> Control::ends_in_ns(const std::string& series_unique_id) const {
  Lock lock(mutex_);
  return registry_.ends_in(series_unique_id);
}

void Control::tick() {
  errands_.reap();
  for (const auto& file : files()) {
    const series::Measured measured{file->series().unique_id, file->facts()};
    Lock lock(mutex_);
    (void)step(measured);
    if (registry_.have_all_ended(measured.name)) file->hurry();
  }
  Lock lock(mutex_);
  (void)step(series::Tick{});
}

void Control::close(const std::shared_ptr<SeriesFile>& file, const series::Close& why) {
  log_why_closed(*file, why.ended_by, rules_);
  role_->close(*file, why);
  totals_.close(file);
  {
    // Whoever hears that it is closed may begin another one of the same name.
    Lock lock(mutex_);
    slots_.get(why.name).file.reset();
    (void)step(series::Closed{why.name});
    drop_if_empty(why.name);
  }
  role_->report_end(*file, why);  // last: whoever reads the events may take its time
}

/// With mutex_ held.
void Control::drop_if_empty(const std::string& name) {
  if (registry_.state(name) != series::State::opening) slots_.drop_if_empty(name);
}

void Control::note_closed() {
  Lock lock(mutex_);
  ++closed_;
  changed_.notify_all();
}

bool Control::wait_for_closed(std::uint64_t series, std::chrono::milliseconds wait) {
  Lock lock(mutex_);
  return changed_.wait_for(lock, wait, [&] {
    // A refused series is no reason to end another one.
    return series > 0 && (closed_ >= series || (closed_ + registry_.refused() >= series && registry_.idle()));
  });
}

std::uint64_t Control::refused_series() const {
  Lock lock(mutex_);
  return registry_.refused() + registry_.refused_elements();
}

// What comes from other ranks.

Result<Found> Control::begin_elsewhere(Start start) {
  const auto unique_id = start.series.unique_id;
  Lock lock(mutex_);
  const auto step = this->step(started(start), [&](const series::Answer& answer) {
    start.series.generation = answer.generation;
    slots_.get(unique_id).channels = start.series.channels;
    if (answer.is_bare) (void)strip_tables(start.series);
    const auto bytes = bytes_of(start.series);
    slots_.keep(unique_id, {std::move(start), bytes});
  });
  using Kind = series::Answer::Kind;
  if (step.answer.kind == Kind::wait || step.answer.kind == Kind::wait_there)
    return Found{.waits = true, .channels = slots_.get(unique_id).channels};
  if (step.answer.kind == Kind::wait_until)
    return make_error(Errc::locked, "series \"{}\": another start of it is just refused", unique_id);
  if (step.answer.kind == Kind::reject) return refuse(lock, step, start.series);
  start.series.generation = step.answer.generation;
  PEN_TRY(step.open ? make(lock, *step.open, start) : take_part(lock, start));
  auto file = slots_.file(unique_id);
  if (!file) return make_error(Errc::out_of_order, "series \"{}\" is closed already", unique_id);
  return Found{.file = std::move(file)};
}

Result<Found> Control::find_elsewhere(const std::string& series_unique_id, unsigned rank, bool again,
                                      std::int64_t waited_ns) {
  Lock lock(mutex_);
  const auto step = this->step(
      series::Sought{.name = series_unique_id, .rank = rank, .again = again, .since = monotonic_ns() - waited_ns});
  using Kind = series::Answer::Kind;
  if (step.answer.kind == Kind::wait_there)
    return Found{.waits = true, .channels = slots_.get(series_unique_id).channels};
  if (step.answer.kind == Kind::accept) return Found{.file = slots_.file(series_unique_id)};
  return make_error(step.answer.kind == Kind::reject ? Errc::not_found : Errc::locked, "series \"{}\" has not started",
                    series_unique_id);
}

void Control::present(const series::Event& event) {
  Lock lock(mutex_);
  (void)step(event);
}

}  // namespace penstock::recorder
