/// Files that are made and closed in their time, and the messages between ranks.
#include <algorithm>
#include <bit>

#include "world.hpp"

namespace penstock::series::testing {

namespace {

/// What a rank asks the coordinator because of a start.
Started question_of(unsigned rank, Started start) {
  start.who.rank = rank;
  if (start.who.way == Way::tcp) start.who.source.clear();
  start.from_line = false;
  start.since = 0;
  return start;
}

}  // namespace

void World::obey(unsigned rank, const Open& open) {
  const auto name = index_of(open.name);
  auto& here = all_[rank];
  auto& file = here.files[name];
  if (open.join != (rank != 0)) fail("a rank that is not the coordinator makes a file", name);
  if (file.is != File::Is::nothing) fail("a file is opened that is not closed", name);
  const auto taken = std::count_if(here.files.begin(), here.files.end(),
                                   [](const auto& each) { return each.is != File::Is::nothing; });
  if (rank == 0 && static_cast<std::size_t>(taken) >= rules_.files_max) fail("more files are open than may be", name);
  file.is = File::Is::opening;
  file.generation = open.generation;
  file.sought = open.sought;
  if (!open.from_line) file.superseded = false;
  if (open.from_line && rank != 0) {
    if (!file.has_line || !open.sought) fail("a rank is called for nothing", name);
  } else if (open.from_line) {
    if (here.line.empty() || here.line.front() != open.name) fail("a start overtakes another one", name);
    std::erase(here.line, open.name);
  } else if (!here.line.empty()) {
    fail("a start overtakes those that wait", name);
  }
  if (rank == 0) {
    jobs_.push_back(
        {.what = Job::What::made, .at = now_ + some_time(second / 2), .rank = 0, .name = name, .fails = chance(8)});
    return;
  }
  Event question = Sought{.name = open.name, .rank = rank, .again = open.again};
  if (!open.sought) {
    question = question_of(rank, std::get<Started>(*current_));
  }
  jobs_.push_back({.what = Job::What::message,
                   .at = now_ + some_time(second / 10),
                   .rank = 0,
                   .name = name,
                   .asker = rank,
                   .asks = true,
                   .sender = presenting_.value_or(0),
                   .event = question});
}

void World::obey(unsigned rank, const Close& close) {
  const auto name = index_of(close.name);
  auto& file = all_[rank].files[name];
  if (file.is != File::Is::open) fail("a file is closed that is not open", name);
  if (file.has_line) fail("a file is closed before what waited while its start was waiting is in it", name);
  if (file.generation != close.generation) fail("another generation is closed", name);
  file.is = File::Is::closing;
  if (rank == 0) check_close(close);
  jobs_.push_back({.what = Job::What::closed, .at = now_ + some_time(second / 2), .rank = rank, .name = name});
}

void World::obey(unsigned rank, const Notify& notify) {
  using What = Notify::What;
  const auto name = index_of(notify.name);
  auto who = notify.who;
  who.rank = rank;
  if (who.way == Way::tcp) who.source.clear();
  switch (notify.what) {
    case What::ended: send(0, name, Ended{.name = notify.name, .who = who, .by_all = notify.by_all}); break;
    case What::refused:
    case What::early: break;
    case What::opened: send(notify.rank, name, Called{notify.name, notify.generation}); break;
    case What::caught_up: send(0, name, CaughtUp{notify.name, rank, notify.generation}); break;
    case What::in_vain: {
      if (notify.rank != rank) {
        send(notify.rank, name, Called{notify.name, notify.generation, true});
        break;
      }
      jobs_.push_back({.what = Job::What::feed, .at = now_, .rank = rank, .name = name});
      break;
    }
    case What::hand_over:
      all_[0].files[name].closing_at = now_;
      rank_died_ |= chance(2);
      if (rank_died_) break;
      send(notify.rank, name, CloseAsked{notify.name});
      break;
    case What::handed_over: send(0, name, HandedOver{notify.name, rank}); break;
    case What::closed: break;
    case What::probe:
      for (const auto& sender : senders_)
        if (sender.who.source == notify.connection && sender.connected && !sender.dead)
          jobs_.push_back({.what = Job::What::answer,
                           .at = now_ + some_time(second),
                           .rank = rank,
                           .name = name,
                           .event = Answered{notify.connection}});
      break;
    case What::cut:
      for (auto& sender : senders_) {
        if (sender.who.source != notify.connection) continue;
        if (!sender.dead) fail("a sender that is there is cut off", name);
      }
      break;
    case What::dropped: {
      auto& early = all_[rank].files[name].early;
      const std::vector<std::uint64_t> known(early.begin(), early.end());
      if (known != notify.numbers) fail("early frames are not those that came", name);
      early.clear();
      break;
    }
  }
}

/// Between two ranks messages arrive in order.
void World::send(unsigned to, std::uint8_t name, const Event& event) {
  auto at = now_ + some_time(second / 10);
  for (const auto& job : jobs_)
    if (job.what == Job::What::message && job.rank == to) at = std::max(at, job.at);
  jobs_.push_back({.what = Job::What::message, .at = at, .rank = to, .name = name, .event = event});
}

void World::happen(const Job& job) {
  auto& here = all_[job.rank];
  auto& file = here.files[job.name];
  switch (job.what) {
    case Job::What::answer: (void)step(job.rank, job.event); break;
    case Job::What::feed: feed(job.rank, job.name); break;
    case Job::What::closed: {
      file.is = File::Is::nothing;
      file.was_whole = job.rank == 0 && file.announced > 0 &&
                       static_cast<std::uint64_t>(std::popcount(file.frames)) == file.announced;
      file.is_known = true;
      file.begun.clear();
      file.ended.clear();
      if (job.rank != 0) send(0, job.name, HandedOver{name_of(job.name), job.rank});
      (void)step(job.rank, Closed{name_of(job.name)});
      break;
    }
    case Job::What::message: {
      if (job.takes_part) {
        const auto answer = step(0, job.event);
        if (answer.kind == Answer::Kind::wait) keep_for_rank(job.event, job.sender, answer);
        break;
      }
      if (job.asks) {
        reply(job.asker, job.sender, job.event, step(0, job.event));
        break;
      }
      if (const auto* part = std::get_if<HandedOver>(&job.event)) add(file.handed_over, part->rank);
      (void)step(job.rank, job.event);
      break;
    }
    case Job::What::made: {
      const auto name = name_of(job.name);
      if (job.waits) {
        keep_at_rank(job.rank, job.name);
        break;
      }
      if (job.fails) {
        file.is = File::Is::nothing;
        (void)step(job.rank, OpenFailed{name});
      } else {
        file.is = File::Is::open;
        ++(job.rank == 0 ? outcome_.opened : outcome_.joined);
        file.last_activity = now_;
        file.last_end = -1;
        file.frames = 0;
        file.announced = announced(job.name, {}).frames;
        file.hopeless = file.was_idle = file.commanded = file.was_whole = file.is_known = false;
        file.begun.clear();
        file.ended.clear();
        const auto early = file.early.size();
        if (job.rank == 0) file.handed_over.clear();
        (void)step(job.rank, Opened{.name = name, .what = announced(job.name, {})});
        if (early > 0 && !file.early.empty()) fail("early frames are forgotten", job.name);
      }
      // The first of its line is the start that opened it.
      if (!file.sought && !file.line.empty()) {
        const auto start = file.line.front();
        file.line.pop_front();
        if (file.is == File::Is::open) add(file.begun, start.sender);
        if (file.is == File::Is::open && file.superseded) end_by_start(start.sender, file);
        file.superseded = false;
        if (file.has_line) {
          const auto bytes = std::get<Started>(start.event).bytes;
          file.starts_kept -= bytes;
          (void)step(job.rank, Taken{.start = true, .bytes = bytes});
        }
      }
      if (file.has_line)
        jobs_.push_back(
            {.what = Job::What::feed, .at = now_ + some_time(second / 5), .rank = job.rank, .name = job.name});
      break;
    }
  }
}

/// The coordinator hears of it as of a start that begins a series.
void World::take_part(unsigned rank, std::size_t sender, Started start) {
  jobs_.push_back({.what = Job::What::message,
                   .at = now_ + some_time(second / 10),
                   .rank = 0,
                   .name = index_of(start.name),
                   .asker = rank,
                   .takes_part = true,
                   .sender = sender,
                   .event = question_of(rank, std::move(start))});
}

/// A start of another rank that waits in the coordinator's line.
void World::keep_for_rank(const Event& event, std::size_t sender, const Answer& answer) {
  const auto& start = std::get<Started>(event);
  auto& file = all_[0].files[index_of(start.name)];
  if (!file.has_line) all_[0].line.push_back(start.name);
  file.line.push_back({event, sender});
  file.has_line = true;
  file.generation = answer.generation;
  file.superseded = false;
  file.starts_kept += start.bytes;
}

/// The coordinator calls the rank when the file is there; until then what comes is kept behind the start, if one came.
void World::keep_at_rank(unsigned rank, std::uint8_t name) {
  auto& file = all_[rank].files[name];
  file.is = File::Is::nothing;
  const bool has_start = !file.sought && !file.line.empty();
  const auto bytes = has_start ? std::get<Started>(file.line.front().event).bytes : 0;
  // It may be called in the same step.
  file.has_line = true;
  file.starts_kept += bytes;
  const auto answer = step(rank, Waits{name_of(name)});
  if (answer.kind == Answer::Kind::wait) {
    ++outcome_.waited;
    return;
  }
  if (has_start) file.line.pop_front();
  file.starts_kept -= bytes;
  file.has_line = false;
}

/// One of those that waited behind the start of a series whose file is made, or could not be.
void World::feed(unsigned rank, std::uint8_t name) {
  auto& file = all_[rank].files[name];
  if (file.line.empty()) {
    file.has_line = false;
    (void)step(rank, LineEmpty{name_of(name)});
    return;
  }
  auto kept = std::move(file.line.front());
  file.line.pop_front();
  Time since = now_;
  std::visit(
      [&](auto& what) {
        if constexpr (requires { what.from_line; }) {
          what.from_line = true;
          what.since = since;
        }
      },
      kept.event);
  if (const auto* start = std::get_if<Started>(&kept.event)) {
    file.starts_kept -= start->bytes;
    (void)step(rank, Taken{.start = true, .bytes = start->bytes});
  } else if (const auto* frame = std::get_if<FrameSeen>(&kept.event)) {
    file.frames_kept -= frame->bytes;
    (void)step(rank, Taken{.start = false, .bytes = frame->bytes});
  }
  if (file.is == File::Is::open) {
    // An answer to ask again comes to nobody who could: a start of an element whose rival is probed waits here.
    const auto answer = step(rank, kept.event);
    if (answer.kind != Answer::Kind::wait_until) taken(kept.sender, rank, kept.event, answer);
  }
  jobs_.push_back({.what = Job::What::feed, .at = now_ + some_time(second / 5), .rank = rank, .name = name});
}

/// The coordinator's answer to another rank that wants to take part.
void World::reply(unsigned asker, std::size_t sender, const Event& question, const Answer& answer) {
  const auto* start = std::get_if<Started>(&question);
  const auto* sought = std::get_if<Sought>(&question);
  const auto name = index_of(start != nullptr ? start->name : sought->name);
  const auto wait = [&](Event again, Time until) {
    std::visit(
        [&](auto& what) {
          if constexpr (requires { what.since; }) what.since = what.since == 0 ? now_ : what.since;
        },
        again);
    blocked_.push_back({.whose = Blocked::Whose::rank,
                        .asker = asker,
                        .asks_for = sender,
                        .event = again,
                        .first = now_,
                        .until = until});
  };
  if (answer.kind == Answer::Kind::wait_until) return wait(question, answer.until);
  const bool accepted = answer.kind == Answer::Kind::accept;
  if (accepted && answer.state == State::opening)
    return wait(Sought{.name = name_of(name), .rank = asker}, now_ + second);
  auto& file = all_[0].files[name];
  if (answer.kind == Answer::Kind::wait) keep_for_rank(question, sender, answer);
  const bool waits = answer.kind == Answer::Kind::wait || answer.kind == Answer::Kind::wait_there;
  const bool was_called = all_[asker].files[name].has_line;
  if (was_called && answer.kind == Answer::Kind::reject && !stopping_)
    fail("a series is closed before what waited for it at a rank is in it", name);
  if (accepted && file.is != File::Is::open) fail("a rank joins a series that is not open", name);
  if (accepted) {
    add(file.parts, asker);
    // A part that it has handed over was of the series before, or of its last attempt.
    std::erase(file.handed_over, asker);
  }
  auto at = now_ + some_time(second / 5);
  jobs_.push_back(
      {.what = Job::What::made, .at = at, .rank = asker, .name = name, .fails = !accepted && !waits, .waits = waits});
}

}  // namespace penstock::series::testing
