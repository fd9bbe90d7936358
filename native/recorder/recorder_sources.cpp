/// The recorder and those who send to it: who begins a series and who ends it, elements among them, and files of one
/// name.

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

#include "base/clock.hpp"
#include "recorder/recorder.hpp"
#include "stream/element.hpp"

namespace penstock::recorder {
namespace {

/// Files of one name are numbered up to here.
constexpr unsigned same_names_max = 1000;
/// For a series that is being closed, however slow the storage is.
constexpr auto closing_patience = std::chrono::seconds(600);

/// The path with a number before its suffix.
std::string numbered(const std::string& path, unsigned number) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / fmt::format("{}-{}{}", whole.stem().string(), number, whole.extension().string()))
      .string();
}

}  // namespace

namespace {

Result<void> check_same(const Series& begun, std::string_view field, const std::string& before,
                        const std::string& now) {
  if (before == now) return {};
  return make_error(Errc::out_of_order, "{} is {}; series \"{}\" started with {}", field, now, begun.unique_id, before);
}

Result<void> check_same_frame(const Series& begun, const Series& again) {
  const auto shape = [](const Series& series) { return fmt::format("[{}]", fmt::join(series.frame.shape, ", ")); };
  const auto channels = [](const Series& series) { return fmt::format("[{}]", fmt::join(series.channels, ", ")); };
  const auto grid = [](const Series& series) {
    const auto place = series.element.value_or(ElementPlace{});
    return fmt::format("[{}, {}]", place.rows, place.columns);
  };
  const auto gap = [](const Series& series) { return stream::gap_text(series.element.value_or(ElementPlace{})); };
  PEN_TRY(check_same(begun, "the images' shape", shape(begun), shape(again)));
  PEN_TRY(check_same(begun, "image_dtype", std::string(name(begun.frame.type)), std::string(name(again.frame.type))));
  PEN_TRY(check_same(begun, "channels", channels(begun), channels(again)));
  PEN_TRY(check_same(begun, "the grid of elements", grid(begun), grid(again)));
  return check_same(begun, "the gap between elements", gap(begun), gap(again));
}

}  // namespace

Result<void> check_same_series(const Series& begun, const Series& again) {
  PEN_TRY(check_same(begun, "series_id", fmt::format("{}", begun.id), fmt::format("{}", again.id)));
  PEN_TRY(check_same_frame(begun, again));
  return check_same(begun, "number_of_images", fmt::format("{}", begun.frames), fmt::format("{}", again.frames));
}

Result<void> check_elements_fit(const Series& begun, const Series& again) {
  const auto count = [](const Series& series) { return series.element ? series.element->count() : 1; };
  if (again.endpoint.empty() || std::max(count(begun), count(again)) == 1) return {};
  if (auto fits = check_same_frame(begun, again); !fits.ok())
    return make_error(Errc::mismatch, "{}", fits.error().message());
  return {};
}

/// An element's frames come in at one endpoint, or over TCP: of two that are both said to be element 0 one is another,
/// and its frames would lie in the wrong place.
Result<void> Recorder::claim_element(const Series& start) {
  if (!start.element || start.element->count() == 1 || team_.ranks() > 1) return {};
  std::lock_guard lock(mutex_);
  const auto found = open_.find(start.unique_id);
  if (found == open_.end()) return {};
  const auto number = start.element->number;
  const auto here = endpoint_of(start);
  const auto& before = found->second.element_endpoints.try_emplace(number, here).first->second;
  if (before == here) return {};
  return make_error(Errc::mismatch,
                    "element {} of series \"{}\" already comes from {}, but {} claims the same element; give each "
                    "element a different number (user_data.penstock.element)",
                    number, start.unique_id, before, here);
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
  for (std::uint32_t element = 0; element < open.file->spec().elements(); ++element) {
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
    open.file->ending().set(monotonic_ns(), static_cast<std::int64_t>(config_.idle_timeout_s * 1e9), false,
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
    const SeriesEnd end{
        .id = 0, .unique_id = id, .by_all = true, .element = began->second, .source = source, .by_start = true};
    // Behind what waited for the place of that one, and is still let in.
    if (rank == job::lead && end_waits(end)) continue;
    spdlog::warn("{}: {} starts series \"{}\" without having ended this one, which is considered ended",
                 open.file->path(), source, unique_id);
    end_open(open, rank, end);
  }
}

/// With mutex_ held. Of elements each has to end, whoever sends it: one may not even have begun. An end that names none
/// is of a stream that has not begun either. Of several pushers each that began has to end, and one that has not begun
/// may be late.
void Recorder::end_open(Open& open, unsigned rank, const SeriesEnd& end) {
  bool by_all = end.by_all;
  if (!end.source.empty()) open.sources_ended.insert(end.source);
  if (open.file->spec().has_elements()) {
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
  const bool nothing_follows = by_all && nothing_overtakes && !others_may_follow;
  const bool open_ended = open.file->series().frames == 0 && !end.by_start;
  // Who begins another one of the same name has no more of this one, whatever was announced.
  const bool is_over = (by_all && end.sole) || (nothing_follows && (end.anew ? is_all_pulled() : open_ended)) ||
                       (by_all && !end.by_start && nothing_can_follow(open, end));
  const auto patience_s = is_over ? 0.0 : (by_all ? config_.end_timeout_s : config_.idle_timeout_s);
  open.file->ending().set(monotonic_ns(), static_cast<std::int64_t>(patience_s * 1e9), by_all,
                          end.by_start ? EndedBy::new_start : EndedBy::message);
  changed_.notify_all();
}

/// A detector that was started anew cannot be told that the name of its series is taken: it is held back until the
/// series before is closed, and then the file gets a number.
Result<void> Recorder::begin_anew(Series series, const SeriesEnd& before) {
  const auto unique_id = series.unique_id;
  // In a team frames of both come through other ranks as well, and do not tell of which they are: it is refused there.
  const bool alone = team_.ranks() == 1;
  if (!alone && is_waiting(unique_id))
    return make_error(Errc::refused,
                      "series \"{}\" waits until a file is closed, but another one of the same name starts", unique_id);
  if (alone || before.by_start) (void)end(before);  // it may be closed already
  if (alone) {
    if (auto ended = wait_until_ended(unique_id, before.generation); !ended.ok()) {
      if (ended.error().code() != Errc::cancelled) note_refusal(unique_id, ended.error());
      return ended;
    }
    series.anew = true;
  }
  return begin(std::move(series), nullptr);
}

/// Other senders may have frames of it for a while yet.
Result<void> Recorder::wait_until_ended(const std::string& unique_id, std::uint64_t generation) {
  const std::chrono::duration<double> patience(config_.idle_timeout_s + config_.end_timeout_s);
  std::unique_lock lock(mutex_);
  const auto stops = [&] { return stopping_ || !waits_; };
  const auto is_open = [&] {
    const auto found = open_.find(unique_id);
    return found != open_.end() && found->second.file->series().generation == generation;
  };
  // It may not even have its file: it will, as soon as others close theirs.
  const auto waits = [&] {
    const auto found = waiting_.find(unique_id);
    return found != waiting_.end() && found->second.generation == generation;
  };
  changed_.wait(lock, [&] { return stops() || !waits(); });
  if (waits()) return make_error(Errc::cancelled, "series \"{}\": the recorder is stopping", unique_id);
  if (is_open())
    spdlog::warn("{}: another series of the same name starts, and waits until this one is closed",
                 open_.at(unique_id).file->path());
  changed_.wait_for(lock, patience, [&] { return stops() || !is_open(); });
  if (!is_open()) return {};
  if (stops()) return make_error(Errc::cancelled, "series \"{}\": the recorder is stopping", unique_id);
  return make_error(Errc::refused,
                    "series \"{}\" is open and still receives frames from other senders; another series of the same "
                    "name has waited for {:.0f} s",
                    unique_id, patience.count());
}

bool Recorder::is_closing(const std::string& unique_id) const {
  std::lock_guard lock(mutex_);
  return team_.ranks() == 1 && closing_names_.contains(unique_id);
}

/// Whoever hears no answer cannot begin a series again later. To close a file takes as long as the storage does.
void Recorder::await_close(const std::string& unique_id) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, closing_patience,
                    [&] { return stopping_ || !waits_ || !closing_names_.contains(unique_id); });
}

std::uint64_t Recorder::generation(const std::string& series_unique_id) const {
  if (team_.ranks() > 1) return 0;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = waiting_.find(series_unique_id); found != waiting_.end()) return found->second.generation;
  }
  const auto file = find(series_unique_id);
  return file ? file->series().generation : 0;
}

/// A detector that began to count anew cannot be told that a file has this name already, or that somebody has the one
/// open that would be replaced, and its frames would be lost: the file gets a number.
Result<std::shared_ptr<SeriesFile>> Recorder::make_file(Series series, std::string& path, bool answered) {
  const auto make = config_.resume ? &SeriesFile::resume : &SeriesFile::create;
  if (answered || series.resumed) return make(env_, config_, team_, std::move(series), path);
  auto file = make(env_, config_, team_, series, path);
  const auto wanted = path;
  const auto why = file.ok() ? std::string() : file.error().message();
  const auto is_taken = [&] {
    if (file.ok()) return false;
    const auto code = file.error().code();
    return code == Errc::already_exists || (code == Errc::locked && !config_.resume);
  };
  for (unsigned number = 2; is_taken() && number <= same_names_max; ++number) {
    path = numbered(wanted, number);
    // It was the file without a number that was to be overwritten.
    if (config_.store.overwrite && std::filesystem::exists(path)) continue;
    file = make(env_, config_, team_, series, path);
  }
  // Nor that there is no room just now. What may be in a file that was left is not to be made anew.
  if (!file.ok() && file.error().code() == Errc::no_space && !config_.resume)
    file = SeriesFile::without_room(env_, config_, team_, series, path, file.error());
  if (file.ok() && path != wanted) spdlog::warn("series \"{}\" is recorded into {}: {}", series.unique_id, path, why);
  return file;
}

}  // namespace penstock::recorder
