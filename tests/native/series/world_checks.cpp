/// What the world knows better than the registry: whether a series may be closed.
#include <algorithm>
#include <bit>

#include "world.hpp"

namespace penstock::series::testing {

Facts World::facts(const File& file) const {
  Facts facts;
  facts.last_activity = file.last_activity;
  facts.any_frame = file.frames != 0;
  facts.whole = file.announced > 0 && static_cast<std::uint64_t>(std::popcount(file.frames)) >= file.announced;
  facts.busy = now_ - file.last_activity < second / 20;
  facts.abandoned = ranks_ == 1 && file.frames == 0 && !file.begun.empty() &&
                    std::all_of(file.begun.begin(), file.begun.end(), [&](std::size_t index) {
                      const auto& sender = senders_[index];
                      const auto name = static_cast<std::size_t>(&file - all_[0].files.data());
                      return sender.who.way == Way::tcp &&
                             (!sender.connected || sender.dead || sender.series[name].connection != sender.connections);
                    });
  facts.hopeless = file.hopeless;
  return facts;
}

void World::measure(bool all) {
  for (std::uint8_t name = 0; name < names_max; ++name) {
    auto& file = all_[0].files[name];
    if (file.is != File::Is::open || (!all && !chance(50))) continue;
    if (!all && chance(1)) file.hopeless = true;
    (void)step(0, Measured{.name = name_of(name), .facts = facts(file)});
  }
  if (!all) return;
  for (auto& file : all_[0].files) file.was_idle |= now_ - file.last_activity >= rules_.timeouts.idle;
  for (unsigned rank = 0; rank < ranks_; ++rank) (void)step(rank, Tick{});
}

bool World::all_have_ended(std::uint8_t name, const File& file) const {
  const auto is_gone = [&](std::size_t index) {
    const auto& sender = senders_[index];
    return sender.who.way == Way::tcp &&
           (!sender.connected || sender.dead || sender.series[name].connection != sender.connections);
  };
  std::vector<std::uint32_t> elements;
  for (const auto index : file.begun) {
    if (!holds(file.ended, index) && senders_[index].who.way != Way::bound && !is_gone(index)) return false;
    if (is_gone(index)) add(elements, *senders_[index].who.element);
  }
  for (const auto index : file.ended) add(elements, *senders_[index].who.element);
  return elements_[name] == 1 || elements.size() == elements_[name];
}

bool World::can_more_come(const File& file) const {
  const bool one_ordered = rules_.sources == 1 && rules_.tcp + rules_.pulled == 1;
  const auto has_ended = [&](const auto& sender) {
    return holds(file.ended, static_cast<std::size_t>(&sender - senders_.data()));
  };
  // An open-ended series ends with its end, if that came in order: nobody else is known to have more.
  std::size_t pulled_ended = 0;
  for (const auto index : file.ended) pulled_ended += senders_[index].who.way == Way::pulled ? 1 : 0;
  if (file.announced == 0 && (one_ordered || (rules_.pulled > 0 && pulled_ended == rules_.pulled))) return false;
  if (rules_.tcp == rules_.sources) {
    for (const auto& sender : senders_) {
      const auto index = static_cast<std::size_t>(&sender - senders_.data());
      if (sender.connected && !sender.dead && !has_ended(sender)) return true;
      if (sender.dead && holds(file.begun, index) && !has_ended(sender) && sender.next < sender.ops.size() &&
          sender.ops[sender.next - 1].what == Do::lose)
        return true;
    }
    return false;
  }
  if (rules_.pulled != rules_.sources) return true;
  return !std::all_of(senders_.begin(), senders_.end(), has_ended);
}

void World::check_close(const Close& close) {
  const auto name = index_of(close.name);
  auto& file = all_[0].files[name];
  for (const auto rank : file.parts)
    if (!holds(file.handed_over, rank) && now_ < file.closing_at + 600 * second)
      fail("a file is closed before a rank has handed over", name);
  file.parts.clear();
  if (ranks_ > 1 || stopping_) return;
  const auto state = facts(file);
  const auto quiet = now_ - std::max(file.last_activity, file.last_end);
  const auto& timeouts = rules_.timeouts;
  switch (close.ended_by) {
    case EndedBy::message:
    case EndedBy::new_start:
      if (file.last_end < 0) fail("a series ends by a message that did not come", name);
      if (state.whole || quiet >= timeouts.idle || file.was_idle) break;
      if (!all_have_ended(name, file)) fail("a series is closed before all who take part have ended", name);
      if (quiet < timeouts.end && file.could_follow) fail("a series is closed while more can come", name);
      break;
    case EndedBy::count:
      if (!state.whole || now_ - file.last_activity < timeouts.end) fail("a series is not complete", name);
      break;
    case EndedBy::silence:
      if (!state.abandoned && (timeouts.after == 0 || now_ - file.last_activity < timeouts.after))
        fail("a series was not silent", name);
      break;
    case EndedBy::room:
      if (!file.was_idle) fail("a series that is not idle makes room", name);
      break;
    case EndedBy::command:
      if (!file.commanded) fail("nobody commanded the end", name);
      break;
    case EndedBy::stop: fail("a series is stopped, and the recorder is not", name); break;
    case EndedBy::failure:
      if (!file.hopeless) fail("a series fails without a reason", name);
      break;
  }
}

}  // namespace penstock::series::testing
