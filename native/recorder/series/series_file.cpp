#include "recorder/series/series_file.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/time/clock.hpp"
#include "recorder/series/rank_part.hpp"

namespace penstock::recorder {
namespace {

/// For the workers of a series that is to close, before what they left unfilled is sent on its way.
constexpr auto idle_patience = std::chrono::milliseconds(50);
constexpr auto care_interval = std::chrono::milliseconds(50);
constexpr std::int64_t segment_age_max_ns = 200'000'000;

}  // namespace

SeriesFile::SeriesFile(Env& env, Team& team, std::unique_ptr<FileRole> role, SeriesSpec spec,
                       std::unique_ptr<Blocks> blocks, std::vector<ChannelFilter> filters)
    : role_(std::move(role)),
      spec_(std::move(spec)),
      blocks_(std::move(blocks)),
      account_(spec_.parts(), spec_.path()),
      element_starts_(spec_, role_->completes()),
      coding_(spec_, std::move(filters)),
      tree_(spec_, coding_, element_starts_, role_->writers()),
      store_(team),
      watch_(spec_, account_, store_),
      settlement_(spec_, account_, watch_, *role_, blocks_.get()),
      encoder_(spec_, coding_, account_, settlement_),
      assembler_(spec_, account_, settlement_, encoder_, blocks_.get()),
      opener_(env, *role_, spec_, account_, {coding_, tree_, settlement_, encoder_, store_}),
      admission_(spec_, account_, *role_, {opener_, tree_, assembler_, settlement_, watch_}) {
  if (blocks_) account_.ledger.watch_windows();
  account_.counters.last_activity_ns = monotonic_ns();
}

/// The store's threads call the settlement until the store is gone.
SeriesFile::~SeriesFile() {
  care_.tends.stop();
  care_.looks.stop();
  opener_.drop_store();
}

Result<std::shared_ptr<SeriesFile>> SeriesFile::make(Env& env, const Config& config, Team& team, Series series,
                                                     std::string path) {
  auto role = make_file_role(team);
  PEN_ASSIGN(auto spec, SeriesSpec::make(config, role->writers(), std::move(series), std::move(path)));
  PEN_ASSIGN(auto blocks, Assembler::make_blocks(spec));
  PEN_TRY(spec.check_segments());
  PEN_TRY(spec.check_window(spec.series().window_frames));
  PEN_ASSIGN(auto filters,
             settle_filters(config.filters, spec.series(), chunk_shape(spec.series(), spec.arrangement())));
  std::shared_ptr<SeriesFile> file(
      new SeriesFile(env, team, std::move(role), std::move(spec), std::move(blocks), std::move(filters)));
  file->care_.tends.start("pen-care", care_interval,
                          [raw = file.get()] { raw->tend(monotonic_ns(), segment_age_max_ns); });
  file->care_.looks.start("pen-look", care_interval,
                          [raw = file.get()] { raw->watch_.give_up_if_hopeless(monotonic_ns()); });
  return file;
}

Result<std::shared_ptr<SeriesFile>> SeriesFile::create(Env& env, const Config& config, Team& team, Series series,
                                                       std::string path) {
  PEN_ASSIGN(auto file, make(env, config, team, std::move(series), std::move(path)));
  PEN_TRY(file->opener_.create(false));
  return file;
}

Result<std::shared_ptr<SeriesFile>> SeriesFile::resume(Env& env, const Config& config, Team& team, Series series,
                                                       std::string path) {
  PEN_ASSIGN(auto file, make(env, config, team, std::move(series), std::move(path)));
  PEN_TRY(file->opener_.resume());
  return file;
}

Result<std::shared_ptr<SeriesFile>> SeriesFile::without_file(Env& env, const Config& config, Team& team, Series series,
                                                             std::string path, const Error& why) {
  PEN_ASSIGN(auto file, make(env, config, team, std::move(series), std::move(path)));
  file->opener_.retry_later(why);
  return file;
}

Result<std::shared_ptr<SeriesFile>> SeriesFile::join(Env& env, const Config& config, Team& team, Series series,
                                                     std::string path) {
  return make(env, config, team, std::move(series), std::move(path));
}

nlohmann::json SeriesFile::part() const { return rank_part(stats(), account_, tree_, settlement_); }

void SeriesFile::add_part(const nlohmann::json& part) { add_rank_part(part, account_, tree_, settlement_); }

void SeriesFile::encode(Task task, unsigned worker, ChunkScratch& scratch) {
  const auto started = monotonic_ns();
  if (assembler_) {
    assembler_.gather(std::move(task), worker, scratch);
    return account_.counters.note_encoding(monotonic_ns() - started);
  }
  encoder_.encode(task, worker, scratch);
  account_.counters.note_encoding(monotonic_ns() - started);
  task = {};  // the payload's memory goes back before the series may close
  account_.in_flight.end_task();
}

void SeriesFile::tend(std::int64_t now_ns, std::int64_t age_max_ns) {
  const bool no_more_comes = care_.hurries || is_complete(spec_, account_);
  if (store_.is_ready()) encoder_.flush_older_than(no_more_comes ? now_ns : now_ns - age_max_ns);
  if (store_.is_ready() && no_more_comes) store_->hurry();
  watch_.ask_again(now_ns);
}

series::Facts SeriesFile::facts() const {
  const auto end = account_.ledger.end();
  // tend() takes the losers on another thread, and has set the time by then.
  const bool whole = is_complete(spec_, account_);
  const bool busy = account_.in_flight.busy(assembler_.waiting());
  const bool losers = account_.ledger.has_losers();
  return {.last_activity = account_.counters.last_activity_ns,
          .asked_again = watch_.asked_again_ns(),
          .any_frame = end > 0,
          .whole = whole,
          .busy = busy,
          .losers = losers,
          .lost = account_.ledger.still_lost() > 0,
          .abandoned = end == 0 && settlement_.sessions().are_gone(),
          .hopeless = watch_.is_hopeless()};
}

Result<void> SeriesFile::close(series::EndedBy why) {
  auto& failures = account_.failures;
  stop_waiting();
  care_.tends.cancel();
  care_.looks.cancel();
  // A worker may wait for memory that another one's segment holds, which no frame will fill any more.
  account_.in_flight.close(idle_patience, [&] {
    if (store_.is_ready()) encoder_.flush_older_than(monotonic_ns());
  });
  // The first writer may have to wait for memory that another one's segment holds.
  if (assembler_) encoder_.flush();
  assembler_.write_open_blocks();
  encoder_.finish();
  if (store_) store_->hurry();
  if (!store_) (void)settlement_.settle_unplaced(nullptr);
  if (!store_) return problem().empty() ? Result<void>{} : make_error(Errc::io, "{}", failures.first());
  const auto frames = std::max(series().frames, account_.ledger.end());
  // What became of the last segments' frames belongs into the final counts.
  account_.in_flight.wait_until_settled();
  account_.settled = role_->completes();
  // The coordinator hears no more of other ranks; another rank hears the coordinator until all is settled.
  if (role_->completes()) {
    store_.leave();
    settlement_.settle_partial();
  }
  const bool resumed = account_.counters.frames_before > 0;
  auto values = tree_.values_at_end(account_, {.frames = frames,
                                               .filled = spec_.filled(account_.ledger.counts()),
                                               .ended_by = series::name(why),
                                               .resumed = resumed,
                                               .unfitting = [&] { return settlement_.unfitting(); }});
  values.late_columns = settlement_.has_late() || resumed;
  auto finished = store_->finish(values);
  store_.leave();
  if (!finished.ok()) failures.spoil(finished.error());
  if (problem().empty() && !failures.first().empty())
    spdlog::info("{}: frames that the storage had failed to write were sent again and are stored: {}", path(),
                 failures.first());
  return finished;
}

std::string SeriesFile::holdup() const {
  if (!watch_.is_failing()) return {};
  const bool full = account_.failures.last().code() == Errc::no_space;
  return full ? "storage full: waiting for space" : "storage failed: trying again";
}

std::string SeriesFile::problem() const {
  const bool recovered =
      account_.settled && has_what_was_lost(spec_, account_, !role_->shares()) && !account_.failures.is_spoiled();
  return recovered ? std::string() : account_.failures.first();
}

}  // namespace penstock::recorder
