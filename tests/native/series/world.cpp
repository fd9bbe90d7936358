#include "world.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>

namespace penstock::series::testing {
namespace {

constexpr Time patience_max = 700 * second;
constexpr std::uint64_t frame_bytes = 10;
constexpr std::size_t turns_max = 40000;

}  // namespace

World::World(std::uint64_t seed, bool prints) : random_(key_of({seed, 0x5e71e5})), prints_(prints) { draw(); }

void World::fail(const std::string& what) {
  if (outcome_.violation.empty()) outcome_.violation = what;
  if (prints_) std::printf("!! %s\n", what.c_str());
}

// What is drawn.

void World::draw() {
  ranks_ = chance(70) ? 1 : 2 + static_cast<unsigned>(below(2));
  const auto kind = below(6);
  const std::size_t pulled = kind == 1 || kind == 3 ? 1 : (kind == 2 || kind == 5 ? 2 : 0);
  const std::size_t tcp = kind == 0 || kind == 3 || kind == 5 ? 1 : 0;
  const std::size_t bound = kind == 4 ? 1 : 0;
  rules_.ranks = ranks_;
  rules_.sources = pulled + tcp + bound;
  rules_.tcp = tcp;
  rules_.pulled = pulled;
  rules_.bound = bound;
  rules_.holds_back = chance(70);
  rules_.files_max = 1 + below(2);
  rules_.starts_max = 1 + below(3);
  rules_.starts_bytes_max = 60;
  rules_.frames_bytes_max = 30;
  rules_.timeouts.end = some_time(3 * second);
  rules_.timeouts.idle = rules_.timeouts.end + some_time(6 * second);
  rules_.timeouts.after = chance(25) ? 12 * second : 0;
  for (std::size_t name = 0; name < names_max; ++name) {
    open_ended_[name] = chance(40);
    elements_[name] = chance(25) ? 2 : 1;
  }
  for (std::size_t i = 0; i < pulled; ++i)
    senders_.push_back({.who = {.way = Way::pulled, .source = "p" + std::to_string(i)}});
  const auto others = (tcp > 0 ? 1 + below(3) : 0) + (bound > 0 ? 1 + below(2) : 0);
  for (std::size_t i = 0; i < others; ++i) {
    Sender sender{.who = {.way = tcp > 0 ? Way::tcp : Way::bound, .rank = static_cast<unsigned>(below(ranks_))}};
    if (tcp > 0 && chance(70)) sender.who.client = "client" + std::to_string(i);
    if (bound > 0) sender.who.source = "b";
    senders_.push_back(std::move(sender));
  }
  for (std::size_t i = 0; i < senders_.size(); ++i) {
    senders_[i].who.element = static_cast<std::uint32_t>(chance(15) ? 0 : i % 2);
    senders_[i].at = now_ + some_time(2 * second);
    draw_ops(senders_[i]);
  }
  for (unsigned rank = 0; rank < ranks_; ++rank) {
    auto rules = rules_;
    rules.rank = rank;
    all_[rank].registry = std::make_unique<Registry>(rules);
  }
}

void World::draw_ops(Sender& sender) {
  const auto index = static_cast<std::uint32_t>(&sender - senders_.data());
  std::uint32_t number = index * 8;
  const auto series = 1 + below(2);
  std::array<bool, names_max> before{};
  const bool is_tcp = sender.who.way == Way::tcp;
  for (std::uint64_t i = 0; i < series; ++i) {
    const auto name = static_cast<std::uint8_t>(below(2 + below(2)));
    const auto op = [&](Do what) { return Op{.what = what, .name = name}; };
    const auto frames = [&](std::uint64_t count) {
      for (std::uint64_t k = 0; k < count && number < index * 8 + 8; ++k) {
        auto frame = op(Do::frame);
        frame.number = number++;
        planned_[name] |= std::uint64_t{1} << frame.number;
        sender.ops.push_back(frame);
      }
    };
    if (chance(8)) frames(1);
    if (chance(6)) sender.ops.push_back(op(Do::end));
    if (chance(93)) {
      auto start = op(Do::start);
      start.another = before[name];
      start.contradicts = chance(3);
      sender.ops.push_back(start);
      if (chance(6)) sender.ops.push_back(start);
      before[name] = true;
    }
    frames(below(4));
    if (is_tcp && chance(12)) {
      sender.ops.push_back(op(Do::lose));
      if (chance(70)) {
        auto start = op(Do::start);
        start.resume = true;
        sender.ops.push_back(start);
        frames(below(2));
      }
    }
    if (chance(10)) sender.ops.push_back(op(Do::pause));
    if (chance(82)) sender.ops.push_back(op(Do::end));
    if (chance(5)) sender.ops.push_back(op(Do::end));
    if (is_tcp && chance(15)) sender.ops.push_back(op(Do::depart));
  }
}

Announced World::announced(std::uint8_t name, const Op& op) const {
  return {.id = 1,
          .frames = open_ended_[name] ? 0 : static_cast<std::uint64_t>(std::popcount(planned_[name])),
          .elements = elements_[name],
          .form = op.contradicts ? 2u : 1u};
}

// Steps.

Answer World::step(unsigned rank, const Event& event) {
  auto& registry = *all_[rank].registry;
  ++outcome_.steps;
  const auto actions = registry.step(now_, event);
  const auto& answer = actions.answer;
  if (prints_) {
    std::string about;
    std::visit(
        [&](const auto& what) {
          if constexpr (requires { what.name; }) about = what.name;
          if constexpr (requires { what.connection; }) about = what.connection;
          if constexpr (requires { what.who; }) about += " of " + what.who.source;
        },
        event);
    std::printf("%9.3f rank %u event %zu %s: answer %d why %d, %zu commands\n", static_cast<double>(now_) * 1e-9, rank,
                event.index(), about.c_str(), static_cast<int>(answer.kind), static_cast<int>(answer.why),
                actions.commands.size());
  }
  if (answer.kind == Answer::Kind::wait_until && (answer.until <= now_ || answer.until > now_ + patience_max))
    fail("a request waits without a deadline");
  if (auto problem = registry.audit(); !problem.empty()) fail("audit: " + problem);
  if (const auto* start = std::get_if<Started>(&event); start != nullptr) {
    const auto& file = all_[rank].files[index_of(start->name)];
    const bool takes_file =
        answer.kind == Answer::Kind::wait || (answer.kind == Answer::Kind::accept && answer.state == State::opening);
    if (ranks_ == 1 && takes_file && file.was_whole && start->who.way == Way::pulled && start->before == 0 &&
        !start->from_line && file.is == File::Is::nothing && !file.has_line)
      fail("a late start of a complete series makes another file", index_of(start->name));
  }
  // What waits is kept before anything is done: its turn may come in the same step.
  if (answer.kind == Answer::Kind::wait && presenting_) keep(rank, *presenting_, event, answer);
  current_ = &event;
  for (const auto& command : actions.commands) obey(rank, command);
  return answer;
}

void World::obey(unsigned rank, const Command& command) {
  std::visit([&](const auto& what) { obey(rank, what); }, command);
}

// Senders.

void World::present(std::size_t sender, const Event& event) {
  const auto rank = senders_[sender].who.rank;
  presenting_ = sender;
  const auto answer = step(rank, event);
  presenting_.reset();
  if (answer.kind == Answer::Kind::wait_until) {
    blocked_.push_back({.sender = sender, .event = event, .first = now_, .until = answer.until});
    std::visit(
        [&](auto& what) {
          if constexpr (requires { what.since; }) what.since = now_;
        },
        blocked_.back().event);
    return;
  }
  taken(sender, rank, event, answer);
}

void World::taken(std::size_t index, unsigned rank, const Event& event, const Answer& answer) {
  auto& sender = senders_[index];
  if (answer.kind == Answer::Kind::wait) return;
  const bool accepted = answer.kind == Answer::Kind::accept;
  if (answer.kind == Answer::Kind::reject) ++outcome_.refused;
  if (const auto* start = std::get_if<Started>(&event)) {
    const auto name = index_of(start->name);
    auto& file = all_[rank].files[name];
    if (accepted || answer.why == Why::has_started) end_others(index, name);
    if (!accepted) return;
    // One that waited may be of a connection that is gone.
    const auto connection =
        start->who.source == sender.who.source ? sender.connections : sender.series[name].connection;
    sender.series[name] = {.generation = answer.generation, .begun = true, .connection = connection};
    if (file.is == File::Is::opening && !start->from_line) {
      // The caller makes the file; the start counts when that is there.
      file.line.push_front({event, index});
      return;
    }
    if (file.is != File::Is::open) fail("a start takes part in a series that is not open", name);
    for (const auto other : file.begun) {
      const auto& rival = senders_[other];
      const bool is_there = rival.who.way != Way::tcp ||
                            (rival.connected && !rival.dead && rival.series[name].connection == rival.connections);
      const bool same_client = !rival.who.client.empty() && rival.who.client == sender.who.client;
      if (other != index && ranks_ == 1 && elements_[name] > 1 && rival.who.element == sender.who.element && is_there &&
          !same_client && rival.who.source != sender.who.source)
        fail("an element has two senders", name);
    }
    add(file.begun, index);
    if (rank != 0) take_part(rank, index, *start);
    // Another pushed it, and has ended: one that is late is waited for.
    return;
  }
  if (const auto* frame = std::get_if<FrameSeen>(&event)) {
    const auto name = index_of(frame->name);
    auto& file = all_[rank].files[name];
    if (!accepted) {
      if (answer.why == Why::not_started && !frame->from_line && file.is == File::Is::nothing && !file.is_known)
        file.early.push_back(static_cast<std::uint32_t>(frame->number));
      return;
    }
    if (file.is != File::Is::open) return fail("a frame is accepted into a series that is not open", name);
    if (frame->generation != 0 && frame->generation != file.generation)
      fail("a frame goes into another series of its name", name);
    for (auto* into : {&file, &all_[0].files[name]}) {
      into->last_activity = now_;
      into->frames |= std::uint64_t{1} << frame->number;
    }
    return;
  }
  if (const auto* end = std::get_if<Ended>(&event); end != nullptr && accepted) {
    const auto name = index_of(end->name);
    sender.series[name].ended = true;
    auto& file = all_[0].files[name];
    if (ranks_ > 1 || file.is != File::Is::open) return;
    if (end->generation != 0 && end->generation != file.generation) return;
    if (file.last_end < 0) file.last_end = now_;
    add(file.ended, index);
    file.could_follow = can_more_come(file);
  }
}

/// An endpoint sends one series after the other: what it begins ends what it had begun.
void World::end_others(std::size_t index, std::uint8_t name) {
  if (ranks_ > 1) return;  // the coordinator hears of it later
  for (std::uint8_t other = 0; other < names_max; ++other) {
    auto& before = all_[0].files[other];
    if (other == name || senders_[index].who.way != Way::pulled) continue;
    if ((before.is == File::Is::opening || before.has_line) && before.is != File::Is::open && !before.line.empty() &&
        before.line.front().sender == index)
      before.superseded = true;
    if (holds(before.begun, index) && !holds(before.ended, index)) end_by_start(index, before);
  }
}

void World::end_by_start(std::size_t index, File& file) {
  if (holds(file.ended, index)) return;
  if (file.last_end < 0) file.last_end = now_;
  file.ended.push_back(index);
  file.could_follow = true;
}

/// It waits behind its series' start.
void World::keep(unsigned rank, std::size_t sender, const Event& event, const Answer& answer) {
  auto& here = all_[rank];
  std::uint8_t name = 0;
  if (const auto* start = std::get_if<Started>(&event)) {
    name = index_of(start->name);
    auto& file = here.files[name];
    auto& known = senders_[sender].series[name];
    known = {.generation = answer.generation, .begun = true, .connection = known.connection};
    if (!file.has_line && start->who.source == senders_[sender].who.source)
      known.connection = senders_[sender].connections;
    if (!file.has_line) {
      here.line.push_back(start->name);
      end_others(sender, name);
      ++outcome_.waited;
      file.generation = answer.generation;
      file.superseded = false;
    }
    file.starts_kept += start->bytes;
  } else if (const auto* frame = std::get_if<FrameSeen>(&event)) {
    name = index_of(frame->name);
    here.files[name].frames_kept += frame->bytes;
  } else if (const auto* end = std::get_if<Ended>(&event)) {
    name = index_of(end->name);
    senders_[sender].series[name].ended = true;
  }
  auto& file = here.files[name];
  file.has_line = true;
  file.line.push_back({event, sender});
  std::uint64_t starts = 0, frames = 0;
  for (const auto& each : here.files) {
    starts += each.starts_kept;
    frames += each.frames_kept;
  }
  if (starts > rules_.starts_bytes_max || frames > rules_.frames_bytes_max) fail("too many bytes wait", name);
  if (here.line.size() > rules_.starts_max) fail("too many starts wait", name);
}

void World::ask_again() {
  if (blocked_.empty()) return;
  for (std::size_t i = 0; i < blocked_.size(); ++i) {
    auto blocked = blocked_[i];
    const bool of_sender = blocked.whose == Blocked::Whose::sender;
    const auto rank = of_sender ? senders_[blocked.sender].who.rank : 0;
    if (of_sender) presenting_ = blocked.sender;
    const auto answer = step(rank, blocked.event);
    presenting_.reset();
    if (answer.kind == Answer::Kind::wait_until) {
      blocked_[i].until = answer.until;
      continue;
    }
    blocked_[i].resolved = true;
    if (of_sender)
      taken(blocked.sender, rank, blocked.event, answer);
    else
      reply(blocked.asker, blocked.asks_for, blocked.event, answer);
  }
  std::erase_if(blocked_, [](const auto& each) { return each.resolved; });
}

void World::act(Sender& sender, std::size_t index) {
  const auto op = sender.ops[sender.next++];
  sender.at = now_ + (op.what == Do::pause ? some_time(3 * rules_.timeouts.idle) : some_time(second));
  if (op.what == Do::pause) return;
  // An endpoint deals its messages to the ranks that pull from it.
  if (sender.who.way == Way::pulled && ranks_ > 1) sender.who.rank = static_cast<unsigned>(below(ranks_));
  if (op.what == Do::lose || op.what == Do::depart) return lose(sender, op.what == Do::depart);
  if (sender.who.way == Way::tcp && !sender.connected) {
    sender.who.source = "c" + std::to_string(index) + "." + std::to_string(sender.connections++);
    sender.connected = true;
    sender.dead = false;
    (void)step(sender.who.rank, Arrived{sender.who.source});
  }
  auto who = sender.who;
  if (elements_[op.name] == 1) who.element.reset();
  auto& known = sender.series[op.name];
  const bool tells_apart = ranks_ == 1 && who.way != Way::tcp;
  const auto name = name_of(op.name);
  switch (op.what) {
    case Do::start: {
      Started start{
          .name = name, .who = who, .what = announced(op.name, op), .resume = op.resume, .bytes = 10 + below(40)};
      if (op.another && who.way == Way::pulled && known.begun && ranks_ == 1) {
        present(
            index,
            Ended{.name = name, .who = who, .generation = known.generation, .by_start = !known.ended, .anew = true});
        start.before = known.generation;
      }
      if (blocked_.empty() || blocked_.back().sender != index || blocked_.back().whose != Blocked::Whose::sender)
        present(index, start);
      break;
    }
    case Do::frame:
      present(index, FrameSeen{.name = name,
                               .generation = tells_apart ? known.generation : 0,
                               .number = op.number,
                               .bytes = frame_bytes});
      break;
    case Do::end:
      present(index, Ended{.name = name, .who = who, .generation = tells_apart ? known.generation : 0});
      break;
    default: break;
  }
}

/// Its connection is gone. Where its client said so the recorder knows at once.
void World::lose(Sender& sender, bool says_bye) {
  if (!sender.connected) return;
  sender.connected = false;
  sender.dead = true;
  const auto index = static_cast<std::size_t>(&sender - senders_.data());
  for (std::uint8_t name = 0; says_bye && name < names_max; ++name) {
    auto& file = all_[0].files[name];
    // What waits at another rank is presented when it is gone: then it is one that was lost.
    if (sender.who.rank != 0 && all_[sender.who.rank].files[name].has_line) continue;
    if (file.is != File::Is::open || !holds(file.begun, index) || holds(file.ended, index) ||
        sender.series[name].connection != sender.connections)
      continue;
    if (elements_[name] > 1 && file.last_end < 0) file.last_end = now_;
    file.ended.push_back(index);
    file.could_follow = can_more_come(file);
  }
  if (says_bye)
    (void)step(sender.who.rank, Departed{sender.who.source});
  else
    jobs_.push_back({.what = Job::What::answer,
                     .at = now_ + some_time(chance(50) ? second / 10 : 4 * second),
                     .rank = sender.who.rank,
                     .event = SenderLost{sender.who.source}});
}

// Time.

Time World::next_time() const {
  auto next = now_ + 1000 * second;
  for (std::size_t i = 0; i < senders_.size(); ++i) {
    const auto& sender = senders_[i];
    if (stopping_ || sender.next >= sender.ops.size()) continue;
    const bool is_blocked = std::any_of(blocked_.begin(), blocked_.end(), [&](const auto& blocked) {
      return blocked.whose == Blocked::Whose::sender && blocked.sender == i;
    });
    if (!is_blocked) next = std::min(next, sender.at);
  }
  for (const auto& job : jobs_) next = std::min(next, job.at);
  for (const auto& blocked : blocked_) next = std::min(next, blocked.until);
  for (unsigned rank = 0; rank < ranks_; ++rank)
    if (const auto wake = all_[rank].registry->wake_at()) next = std::min(next, std::max(*wake, now_ + second / 20));
  return std::max(next, now_);
}

/// Lets time pass up to `until`. True if nothing is left that could happen.
bool World::advance(Time until) {
  for (std::size_t turn = 0; turn < turns_max && outcome_.violation.empty(); ++turn) {
    const auto next = next_time();
    if (next >= now_ + 1000 * second) return true;
    if (next > until) {
      now_ = until;
      return false;
    }
    now_ = next;
    bool done = false;
    for (std::size_t i = 0; i < jobs_.size() && !done; ++i) {
      if (jobs_[i].at > now_) continue;
      const auto job = jobs_[i];
      jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
      happen(job);
      done = true;
    }
    for (std::size_t i = 0; i < senders_.size() && !done && !stopping_; ++i) {
      auto& sender = senders_[i];
      const bool is_blocked = std::any_of(blocked_.begin(), blocked_.end(), [&](const auto& blocked) {
        return blocked.whose == Blocked::Whose::sender && blocked.sender == i;
      });
      if (is_blocked || sender.next >= sender.ops.size() || sender.at > now_) continue;
      act(sender, i);
      done = true;
    }
    ask_again();
    measure(!done);
  }
  if (outcome_.violation.empty()) fail("time does not go on");
  return true;
}

void World::finish() {
  // Without new messages nothing may be left that waits for a file, or is being made or closed.
  if (!stopping_) {
    // The recorder measures its files all the time; here that is done when nothing else happens.
    (void)advance(now_ + patience_max);
    for (int look = 0; look < 3; ++look) {
      measure(true);
      (void)advance(now_ + patience_max);
    }
    for (unsigned rank = 0; rank < ranks_ && !rank_died_ && outcome_.violation.empty(); ++rank)
      for (std::uint8_t name = 0; name < names_max; ++name) {
        const auto& file = all_[rank].files[name];
        if (file.is == File::Is::opening || file.is == File::Is::closing || file.has_line)
          fail("a name is stuck", name);
        if (rank == 0 && file.is == File::Is::open && file.last_end >= 0)
          fail("a series that has ended stays open", name);
        if (rank == 0 && file.is == File::Is::open && facts(file).abandoned)
          fail("an abandoned series stays open", name);
        if (rank == 0 && file.is == File::Is::open && facts(file).whole) fail("a complete series stays open", name);
      }
    if (!blocked_.empty() && !rank_died_) fail("a request is never answered");
  }
  stopping_ = true;
  for (unsigned rank = 0; rank < ranks_; ++rank) (void)step(rank, StopWaiting{});
  (void)step(0, Stop{});
  const auto stopped_at = now_;
  ask_again();
  while (outcome_.violation.empty() && !all_[0].registry->idle() && now_ < stopped_at + 2 * patience_max)
    if (advance(now_ + 5 * second)) break;
  for (unsigned rank = 1; rank < ranks_; ++rank) (void)step(rank, Stop{});
  ask_again();
  (void)advance(now_ + patience_max);
  for (unsigned rank = 0; rank < ranks_ && outcome_.violation.empty(); ++rank) {
    if (!all_[rank].registry->idle()) fail("a series is still open after the stop");
    for (std::uint8_t name = 0; name < names_max; ++name)
      if (all_[rank].files[name].is != File::Is::nothing || all_[rank].files[name].has_line)
        fail("a file is not closed by the stop", name);
  }
  if (!blocked_.empty()) fail("a request is not answered after the stop");
}

Outcome World::run() {
  // The stop may come at any moment, and a user's command, too.
  const bool stops_early = chance(30);
  const auto stop_at = now_ + some_time(12 * second);
  if (chance(8)) {
    (void)advance(now_ + some_time(6 * second));
    for (auto& file : all_[0].files) {
      file.commanded = true;
      if (file.is == File::Is::open && file.last_end < 0) file.last_end = now_;
    }
    (void)step(0, EndAll{});
  }
  if (stops_early) {
    (void)advance(stop_at);
    stopping_ = true;
  }
  finish();
  return outcome_;
}

}  // namespace penstock::series::testing
