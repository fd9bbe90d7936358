/// The recorder and those who send to it: who begins a series and who ends it, elements among them, and files of one
/// name.

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

#include "base/clock.hpp"
#include "recorder/recorder.hpp"

namespace penstock::recorder {
namespace {

/// Files of one name are numbered up to here.
constexpr unsigned same_names_max = 1000;

/// The path with a number before its suffix.
std::string numbered(const std::string& path, unsigned number) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / fmt::format("{}-{}{}", whole.stem().string(), number, whole.extension().string()))
      .string();
}

}  // namespace

Result<void> check_same_series(const Series& begun, const Series& again) {
  const auto check = [&](std::string_view field, const std::string& before, const std::string& now) -> Result<void> {
    if (before == now) return {};
    return make_error(Errc::out_of_order, "{} is {}; series \"{}\" began with {}", field, now, begun.unique_id, before);
  };
  const auto shape = [](const Series& series) { return fmt::format("[{}]", fmt::join(series.frame.shape, ", ")); };
  const auto channels = [](const Series& series) { return fmt::format("[{}]", fmt::join(series.channels, ", ")); };
  const auto grid = [](const Series& series) {
    const auto place = series.element.value_or(ElementPlace{});
    return fmt::format("[{}, {}]", place.rows, place.columns);
  };
  PEN_TRY(check("series_id", fmt::format("{}", begun.id), fmt::format("{}", again.id)));
  PEN_TRY(check("the images' shape", shape(begun), shape(again)));
  PEN_TRY(check("image_dtype", std::string(name(begun.frame.type)), std::string(name(again.frame.type))));
  PEN_TRY(check("number_of_images", fmt::format("{}", begun.frames), fmt::format("{}", again.frames)));
  PEN_TRY(check("channels", channels(begun), channels(again)));
  return check("the grid of elements", grid(begun), grid(again));
}

/// The lead's: a source of that rank has begun the stream of an element.
void Recorder::note_element(const std::string& unique_id, const std::optional<ElementPlace>& element, unsigned rank) {
  if (!element) return;
  std::lock_guard lock(mutex_);
  if (const auto found = open_.find(unique_id); found != open_.end())
    found->second.elements_began[element->number].insert(rank);
}

/// With mutex_ held: each element has begun, and whoever brought it has ended it.
bool Recorder::have_all_ended(const Open& open) {
  for (std::uint32_t element = 0; element < open.file->elements(); ++element) {
    const auto ended = open.elements_ended.find(element);
    if (ended == open.elements_ended.end()) return false;
    const auto began = open.elements_began.find(element);
    if (began != open.elements_began.end() &&
        !std::includes(ended->second.begin(), ended->second.end(), began->second.begin(), began->second.end()))
      return false;
  }
  return true;
}

/// The lead's: one of those that send one series after the other has begun this one. False where it had before.
bool Recorder::note_source(const std::string& unique_id, const std::string& source,
                           const std::optional<ElementPlace>& element, unsigned rank) {
  if (source.empty()) return false;
  std::lock_guard lock(mutex_);
  end_others_of(source, unique_id, rank);
  const auto found = open_.find(unique_id);
  if (found == open_.end()) return false;
  auto& open = found->second;
  const auto number = element ? std::optional(element->number) : std::nullopt;
  if (!open.sources_began.emplace(source, number).second) return false;
  // Others have ended, and this one was late: now it is waited for.
  if (!open.sources_ended.empty() && !open.sources_ended.contains(source))
    open.file->set_ending(monotonic_ns(), static_cast<std::int64_t>(config_.idle_timeout_s * 1e9), false,
                          EndedBy::message);
  return true;
}

/// With mutex_ held. A detector that was started anew does not end what it had begun, and never will: a series that it
/// begins now is the end of the one before. That one is closed when nothing has come for a while, in case another
/// sender has more of it.
void Recorder::end_others_of(const std::string& source, const std::string& unique_id, unsigned rank) {
  for (auto& [id, open] : open_) {
    const auto began = open.sources_began.find(source);
    if (id == unique_id || began == open.sources_began.end() || open.sources_ended.contains(source)) continue;
    spdlog::warn("{}: {} begins series \"{}\" and has not ended this one, which is taken for ended", open.file->path(),
                 source, unique_id);
    end_open(open, rank,
             {.id = 0, .unique_id = id, .by_all = true, .element = began->second, .source = source, .by_start = true});
  }
}

/// With mutex_ held. Of elements each has to end, whoever sends it: one may not even have begun. An end that names none
/// is of a stream that has not begun either. Of several pushers each that began has to end, and one that has not begun
/// may be late.
void Recorder::end_open(Open& open, unsigned rank, const SeriesEnd& end) {
  bool by_all = end.by_all;
  if (!end.source.empty()) open.sources_ended.insert(end.source);
  if (open.file->has_elements()) {
    if (!end.element) return;
    if (by_all) open.elements_ended[*end.element].insert(rank);
    by_all = have_all_ended(open);
  } else {
    if (by_all) open.ended.insert(rank);
    by_all = by_all && std::includes(open.ended.begin(), open.ended.end(), open.began.begin(), open.began.end()) &&
             std::all_of(open.sources_began.begin(), open.sources_began.end(),
                         [&](const auto& began) { return open.sources_ended.contains(began.first); });
  }
  const bool others_may_follow = !end.source.empty() && open.sources_ended.size() < pulled_;
  // What a pusher sent before its end has come before it; of others nothing is known but the end itself.
  const bool nothing_overtakes = end.source.empty() ? has_one_source() : team_.ranks() == 1;
  const bool alone_and_open_ended =
      by_all && nothing_overtakes && open.file->series().frames == 0 && !end.by_start && !others_may_follow;
  const auto patience_s = alone_and_open_ended ? 0.0 : (by_all ? config_.end_timeout_s : config_.idle_timeout_s);
  open.file->set_ending(monotonic_ns(), static_cast<std::int64_t>(patience_s * 1e9), by_all,
                        end.by_start ? EndedBy::new_start : EndedBy::message);
  changed_.notify_all();
}

/// A detector that began to count anew cannot be told that a file has this name already, and its frames would be lost:
/// the file gets a number.
Result<std::shared_ptr<SeriesFile>> Recorder::make_file(Series series, std::string& path, bool answered) {
  const auto make = config_.resume ? &SeriesFile::resume : &SeriesFile::create;
  if (answered || series.resumed) return make(env_, config_, team_, std::move(series), path);
  auto file = make(env_, config_, team_, series, path);
  const auto wanted = path;
  for (unsigned number = 2; !file.ok() && file.error().code() == Errc::already_exists && number <= same_names_max;
       ++number) {
    path = numbered(wanted, number);
    file = make(env_, config_, team_, series, path);
  }
  // Nor that there is no room just now. What may be in a file that was left is not to be made anew.
  if (!file.ok() && file.error().code() == Errc::no_space && !config_.resume)
    file = SeriesFile::without_room(env_, config_, team_, series, path, file.error());
  if (file.ok() && path != wanted)
    spdlog::warn("{} is there already, and series \"{}\" is another one: it goes into {}", wanted, series.unique_id,
                 path);
  return file;
}

}  // namespace penstock::recorder
