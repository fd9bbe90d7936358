#include "recorder/team/coordinator.hpp"

#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "base/time/clock.hpp"
#include "recorder/service/control.hpp"
#include "recorder/service/facts.hpp"
#include "recorder/team/messages.hpp"

namespace penstock::recorder {
namespace {

using nlohmann::json;
using std::chrono::seconds;

/// For the sources of other ranks to stop, and for what they hold to reach the storage.
constexpr auto stop_patience = seconds(60);
constexpr auto part_patience = seconds(600);

}  // namespace

void Coordinator::start(Control& control) {
  control_ = &control;
  parts_.team.start({[this](unsigned from, const auto& question) { return answer(from, question); },
                     [this](unsigned from, const auto& notice) { hear(from, notice); }});
}

void Coordinator::say_stop() {
  if (!told_to_stop_.exchange(true)) parts_.team.tell_all({{"tell", "stop"}});
}

void Coordinator::wait_for_stop() {
  const auto others = parts_.team.ranks() - 1;
  if (others == 0) return;
  say_stop();
  std::unique_lock lock(mutex_);
  if (!stopped_.wait_for(lock, stop_patience, [&] { return stopped_ranks_.size() == others; }))
    spdlog::error("only {} of {} other ranks have stopped within {} s", stopped_ranks_.size(), others,
                  stop_patience.count());
}

Found Coordinator::open(Series& series, bool answered) {
  return {.file = maker_.make(std::move(series), answered), .fault = Found::Fault::no_file};
}

/// What the coordinator has not heard of has not begun.
Found Coordinator::seek(const std::string& series_unique_id, bool /*again*/) {
  return {.file = make_error(Errc::not_found, "series \"{}\" has not started", series_unique_id)};
}

Result<void> Coordinator::take_part(SeriesFile& file, Series& series, bool /*answered*/) {
  maker_.decode_maps(series, file);
  file.element_starts().begin(series);
  return {};
}

void Coordinator::close(SeriesFile& file, const series::Close& why) {
  std::vector<json> parts;
  {
    std::lock_guard lock(mutex_);
    if (auto handed_over = handed_over_.extract(why.name); !handed_over.empty())
      parts = std::move(handed_over.mapped());
  }
  for (const auto& part : parts) file.add_part(part);
  for (const auto rank : why.missing)
    file.add_part(
        {{"problem", fmt::format("rank {} has not delivered its frames within {} s", rank, part_patience.count())}});
  const auto closed = file.close(why.ended_by);
  for (const auto& lack : file.partial()) parts_.report.note(file.path(), lack);
  auto& counts = control_->counts();
  ++(closed.ok() && file.problem().empty() ? counts.complete : counts.failed);
  std::lock_guard lock(mutex_);
  ends_[why.generation] = {
      {"problem", file.problem()}, {"ended_by", series::name(why.ended_by)}, {"safe_below", value(file.safe_below())}};
}

void Coordinator::report_end(SeriesFile& file, const series::Close& why) {
  const auto& unique_id = file.series().unique_id;
  const auto problem = file.problem();
  const auto safe_below = file.safe_below();
  for (const auto& session : file.sessions()) {
    session->ended(unique_id, series::name(why.ended_by), safe_below);
    session->closed(unique_id, problem);
  }
  events_.ended(file, why.ended_by, problem);
  control_->note_closed();
  std::lock_guard lock(mutex_);
  ends_.erase(why.generation);
}

void Coordinator::notify(const series::Notify& what) {
  using What = series::Notify::What;
  auto message = notice("", what.name);
  switch (what.what) {
    case What::opened:
    case What::in_vain:
      message["tell"] = "called";
      message["generation"] = what.generation;
      message["in_vain"] = what.what == What::in_vain;
      break;
    case What::hand_over: message["tell"] = "close"; break;
    case What::closed: {
      std::lock_guard lock(mutex_);
      message.update(ends_[what.generation]);
      message["tell"] = "closed";
      break;
    }
    default: return;  // of connections
  }
  parts_.team.tell(what.rank, message);
}

void Coordinator::refused(const std::string& series_unique_id, const Error& why) {
  parts_.report.refused(series_unique_id, why);
}

void Coordinator::end_all() { control_->present(series::EndAll{}); }

void Coordinator::tick(const std::vector<std::shared_ptr<SeriesFile>>& open, bool /*frames_wait*/) {
  for (const auto& file : open) events_.progress(*file, control_->ends_in_ns(file->series().unique_id), monotonic_ns());
}

/// On the team's thread.
Result<json> Coordinator::answer(unsigned from, const json& question) {
  const auto what = question.value("ask", std::string());
  if (what == "begin") return answer_begin(from, question);
  if (what == "find") return answer_find(from, question);
  if (what == "terms") return answer_terms(question);
  if (what == "end") {
    const auto file = control_->find(series_in(question));
    return json{{"end", file ? file->stats().ledger.end : std::uint64_t{0}}};
  }
  return make_error(Errc::malformed, "rank {} asks \"{}\"", from, what);
}

Result<json> Coordinator::answer_begin(unsigned from, const json& question) {
  PEN_ASSIGN(auto series, start_from(question, parts_.config));
  const bool answered = question.value("session", false);
  PEN_ASSIGN(const auto found,
             control_->begin_elsewhere({.series = std::move(series), .answered = answered, .rank = from}));
  if (found.waits) return json{{"waits", true}, {"channels", found.channels}};
  return json{{"path", (*found.file)->path()}};
}

Result<json> Coordinator::answer_find(unsigned from, const json& question) {
  PEN_ASSIGN(const auto found, control_->find_elsewhere(series_in(question), from, question.value("again", false),
                                                        question.value("waited_ns", std::int64_t{0})));
  if (found.waits) return json{{"waits", true}, {"channels", found.channels}};
  auto reply = start_to_json((*found.file)->series(), false);
  reply["path"] = (*found.file)->path();
  return reply;
}

Result<json> Coordinator::answer_terms(const json& question) {
  const auto unique_id = series_in(question);
  const auto file = control_->find(unique_id);
  if (!file) return make_error(Errc::out_of_order, "series \"{}\" is closed already", unique_id);
  const auto encoding = encoding_of(question.value("encoding", std::string()));
  if (!encoding) return make_error(Errc::malformed, "a message between ranks has no encoding");
  PEN_ASSIGN(const auto columns, columns_from(question.value("columns", json::array())));
  PEN_ASSIGN(const auto terms, file->terms(*encoding, columns));
  return to_json(terms);
}

/// On the job's thread, which must not wait.
void Coordinator::hear(unsigned from, const json& message) {
  const auto what = message.value("tell", std::string());
  const auto name = series_in(message);
  if (what == "end") return control_->present(ended(end_from(message), from));
  if (what == "blemishes") return hear_blemishes(message);
  if (what == "part") return hear_part(from, message);
  if (what == "caught_up")
    return control_->present(series::CaughtUp{name, from, message.value("generation", std::uint64_t{0})});
  if (what == "end_series") return end_all();
  if (what == "refused")
    return control_->refuse_start(name, make_error(Errc::refused, "{}", message.value("problem", std::string())));
  if (what == "event") return parts_.events.pass_on(message.value("line", std::string()));
  if (what == "stop") return say_stop();
  if (what == "busy")
    if (const auto file = control_->find(name)) file->note_activity(monotonic_ns());
  if (what != "stopped") return;
  std::lock_guard lock(mutex_);
  stopped_ranks_.insert(from);
  stopped_.notify_all();
}

void Coordinator::hear_part(unsigned from, const json& message) {
  const auto name = series_in(message);
  // One that comes too late is of a file that is closed.
  if (control_->find(name)) {
    std::lock_guard lock(mutex_);
    handed_over_[name].push_back(message.value("part", json::object()));
  }
  control_->present(series::HandedOver{name, from});
}

void Coordinator::hear_blemishes(const json& message) {
  const auto file = control_->find(series_in(message));
  if (!file) return;
  for (const auto& frame : message.value("frames", json::array()))
    if (frame.is_array() && frame.size() == 2)
      file->unplaced_elsewhere(FrameNumber{frame[0].get<std::uint64_t>()},
                               static_cast<FrameState>(frame[1].get<int>()));
}

}  // namespace penstock::recorder
