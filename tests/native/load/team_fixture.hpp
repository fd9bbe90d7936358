/// Ranks as threads of this process; real ones are tested in tests/python/bench/test_bench_ranks.py.
#pragma once

#include <array>
#include <future>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "../support/thread_job.hpp"
#include "load/team.hpp"
#include "load_fixture.hpp"

namespace penstock::load {

template <unsigned count>
class TeamOf : public LoadTest {
 protected:
  static constexpr unsigned ranks = count;
  using OnEvent = std::function<void(unsigned rank, std::string_view event, const Json& fields)>;

  /// Runs the plan by all ranks but those that are absent; each one's outcome, in order.
  std::vector<Result<Outcome>> run_by_ranks(const Json& plan, const OnEvent& on_event, double silence_s_max = 60,
                                            std::set<unsigned> absent = {}, Env& env = posix_env()) {
    const auto parsed = LoadPlan::from_json(plan.dump());
    EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message());
    std::vector<std::future<Result<Outcome>>> all;
    for (unsigned rank = 0; rank < ranks; ++rank) {
      if (absent.contains(rank)) continue;
      all.push_back(std::async(std::launch::async, [&, rank]() -> Result<Outcome> {
        auto job = world_->rank(rank);
        JobTeam team(
            *job, stops_[rank], [] {}, silence_s_max);
        PEN_TRY(team.start());
        const auto emit = [&](std::string_view event, const Json& fields) {
          on_event(rank, event, event == "progress" ? team.beat(fields) : fields);
        };
        auto outcome = run_together(*parsed, {env, emit, stops_[rank], team, make_other_}, team);
        if (team.complete()) job->stop();
        job.reset();  // what others still say to this rank goes nowhere
        return outcome;
      }));
    }
    std::vector<Result<Outcome>> outcomes;
    for (auto& one : all) outcomes.push_back(one.get());
    if (absent.empty()) begin_anew();
    return outcomes;
  }
  /// For the next job: the inboxes of one are closed for good at its end, and its ranks may have been stopped by
  /// SIGTERM.
  void begin_anew() {
    world_ = std::make_unique<testing::ThreadWorld>(ranks);
    for (auto& each : stops_) each = false;
  }
  Json document_by_ranks(const Json& plan) {
    auto outcomes = run_by_ranks(plan, [](auto, auto, const auto&) {});
    EXPECT_TRUE(outcomes[0]) << (outcomes[0] ? "" : outcomes[0].error().message());
    for (unsigned rank = 1; rank < ranks; ++rank) EXPECT_TRUE(outcomes[rank]->document.is_null());
    return outcomes[0]->document;
  }

  Json stream(int threads) const {
    return {{"backend", {{"kind", "posix"}, {"folder", folder_.string()}, {"direct", false}, {"sync", "end"}}},
            {"workload",
             {{"kind", "stream"},
              {"threads", threads},
              {"thread_bytes", 20 * 65536},
              {"transfer_bytes", 65536},
              {"verify", true}}}};
  }
  /// 2 threads of each rank, a tree each.
  Json names(int items) const {
    return {{"backend", {{"kind", "posix"}, {"folder", folder_.string()}, {"direct", false}, {"sync", "none"}}},
            {"workload", {{"kind", "metadata"}, {"threads", 2}, {"items", items}, {"file_bytes", 700}}}};
  }
  static Json slow_frames(int frames) {
    return {{"backend", {{"kind", "null"}, {"delay_s", 0.01}}},
            {"workload",
             {{"kind", "frames"}, {"frames", frames}, {"frame_bytes", 100}, {"rate_hz", 0}, {"record", false}}}};
  }

  decltype(RunContext::make_other) make_other_ = nullptr;
  std::unique_ptr<testing::ThreadWorld> world_ = std::make_unique<testing::ThreadWorld>(ranks);
  std::array<std::atomic<bool>, ranks> stops_{};
};

using TeamTest = TeamOf<3>;

}  // namespace penstock::load
