/// The coordinator's role: it makes and closes the files of all ranks, answers their questions, and has the last word
/// on each series. Alone it has nobody to answer.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "recorder/series/opening/file_maker.hpp"
#include "recorder/service/series_events.hpp"
#include "recorder/team/rank_role.hpp"

namespace penstock::recorder {

class Coordinator final : public RankRole {
 public:
  explicit Coordinator(const RoleParts& parts)
      : parts_(parts),
        maker_(parts.env, parts.config, parts.team, parts.events, parts.report),
        events_(parts.events, parts.report, parts.pool) {}

  void start(Control& control) override;
  void wait_for_stop() override;
  Found open(Series& series, bool answered) override;
  Found seek(const std::string& series_unique_id, bool again) override;
  Result<void> take_part(SeriesFile& file, Series& series, bool answered) override;
  void close(SeriesFile& file, const series::Close& why) override;
  void report_end(SeriesFile& file, const series::Close& why) override;
  void notify(const series::Notify& what) override;
  bool has_handed_over(const std::string& /*series_unique_id*/) override { return false; }
  void begun(const SeriesFile& file) override { events_.begin(file); }
  void refused(const std::string& series_unique_id, const Error& why) override;
  void end_all() override;
  void tick(const std::vector<std::shared_ptr<SeriesFile>>& open, bool frames_wait) override;
  void dismiss() override { parts_.team.tell_all({{"tell", "dismissed"}}); }
  void say_stop() override;
  bool told_to_stop() const override { return told_to_stop_; }

 private:
  Result<nlohmann::json> answer(unsigned from, const nlohmann::json& question);
  Result<nlohmann::json> answer_begin(unsigned from, const nlohmann::json& question);
  Result<nlohmann::json> answer_find(unsigned from, const nlohmann::json& question);
  Result<nlohmann::json> answer_terms(const nlohmann::json& question);
  void hear(unsigned from, const nlohmann::json& notice);
  void hear_part(unsigned from, const nlohmann::json& notice);
  void hear_blemishes(const nlohmann::json& notice);

  const RoleParts parts_;
  FileMaker maker_;
  SeriesEvents events_;
  Control* control_ = nullptr;  // constant after start()
  std::atomic<bool> told_to_stop_{false};
  std::mutex mutex_;
  std::condition_variable stopped_;
  // guarded by mutex_
  std::set<unsigned> stopped_ranks_;
  std::map<std::string, std::vector<nlohmann::json>> handed_over_;  ///< parts of series that close
  std::map<std::uint64_t, nlohmann::json> ends_;                    ///< how they ended, until ranks have heard
};

}  // namespace penstock::recorder
