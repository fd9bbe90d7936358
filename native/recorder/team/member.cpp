#include "recorder/team/member.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/time/clock.hpp"
#include "recorder/service/control.hpp"
#include "recorder/team/messages.hpp"

namespace penstock::recorder {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr auto answer_patience = seconds(60);
constexpr auto opening_patience = seconds(600);  ///< for a file that was left to be completed
constexpr auto ask_again_interval = std::chrono::milliseconds(20);
constexpr std::int64_t busy_interval_ns = 200'000'000;

}  // namespace

void Member::start(Control& control) {
  control_ = &control;
  team_.start({{}, [this](unsigned /*from*/, const auto& notice) { hear(notice); }});
}

void Member::say_stop() {
  if (!told_to_stop_.exchange(true)) team_.tell(job::lead, {{"tell", "stop"}});
}

void Member::wait_for_stop() {
  say_stop();
  team_.tell(job::lead, {{"tell", "stopped"}});
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return dismissed_; });
}

Result<json> Member::ask(const json& question) {
  return team_.ask(question, config_.resume ? opening_patience : answer_patience);
}

Found Member::open(Series& series, bool answered) {
  const auto question = start_to_json(series, answered);
  auto answer = ask(question);
  while (!answer.ok() && answer.error().code() == Errc::locked && !told_to_stop_) {
    std::this_thread::sleep_for(ask_again_interval);
    answer = ask(question);
  }
  if (!answer.ok()) return {.file = std::move(answer).error()};
  if (answer->value("waits", false))
    return {.waits = true, .channels = answer->value("channels", std::vector<std::string>())};
  return join(std::move(series), *answer);
}

/// Its start may still be on its way to another rank: the coordinator says how long that is waited for.
Found Member::seek(const std::string& series_unique_id, bool again) {
  const auto asked_ns = monotonic_ns();
  const auto find = [&] {
    return ask({{"ask", "find"},
                {"series_unique_id", series_unique_id},
                {"again", again},
                {"waited_ns", monotonic_ns() - asked_ns}});
  };
  auto answer = find();
  while (!answer.ok() && answer.error().code() == Errc::locked && !told_to_stop_) {
    std::this_thread::sleep_for(ask_again_interval);
    answer = find();
  }
  if (!answer.ok()) return {.file = std::move(answer).error()};
  if (answer->value("waits", false))
    return {.waits = true, .channels = answer->value("channels", std::vector<std::string>())};
  auto series = start_from(*answer, config_);
  if (!series.ok()) return {.file = std::move(series).error(), .fault = Found::Fault::no_part};
  return join(std::move(*series), *answer);
}

/// The coordinator's file through this rank's folder, which may be another mount of the coordinator's.
Found Member::join(Series series, const json& answer) {
  const auto name = std::filesystem::path(answer.value("path", std::string())).filename().string();
  return {.file = SeriesFile::join(env_, config_, team_, std::move(series), config_.folder + "/" + name),
          .fault = Found::Fault::no_part};
}

Result<void> Member::take_part(SeriesFile& file, Series& series, bool answered) {
  file.element_starts().begin(series);
  PEN_TRY(ask(start_to_json(series, answered)));
  return {};
}

/// Keeps its senders waiting for the coordinator's word.
void Member::close(SeriesFile& file, const series::Close& why) {
  (void)file.close(why.ended_by);  // its problem is in the part
  {
    std::lock_guard lock(mutex_);
    pending_[why.name] = file.sessions();
  }
  auto message = notice("part", why.name);
  message["part"] = file.part();
  team_.tell(job::lead, message);
}

void Member::notify(const series::Notify& what) {
  using What = series::Notify::What;
  switch (what.what) {
    case What::ended:
      return team_.tell(job::lead,
                        to_json(SeriesEnd{.unique_id = what.name,
                                          .by_all = what.by_all,
                                          .element = what.who.element,
                                          .source = what.who.way == series::Way::pulled ? what.who.source : "",
                                          .by_start = what.by_start,
                                          .answered = what.who.way == series::Way::tcp}));
    case What::caught_up: {
      auto message = notice("caught_up", what.name);
      message["generation"] = what.generation;
      return team_.tell(job::lead, message);
    }
    case What::handed_over: {
      auto message = notice("part", what.name);
      message["part"] = json::object();
      return team_.tell(job::lead, message);
    }
    default: return;  // a start that takes part is asked for
  }
}

bool Member::has_handed_over(const std::string& series_unique_id) {
  std::lock_guard lock(mutex_);
  return pending_.contains(series_unique_id);
}

void Member::refused(const std::string& series_unique_id, const Error& why) {
  auto message = notice("refused", series_unique_id);
  message["problem"] = why.message();
  team_.tell(job::lead, message);
}

void Member::end_all() { team_.tell(job::lead, {{"tell", "end_series"}}); }

/// What is on its way here keeps the coordinator from closing.
void Member::tick(const std::vector<std::shared_ptr<SeriesFile>>& open, bool frames_wait) {
  const auto now_ns = monotonic_ns();
  if (now_ns - busy_told_ns_ < busy_interval_ns) return;
  busy_told_ns_ = now_ns;
  for (const auto& file : open)
    if (frames_wait || file->facts().busy) team_.tell(job::lead, notice("busy", file->series().unique_id));
}

/// On the job's thread, which must not wait.
void Member::hear(const json& message) {
  const auto what = message.value("tell", std::string());
  const auto name = series_in(message);
  if (what == "called")
    return control_->present(
        series::Called{name, message.value("generation", std::uint64_t{0}), message.value("in_vain", false)});
  if (what == "close") return control_->present(series::CloseAsked{name});
  if (what == "closed") return hear_closed(message);
  if (what == "stop") told_to_stop_ = true;
  if (what != "dismissed") return;
  std::lock_guard lock(mutex_);
  dismissed_ = true;
  changed_.notify_all();
}

void Member::hear_closed(const json& message) {
  const auto name = series_in(message);
  std::vector<Session> sessions;
  {
    std::lock_guard lock(mutex_);
    if (auto pending = pending_.extract(name); !pending.empty()) sessions = std::move(pending.mapped());
  }
  for (const auto& session : sessions) {
    session->ended(name, message.value("ended_by", std::string()),
                   FrameNumber{message.value("safe_below", std::uint64_t{0})});
    session->closed(name, message.value("problem", std::string()));
  }
}

}  // namespace penstock::recorder
