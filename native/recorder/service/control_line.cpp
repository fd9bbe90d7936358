/// Files whose start had to wait, and what came behind it. Each is opened on a thread of its own, and what waits behind
/// one start holds up no other.
#include <spdlog/spdlog.h>

#include <utility>

#include "recorder/service/control.hpp"
#include "recorder/service/facts.hpp"

namespace penstock::recorder {
namespace {

constexpr auto source_of_waiting = "a waiting start message";

/// Counts frames.
void refuse_event(const Kept& kept, const Error& why, std::uint64_t& frames) {
  if (std::holds_alternative<Frame>(kept.event)) ++frames;
  if (const auto* start = std::get_if<Start>(&kept.event); start != nullptr && start->acks)
    start->acks->refused(start->series.unique_id, start->series.element, why.message());
}

bool is_start(const Kept& kept) { return std::holds_alternative<Start>(kept.event); }

}  // namespace

/// The turn of a series has come. Its start is the first of the line, unless that waited at another rank.
void Control::open_waiting(const series::Open& open) {
  const auto& name = open.name;
  Result<void> begun;
  if (open.sought) {
    auto found = role_->seek(name, false);
    if (found.waits) return (void)settle(name, std::move(found), nullptr);
    begun = settle(name, std::move(found), nullptr);
  } else {
    auto kept = *next_of_line(name);
    auto& start = std::get<Start>(kept.event);
    begun = settle(name, role_->open(start.series, start.answered), &start);
    if (!begun.ok() && start.acks) start.acks->closed(name, begun.error().message());
    present(series::Taken{true, kept.bytes});
  }
  present_line(name, begun);
}

/// Everything that waited, and what comes meanwhile.
void Control::present_line(const std::string& name, const Result<void>& begun) {
  std::uint64_t frames = 0;
  while (auto kept = next_of_line(name)) {
    const series::Taken taken{is_start(*kept), kept->bytes};
    const auto session = kept->session();
    const auto* frame = std::get_if<Frame>(&kept->event);
    const auto message = frame == nullptr ? 0 : frame->message;
    if (!begun.ok()) {
      refuse_event(*kept, begun.error(), frames);
    } else if (auto presented = present(name, std::move(*kept)); !presented.ok()) {
      report_.reject(source_of_waiting, presented.error());
      if (message != 0 && session != nullptr) session->rejected(message, presented.error());
    }
    Line::done(session);
    if (taken.bytes > 0) present(taken);
  }
  if (frames > 0)
    report_.reject(source_of_waiting,
                   make_error(Errc::refused, "{} images belong to series \"{}\", whose start was rejected: {}", frames,
                              name, begun.error().message()));
}

/// Behind the last one nothing waits any more.
std::optional<Kept> Control::next_of_line(const std::string& name) {
  Lock lock(mutex_);
  if (auto next = slots_.next(name)) return next;
  auto& slot = slots_.get(name);
  if (const auto refused = std::exchange(slot.refused, 0); refused > 0)
    spdlog::warn("series \"{}\": {} messages were dropped while its start was waiting, for lack of memory", name,
                 refused);
  slot.has_line = false;
  (void)step(series::LineEmpty{name});
  drop_if_empty(name);
  return std::nullopt;
}

Result<void> Control::present(const std::string& name, Kept kept) {
  if (auto* start = std::get_if<Start>(&kept.event)) {
    auto event = started(*start);
    event.from_line = true;
    Lock lock(mutex_);
    const auto step = resolve(lock, std::move(event));
    Result<void> taken;
    if (step.answer.kind == series::Answer::Kind::accept) {
      taken = take_part(lock, *start);
      lock.unlock();
    } else {
      taken = refuse(lock, step, start->series);
    }
    // It was acknowledged when it came.
    if (!taken.ok() && start->acks) start->acks->refused(name, start->series.element, taken.error().message());
    return taken;
  }
  if (auto* frame = std::get_if<Frame>(&kept.event)) {
    if (frame->session != nullptr && frame->session->is_refused())
      return make_error(Errc::refused, "image {} of series \"{}\" comes from a client whose start was rejected",
                        value(frame->number), name);
    Lock lock(mutex_);
    const auto step = resolve(
        lock, series::FrameSeen{
                  .name = name, .generation = frame->generation, .number = value(frame->number), .from_line = true});
    if (step.answer.kind != series::Answer::Kind::accept) return refusal_of(registry_, rules_, step.answer, *frame);
    const auto file = slots_.file(name);
    lock.unlock();
    frame->waited = true;
    return admit_(file, std::move(*frame));
  }
  if (const auto* end = std::get_if<SeriesEnd>(&kept.event)) {
    auto event = ended(*end, rules_.rank);
    event.from_line = true;
    Lock lock(mutex_);
    (void)resolve(lock, std::move(event));
    return {};
  }
  const auto file = find(name);
  if (file == nullptr) return {};
  if (const auto* session = std::get_if<Session>(&kept.event)) file->expect(*session);
  if (const auto* lost = std::get_if<Lost>(&kept.event)) {
    if (lost->damaged)
      file->damage(lost->number, lost->element);
    else
      file->drop(lost->number);
  }
  return {};
}

}  // namespace penstock::recorder
