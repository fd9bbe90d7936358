#include "recorder/service/answers.hpp"

#include <spdlog/spdlog.h>

#include "base/time/clock.hpp"
#include "recorder/series/opening/same_series.hpp"

namespace penstock::recorder {
namespace {

using series::Why;

double seconds(series::Time time) { return static_cast<double>(time) * 1e-9; }

Error element_taken(const series::Registry& registry, const Series& start) {
  const auto number = start.element ? start.element->number : 0;
  std::string before = "TCP";
  if (const auto* roster = registry.roster(start.unique_id))
    for (const auto& row : roster->rows())
      if (row.begun && row.who.element == number && !row.who.source.empty()) before = row.who.source;
  return make_error(Errc::mismatch,
                    "element {} of series \"{}\" already comes from {}, but {} claims the same element; give each "
                    "element a different number (user_data.penstock.element)",
                    number, start.unique_id, before, endpoint_of(start));
}

Error no_room(const std::string& unique_id, const series::Rules& rules, const series::WaitingBytes& room,
              bool is_start) {
  return make_error(Errc::refused,
                    "series \"{}\" cannot wait until one of {} open files is closed: {} bytes of {} wait already, the "
                    "maximum is {}: increase {}, or reduce end_timeout_s",
                    unique_id, rules.files_max, room.held(), is_start ? "such starts" : "what came behind starts",
                    room.max(), is_start ? "tables_bytes" : "pool_bytes");
}

Error mismatch(const Series& start, const SeriesFile* file) {
  if (file != nullptr)
    if (auto same = check_same_series(file->series(), start); !same.ok()) return same.error();
  return make_error(Errc::out_of_order, "series \"{}\" began with another start message", start.unique_id);
}

}  // namespace

Error refusal_of(const series::Registry& registry, const series::Rules& rules, const series::Answer& answer,
                 const Series& start, const SeriesFile* file) {
  const auto& unique_id = start.unique_id;
  switch (answer.why) {
    case Why::stopping: return make_error(Errc::cancelled, "series \"{}\": the recorder is stopping", unique_id);
    case Why::elements_over_ranks:
      return make_error(Errc::unsupported,
                        "series \"{}\" has {} elements over ZeroMQ, but the recorder has {} ranks; such elements "
                        "require one rank, or TCP",
                        unique_id, start.element->count(), rules.ranks);
    case Why::mismatch: return mismatch(start, file);
    case Why::element_taken: return element_taken(registry, start);
    case Why::being_closed:
      return make_error(Errc::refused, "series \"{}\" is being closed; try again later", unique_id);
    case Why::closed_whole:
      return make_error(Errc::out_of_order, "series_unique_id \"{}\" is closed already, with all of its frames",
                        unique_id);
    case Why::element_late:
      return make_error(Errc::out_of_order, "series \"{}\" was closed without its element {}, which arrived too late",
                        unique_id, start.element->number);
    case Why::name_taken:
      if (file == nullptr)
        return make_error(Errc::refused,
                          "series \"{}\" waits until a file is closed, but another one of the same name starts",
                          unique_id);
      return make_error(Errc::refused,
                        "series \"{}\" is open and still receives frames from other senders; another series of the "
                        "same name has waited for {:.0f} s",
                        unique_id, seconds(rules.name_patience()));
    case Why::line_full:
      return make_error(Errc::refused,
                        "series \"{}\": {} files are open, and no more starts may wait; end a series first", unique_id,
                        rules.files_max);
    case Why::no_room: return no_room(unique_id, rules, registry.starts_bytes(), true);
    default: return make_error(Errc::out_of_order, "series_unique_id \"{}\" has started already", unique_id);
  }
}

Error refusal_of(const series::Registry& registry, const series::Rules& rules, const series::Answer& answer,
                 const Frame& frame) {
  const auto& unique_id = frame.series_unique_id;
  if (answer.why == Why::no_room)
    return no_room(unique_id, rules, registry.frames_bytes(), false)
        .with_context(fmt::format("image {}", value(frame.number)));
  if (answer.why == Why::other_generation)
    return make_error(Errc::out_of_order,
                      "image {} belongs to a series \"{}\" that is closed; another one of that name is open",
                      value(frame.number), unique_id);
  return make_error(Errc::out_of_order, "image {} belongs to series \"{}\", which has not started", value(frame.number),
                    unique_id);
}

Error waits_until_one_is_closed(const std::string& series_unique_id, const series::Rules& rules) {
  return make_error(Errc::no_place, "series \"{}\" waits until one of {} open files is closed", series_unique_id,
                    rules.files_max);
}

void log_why_closed(const SeriesFile& file, series::EndedBy why, const series::Rules& rules) {
  using series::EndedBy;
  const auto facts = file.facts();
  const auto silent = seconds(monotonic_ns() - facts.last_activity);
  if (why == EndedBy::room)
    spdlog::warn("{}: closing the series after {:.0f} s without a frame, because another series needs its place",
                 file.path(), silent);
  if (why == EndedBy::silence && !facts.any_frame)
    spdlog::warn(
        "{}: no frame came, and its senders have been gone for {:.0f} s (idle_timeout_s): the series is closed",
        file.path(), seconds(rules.timeouts.idle));
  else if (why == EndedBy::silence)
    spdlog::warn("{}: closing the series after {:.1f} s without a frame (end_after_s)", file.path(),
                 seconds(rules.timeouts.after));
  if (why == EndedBy::new_start)
    spdlog::warn("{}: its source has begun another series, and has not ended this one, which is taken for ended",
                 file.path());
  if (why == EndedBy::command) spdlog::info("{}: ending the series on request", file.path());
}

}  // namespace penstock::recorder
