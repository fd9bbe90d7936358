#include "recorder/service/metrics/stage_events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/time/thread_times.hpp"

namespace penstock::recorder {
namespace {

constexpr std::int64_t interval_ns = 500'000'000;
constexpr std::array<const char*, 4> queue_names{"pool_bytes", "frames", "segments", "index_segments"};

/// ZeroMQ's, which receive. Other threads of libraries are of no stage.
constexpr std::string_view zmq_prefix = "ZMQbg/IO";

/// How busy the threads of one name were.
struct Group {
  ThreadTimes times;
  unsigned threads = 0;      ///< now
  std::int64_t busiest = 0;  ///< since the last event, of one thread
};

std::map<std::string, Group> groups_of(const std::vector<ThreadTimes>& alive) {
  std::map<std::string, Group> groups;
  for (auto& times : times_by_name()) groups[times.name].times = times;
  for (const auto& times : alive) {
    if (!times.has_account && !times.name.starts_with(zmq_prefix)) continue;
    auto& group = groups[times.name];
    ++group.threads;
    if (times.has_account) continue;
    group.times.running_ns += times.running_ns;
    group.times.delayed_ns += times.delayed_ns;
  }
  return groups;
}

nlohmann::json described(const std::string& thread_name, const Group& group, double busiest) {
  nlohmann::json all = {{"name", thread_name},
                        {"threads", group.threads},
                        {"busiest", std::round(busiest * 1e4) * 1e-4},
                        {"alive_ns", group.times.alive_ns},
                        {"running_ns", group.times.running_ns},
                        {"delayed_ns", group.times.delayed_ns}};
  for (std::size_t i = 0; i < waits; ++i) all[fmt::format("{}_ns", name(Wait(i)))] = group.times.waited_ns[i];
  return all;
}

}  // namespace

void StageEvents::tick(std::int64_t now_ns) {
  const auto now = snapshot_();
  look(now);
  if (now_ns - emitted_ns_ < interval_ns) return;
  emit(now, now_ns);
  emitted_ns_ = now_ns;
  depths_ = {};
  looks_ = 0;
}

void StageEvents::look(const Snapshot& now) {
  const std::array<std::uint64_t, queues> depths{now.pool_used_bytes, now.queued_frames, now.meters.waiting_segments,
                                                 now.meters.index_segments};
  for (std::size_t i = 0; i < queues; ++i) {
    depths_[i].sum += static_cast<double>(depths[i]);
    depths_[i].peak = std::max(depths_[i].peak, depths[i]);
  }
  ++looks_;
}

/// Of each name, summed over its threads; a page at most, as a line may have that is emitted only if heard.
nlohmann::json StageEvents::threads(std::int64_t since_ns) {
  const auto alive = thread_times();
  auto groups = groups_of(alive);
  std::map<pid_t, std::int64_t> busy_ns;
  for (const auto& times : alive) {
    const auto group = groups.find(times.name);
    if (group == groups.end()) continue;
    const auto busy = busy_ns[times.id] = times.running_ns + times.delayed_ns;
    const auto before = busy_ns_.find(times.id);
    group->second.busiest = std::max(group->second.busiest, busy - (before == busy_ns_.end() ? 0 : before->second));
  }
  busy_ns_ = std::move(busy_ns);
  auto all = nlohmann::json::array();
  for (const auto& [thread_name, group] : groups)
    all.push_back(described(thread_name, group, static_cast<double>(group.busiest) / static_cast<double>(since_ns)));
  return all;
}

void StageEvents::emit(const Snapshot& now, std::int64_t now_ns) {
  nlohmann::json depths;
  for (std::size_t i = 0; i < queues; ++i)
    depths[queue_names[i]] = {{"mean", std::round(depths_[i].sum / static_cast<double>(looks_))},
                              {"peak", depths_[i].peak}};
  events_.emit_if_heard("stages", {{"rank", rank_},
                                   {"monotonic_ns", now_ns},
                                   {"frames_received", now.meters.frames_received},
                                   {"frames_written", now.meters.frames_written},
                                   {"pool_bytes", now.pool_bytes},
                                   {"segment_bytes", now.meters.segment_bytes},
                                   {"writing_ns", now.meters.writing_ns},
                                   {"threads", threads(now_ns - emitted_ns_)},
                                   {"queues", std::move(depths)}});
}

}  // namespace penstock::recorder
