/// The recorder's part in a team of ranks: what it asks the lead, and what the lead answers.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "recorder/recorder.hpp"
#include "stream/message.hpp"

namespace penstock::recorder {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr auto answer_patience = seconds(60);
/// For a start message that is on its way through another rank: as long as that may be held back itself, or,
/// where nobody is held back, not longer than the pool lasts.
constexpr auto find_patience = seconds(10);
constexpr auto find_patience_dropping = seconds(2);
constexpr auto find_step = std::chrono::milliseconds(20);
constexpr std::int64_t unknown_ns = 1'000'000'000;
constexpr std::size_t remembered_max = 64;  // names of series that are not open
constexpr std::int64_t busy_interval_ns = 200'000'000;
/// For the sources of other ranks to stop, and for what they hold to reach the storage.
constexpr auto stop_patience = seconds(60);
constexpr auto part_patience = seconds(600);

std::string name_in(const json& message) { return message.value("series_unique_id", std::string()); }

json question_begin(const Series& series, bool with_session) {
  const auto start = stream::encode_start(series);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(start.data());
  return {{"ask", "begin"},
          {"start", json::binary(std::vector<std::uint8_t>(bytes, bytes + start.size()))},
          {"resumed", series.resumed},
          {"source", series.source},
          {"session", with_session}};
}

SeriesEnd end_in(const json& notice) {
  SeriesEnd end;
  end.unique_id = name_in(notice);
  end.by_all = notice.value("by_all", true);
  if (const auto element = notice.find("element"); element != notice.end() && element->is_number_unsigned())
    end.element = element->get<std::uint32_t>();
  end.source = notice.value("source", std::string());
  end.by_start = notice.value("by_start", false);
  return end;
}

Result<Series> series_in(const json& message, const Config& config) {
  if (!message.contains("start") || !message["start"].is_binary())
    return make_error(Errc::malformed, "a message between ranks has no start message");
  stream::MessageLimits limits;
  limits.frame_bytes_max = config.frame_bytes_max;
  limits.table_bytes_max = config.tables_bytes;
  const auto& bytes = message["start"].get_binary();
  PEN_ASSIGN(auto parsed, stream::parse_message(std::as_bytes(std::span(bytes)), limits));
  if (!std::holds_alternative<Series>(parsed))
    return make_error(Errc::malformed, "a message between ranks has no start message");
  auto series = std::get<Series>(std::move(parsed));
  series.resumed = message.value("resumed", false);
  series.source = message.value("source", std::string());
  series.remarks.clear();  // they were told where it came
  return series;
}

}  // namespace

nlohmann::json notice_end(const SeriesEnd& end) {
  json notice{{"tell", "end"}, {"series_unique_id", end.unique_id}, {"by_all", end.by_all}};
  if (end.element) notice["element"] = *end.element;
  if (!end.source.empty()) notice["source"] = end.source;
  if (end.by_start) notice["by_start"] = true;
  return notice;
}

/// Another rank's: the lead makes the file, or has made it for somebody else.
Result<std::shared_ptr<SeriesFile>> Recorder::join(Series& series, bool with_session) {
  const std::string unique_id = series.unique_id;
  if (auto claimed = claim(unique_id, series.element); !claimed.ok()) {
    if (claimed.error().code() == Errc::refused) refuse_start(unique_id, claimed.error());
    return claimed.error();
  }
  auto answer_of_lead =
      team_.ask(question_begin(series, with_session), std::max<seconds>(answer_patience, opening_patience()));
  if (!answer_of_lead.ok()) {
    release(unique_id);
    return std::move(answer_of_lead).error();
  }
  auto file = SeriesFile::join(env_, config_, team_, std::move(series), answer_of_lead->value("path", std::string()));
  PEN_TRY(settle(unique_id, file));
  return file;
}

Result<void> Recorder::tell_of_session(const Series& series) {
  if (!team_.leads()) {
    PEN_TRY(team_.ask(question_begin(series, true), answer_patience));
    return {};
  }
  std::lock_guard lock(mutex_);
  if (const auto found = open_.find(series.unique_id); found != open_.end()) found->second.began.insert(job::lead);
  return {};
}

/// Another rank's: a further pusher of the series has begun it.
Result<void> Recorder::tell_of_source(const Series& series) {
  PEN_TRY(team_.ask(question_begin(series, false), answer_patience));
  return {};
}

/// A series whose start message went to another rank and may still be on its way; null where nobody knows it.
std::shared_ptr<SeriesFile> Recorder::adopt(const std::string& unique_id) {
  // Whoever sends frames through another socket than the start need not wait for anything either.
  if (team_.ranks() == 1 && config_.sources.size() == 1) return nullptr;
  std::chrono::nanoseconds patience = holds_back() && team_.ranks() > 1 ? find_patience : find_patience_dropping;
  {
    // One that was waited for in vain is looked for again, but not waited for.
    std::lock_guard lock(mutex_);
    if (const auto before = unknown_.find(unique_id); before != unknown_.end()) {
      if (monotonic_ns() - before->second < unknown_ns) return nullptr;
      patience = {};
    }
  }
  auto found = team_.leads() ? wait_for_start(unique_id, patience) : adopt_from_lead(unique_id, patience);
  std::lock_guard lock(mutex_);
  if (unknown_.size() >= remembered_max) unknown_.clear();
  if (found || waiting_.contains(unique_id))
    unknown_.erase(unique_id);
  else
    unknown_[unique_id] = monotonic_ns();
  return found;
}

/// The lead's: another rank has it opened.
std::shared_ptr<SeriesFile> Recorder::wait_for_start(const std::string& unique_id, std::chrono::nanoseconds patience) {
  std::unique_lock lock(mutex_);
  const auto there = [&] { return told_to_stop_ || open_.contains(unique_id); };
  changed_.wait_for(lock, patience, [&] {
    return there() || opening_.contains(unique_id) || waiting_.contains(unique_id) ||
           waits_elsewhere_.contains(unique_id);
  });
  changed_.wait_for(lock, answer_patience, [&] { return there() || !opening_.contains(unique_id); });
  if (const auto waits = waits_elsewhere_.find(unique_id); waits != waits_elsewhere_.end() && !there()) {
    auto channels = waits->second;
    lock.unlock();
    wait_with_frames(unique_id, std::move(channels));
    return nullptr;
  }
  const auto found = open_.find(unique_id);
  return found == open_.end() ? nullptr : found->second.file;
}

std::shared_ptr<SeriesFile> Recorder::adopt_from_lead(const std::string& unique_id, std::chrono::nanoseconds patience) {
  if (auto found = find_when_open(unique_id)) return found;
  const auto until = std::chrono::steady_clock::now() + patience;
  auto claimed = claim(unique_id, std::nullopt);
  while (!claimed.ok() && claimed.error().code() == Errc::no_place && !told_to_stop_ &&
         std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(find_step);
    claimed = claim(unique_id, std::nullopt);
  }
  if (!claimed.ok()) return find_when_open(unique_id);
  auto found = team_.ask({{"ask", "find"}, {"series_unique_id", unique_id}}, answer_patience);
  while (!found.ok() && !told_to_stop_ &&
         (found.error().code() == Errc::locked ||
          (found.error().code() == Errc::not_found && std::chrono::steady_clock::now() < until))) {
    std::this_thread::sleep_for(find_step);
    found = team_.ask({{"ask", "find"}, {"series_unique_id", unique_id}}, answer_patience);
  }
  if (found.ok() && found->value("waits", false)) {
    release(unique_id);
    wait_with_frames(unique_id, found->value("channels", std::vector<std::string>()));
    return nullptr;
  }
  if (found.ok()) return settle_found(unique_id, *found);
  release(unique_id);
  return nullptr;
}

/// Joins a claimed series that the lead has open; null where that fails.
std::shared_ptr<SeriesFile> Recorder::settle_found(const std::string& unique_id, const json& found) {
  auto series = series_in(found, config_);
  if (!series.ok()) {
    release(unique_id);
    return nullptr;
  }
  auto file = SeriesFile::join(env_, config_, team_, std::move(*series), found.value("path", std::string()));
  return settle(unique_id, file).ok() ? *file : nullptr;
}

/// The same of one that frames waited for. `no_place` where none is free here yet.
Result<std::shared_ptr<SeriesFile>> Recorder::join_found(const std::string& unique_id, const json& found) {
  PEN_TRY(claim(unique_id, std::nullopt));
  auto file = settle_found(unique_id, found);
  if (file == nullptr) return make_error(Errc::refused, "this rank could not open its file");
  return file;
}

std::optional<std::vector<std::string>> Recorder::channels(const std::string& series_unique_id) {
  const auto of_waiting = [&]() -> std::optional<std::vector<std::string>> {
    std::lock_guard lock(mutex_);
    const auto waiting = waiting_.find(series_unique_id);
    return waiting == waiting_.end() ? std::nullopt : std::optional(waiting->second.channels);
  };
  if (auto found = of_waiting()) return found;
  auto series = find(series_unique_id);
  if (!series) series = adopt(series_unique_id);
  if (!series) return of_waiting();
  return series->series().channels;
}

void Recorder::release(const std::string& unique_id) {
  std::lock_guard lock(mutex_);
  opening_.erase(unique_id);
  places_.leave(unique_id);
  answer_close_without_file(unique_id);
  changed_.notify_all();
}

/// With mutex_ held. The lead asked for a part of a series that did not come to be open here.
void Recorder::answer_close_without_file(const std::string& unique_id) {
  if (close_when_open_.erase(unique_id) > 0)
    team_.tell(job::lead, {{"tell", "part"}, {"series_unique_id", unique_id}, {"part", json::object()}});
}

/// The lead's, on the team's thread.
Result<json> Recorder::answer(unsigned from, const json& question) {
  const auto what = question.value("ask", std::string());
  if (what == "begin") return answer_begin(from, question);
  if (what == "find") return answer_find(from, question);
  if (what == "terms") return answer_terms(question);
  if (what == "end") {
    const auto file = find(name_in(question));
    return json{{"end", file ? file->end() : std::uint64_t{0}}};
  }
  return make_error(Errc::malformed, "rank {} asks \"{}\"", from, what);
}

Result<json> Recorder::answer_begin(unsigned from, const json& question) {
  PEN_ASSIGN(auto series, series_in(question, config_));
  const std::string unique_id = series.unique_id;
  const auto source = series.source;
  const bool with_session = question.value("session", false);
  auto file = find_when_open(unique_id);
  bool fresh = false;
  if (!file) {
    auto made = open(series, with_session);
    fresh = made.ok();
    if (fresh) file = *made;
    // One of the lead's own sources may have been quicker.
    else if (made.error().code() == Errc::out_of_order)
      file = find_when_open(unique_id);
    if (!file) return std::move(made).error();
  }
  if (!fresh) PEN_TRY(check_same_series(file->series(), series));
  if (!fresh && series.element) decode_maps(series, file->element_starts().map_bytes());
  const auto& begun = fresh ? file->series() : series;
  const bool another_element = file->element_starts().begin(begun);
  const bool another_source = note_source(unique_id, source, begun.element, from);
  if (!fresh && !with_session && !another_element && !another_source)
    return make_error(Errc::out_of_order, "series_unique_id \"{}\" has started already", unique_id);
  note_element(unique_id, begun.element, from);
  std::lock_guard lock(mutex_);
  const auto found = open_.find(unique_id);
  if (found == open_.end()) return make_error(Errc::out_of_order, "series \"{}\" is closed already", unique_id);
  found->second.joined.insert(from);
  if (with_session) found->second.began.insert(from);
  return json{{"path", file->path()}};
}

Result<json> Recorder::answer_find(unsigned from, const json& question) {
  const auto unique_id = name_in(question);
  std::shared_ptr<SeriesFile> file;
  {
    std::lock_guard lock(mutex_);
    const auto found = open_.find(unique_id);
    const auto elsewhere = waits_elsewhere_.find(unique_id);
    const auto waiting = waiting_.find(unique_id);
    if (found == open_.end() && (waiting != waiting_.end() || elsewhere != waits_elsewhere_.end())) {
      frames_elsewhere_[unique_id].insert(from);
      return json{{"waits", true},
                  {"channels", elsewhere != waits_elsewhere_.end() ? elsewhere->second : waiting->second.channels}};
    }
    if (opening_.contains(unique_id))
      return make_error(Errc::locked, "the file of series \"{}\" is being created", unique_id);
    if (found == open_.end()) return make_error(Errc::not_found, "series \"{}\" has not started", unique_id);
    found->second.joined.insert(from);
    file = found->second.file;
    if (const auto others = frames_elsewhere_.find(unique_id); others != frames_elsewhere_.end()) {
      others->second.erase(from);
      if (others->second.empty()) frames_elsewhere_.erase(others);
      changed_.notify_all();
    }
  }
  auto answer_to = question_begin(file->series(), false);
  answer_to["path"] = file->path();
  return answer_to;
}

Result<json> Recorder::answer_terms(const json& question) {
  const auto unique_id = name_in(question);
  auto file = find_when_open(unique_id);
  if (!file) {
    // A rank that has just joined still hands over what it has.
    std::lock_guard lock(mutex_);
    if (const auto parting = partings_.find(unique_id); parting != partings_.end()) file = parting->second.file;
  }
  if (!file) return make_error(Errc::out_of_order, "series \"{}\" is closed already", unique_id);
  const auto encoding = encoding_of(question.value("encoding", std::string()));
  if (!encoding) return make_error(Errc::malformed, "a message between ranks has no encoding");
  PEN_ASSIGN(const auto columns, columns_from(question.value("columns", json::array())));
  PEN_ASSIGN(const auto terms, file->terms(*encoding, columns));
  return to_json(terms);
}

/// On the job's thread.
void Recorder::hear(unsigned from, const json& notice) {
  const auto what = notice.value("tell", std::string());
  const auto unique_id = name_in(notice);
  if (what == "end") return end_at(from, end_in(notice));
  if (what == "blemishes") return hear_blemishes(unique_id, notice);
  if (what == "busy") {
    if (const auto file = find(unique_id)) file->note_activity(monotonic_ns());
    return;
  }
  if (what == "end_series") return end_series();
  if (what == "refused")
    return refuse_start(unique_id, make_error(Errc::refused, "{}", notice.value("problem", std::string())));
  if (what == "event") return events_.pass_on(notice.value("line", std::string()));
  if (what == "stop") {
    if (team_.leads() && !told_to_stop_.exchange(true)) team_.tell_all(notice);
    told_to_stop_ = true;
    changed_.notify_all();
    return;
  }
  std::vector<Session> sessions;
  {
    std::lock_guard lock(mutex_);
    if (what == "stopped") stopped_ranks_.insert(from);
    if (what == "dismissed") dismissed_ = true;
    if (what == "waits" && !open_.contains(unique_id) && !opening_.contains(unique_id))
      waits_elsewhere_[unique_id] = notice.value("channels", std::vector<std::string>());
    if (what == "waits_no_more") {
      waits_elsewhere_.erase(unique_id);
      frames_elsewhere_.erase(unique_id);
    }
    if (what == "close") hear_close(unique_id);
    if (what == "part") hear_part(from, unique_id, notice);
    if (what == "closed")
      if (auto untold = untold_.extract(unique_id); !untold.empty()) sessions = std::move(untold.mapped());
    changed_.notify_all();
  }
  for (const auto& session : sessions) {
    session->ended(unique_id, notice.value("ended_by", std::string()));
    session->closed(unique_id, notice.value("problem", std::string()));
  }
}

void Recorder::hear_blemishes(const std::string& unique_id, const json& notice) {
  auto file = find(unique_id);
  if (!file) {
    std::lock_guard lock(mutex_);
    if (const auto parting = partings_.find(unique_id); parting != partings_.end()) file = parting->second.file;
  }
  if (!file) return;
  for (const auto& frame : notice.value("frames", json::array()))
    if (frame.is_array() && frame.size() == 2)
      file->unplaced_elsewhere(FrameNumber{frame[0].get<std::uint64_t>()},
                               static_cast<FrameState>(frame[1].get<int>()));
}

/// With mutex_ held. The timekeeper closes it; one that is just being joined follows.
void Recorder::hear_close(const std::string& unique_id) {
  if (const auto found = open_.find(unique_id); found != open_.end())
    found->second.asked_to_close = true;
  else if (opening_.contains(unique_id))
    close_when_open_.insert(unique_id);
  else
    team_.tell(job::lead, {{"tell", "part"}, {"series_unique_id", unique_id}, {"part", json::object()}});
}

/// With mutex_ held.
void Recorder::hear_part(unsigned from, const std::string& unique_id, const json& notice) {
  const auto parting = partings_.find(unique_id);
  if (parting == partings_.end()) return;
  parting->second.awaited.erase(from);
  parting->second.parts.push_back(notice.value("part", json::object()));
}

/// The lead's: the source of a rank has ended the series, or only some of its clients have.
void Recorder::end_at(unsigned rank, const SeriesEnd& end) {
  std::lock_guard lock(mutex_);
  const auto& unique_id = end.unique_id;
  if (const auto found = open_.find(unique_id); found != open_.end()) {
    const auto generation = found->second.file->series().generation;
    // Another one of that name has begun meanwhile.
    if (end.generation == 0 || end.generation == generation) end_open(found->second, rank, end);
    return;
  }
  if (!end.by_all) return;
  // Its start may still be on its way through another rank.
  if (closed_names_.contains(unique_id)) return;
  if (early_ends_.size() >= remembered_max) early_ends_.clear();
  early_ends_[unique_id].insert({rank, end.element, end.source});
}

/// The lead's: every other rank hands over what it has before the file is closed.
void Recorder::part_from_others(const Open& open) {
  if (open.joined.empty()) return;
  const auto& unique_id = open.file->series().unique_id;
  for (const auto rank : open.joined) team_.tell(rank, {{"tell", "close"}, {"series_unique_id", unique_id}});
  Parting parting;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, part_patience, [&] { return partings_[unique_id].awaited.empty(); });
    parting = std::move(partings_[unique_id]);
    partings_.erase(unique_id);
  }
  for (const auto& part : parting.parts) open.file->add_part(part);
  for (const auto rank : parting.awaited)
    open.file->add_part(
        {{"problem", fmt::format("rank {} has not delivered its frames within {} s", rank, part_patience.count())}});
}

/// Another rank's: hands over, and keeps its senders waiting for the lead's word.
void Recorder::part_from_lead(const Open& open) {
  const auto& unique_id = open.file->series().unique_id;
  (void)open.file->close();  // its problem is in the part
  {
    std::lock_guard lock(mutex_);
    untold_[unique_id] = open.file->sessions();
  }
  team_.tell(job::lead, {{"tell", "part"}, {"series_unique_id", unique_id}, {"part", open.file->part()}});
}

/// Another rank's, now and then: what is on its way here keeps the lead from closing.
void Recorder::tell_if_busy(std::int64_t now_ns) {
  if (now_ns - busy_told_ns_ < busy_interval_ns) return;
  busy_told_ns_ = now_ns;
  std::lock_guard lock(mutex_);
  const bool frames_wait = queue_.size() > 0;
  for (const auto& [unique_id, open] : open_)
    if (frames_wait || open.file->busy()) team_.tell(job::lead, {{"tell", "busy"}, {"series_unique_id", unique_id}});
}

void Recorder::tell_to_stop() {
  if (told_to_stop_.exchange(true)) return;
  if (team_.leads())
    team_.tell_all({{"tell", "stop"}});
  else
    team_.tell(job::lead, {{"tell", "stop"}});
}

/// Before anything is closed: the lead waits for the other ranks' sources, they wait for its last word.
void Recorder::wait_for_the_others() {
  if (team_.ranks() == 1) return;
  tell_to_stop();
  if (!team_.leads()) team_.tell(job::lead, {{"tell", "stopped"}});
  std::unique_lock lock(mutex_);
  if (!team_.leads()) return changed_.wait(lock, [&] { return dismissed_; });
  if (!changed_.wait_for(lock, stop_patience, [&] { return stopped_ranks_.size() + 1 == team_.ranks(); }))
    spdlog::error("only {} of {} other ranks have stopped within {} s", stopped_ranks_.size(), team_.ranks() - 1,
                  stop_patience.count());
}

}  // namespace penstock::recorder
