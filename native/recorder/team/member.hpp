/// The role of every rank but the coordinator: it asks that one for files, joins them with its first frame, and hands
/// over what it did when a series closes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "recorder/team/rank_role.hpp"
#include "recorder/team/team.hpp"

namespace penstock::recorder {

class Member final : public RankRole {
 public:
  /// All of them outlive it.
  Member(Env& env, const Config& config, Team& team) : env_(env), config_(config), team_(team) {}

  void start(Control& control) override;
  void wait_for_stop() override;
  Found open(Series& series, bool answered) override;
  Found seek(const std::string& series_unique_id, bool again) override;
  Result<void> take_part(SeriesFile& file, Series& series, bool answered) override;
  void close(SeriesFile& file, const series::Close& why) override;
  void report_end(SeriesFile& /*file*/, const series::Close& /*why*/) override {}
  void notify(const series::Notify& what) override;
  bool has_handed_over(const std::string& series_unique_id) override;
  void begun(const SeriesFile& /*file*/) override {}
  void refused(const std::string& series_unique_id, const Error& why) override;
  void end_all() override;
  void tick(const std::vector<std::shared_ptr<SeriesFile>>& open, bool frames_wait) override;
  void dismiss() override {}
  void say_stop() override;
  bool told_to_stop() const override { return told_to_stop_; }

 private:
  void hear(const nlohmann::json& notice);
  void hear_closed(const nlohmann::json& notice);
  Result<nlohmann::json> ask(const nlohmann::json& question);
  Found join(Series series, const nlohmann::json& answer);

  Env& env_;
  const Config& config_;
  Team& team_;
  Control* control_ = nullptr;  // constant after start()
  std::atomic<bool> told_to_stop_{false};
  std::int64_t busy_told_ns_ = 0;  // of the timekeeper
  std::mutex mutex_;
  std::condition_variable changed_;
  // guarded by mutex_
  bool dismissed_ = false;
  std::map<std::string, std::vector<Session>> pending_;  ///< of series that the coordinator is closing
};

}  // namespace penstock::recorder
