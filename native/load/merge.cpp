#include "load/merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "load/problem.hpp"

namespace penstock::load {
namespace {

using Documents = std::vector<std::pair<unsigned, const Json*>>;  // of ranks that have one

Json sum(const Json& one, const Json& other) {
  if (one.is_null() || other.is_null()) return nullptr;
  if (one.is_number_unsigned() && other.is_number_unsigned())
    return one.get<std::uint64_t>() + other.get<std::uint64_t>();
  return one.get<double>() + other.get<double>();
}

/// A time that a rank does not have does not count.
Json least(const Json& one, const Json& other) {
  if (one.is_null() || other.is_null()) return one.is_null() ? other : one;
  return std::min(one, other);
}
Json most(const Json& one, const Json& other) {
  if (one.is_null() || other.is_null()) return one.is_null() ? other : one;
  return std::max(one, other);
}

using Combine = Json (*)(const Json&, const Json&);

void combine(Json& into, const Json& from, Combine how, std::initializer_list<const char*> names) {
  for (const char* name : names) into[name] = how(into[name], from.at(name));
}

void combine_columns(Json& into, const Json& from, Combine how, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    auto& column = into[name];
    const auto& other = from.at(name);
    for (std::size_t i = 0; i < other.size(); ++i) {
      if (i < column.size())
        column[i] = how(column[i], other[i]);
      else
        column.push_back(other[i]);
    }
  }
}

void add_histogram(Json& into, const Json& from) {
  std::map<std::uint64_t, Json> buckets;
  for (const auto& bucket : into["buckets"]) buckets[bucket[0].get<std::uint64_t>()] = bucket;
  for (const auto& bucket : from.at("buckets")) {
    auto& mine = buckets[bucket[0].get<std::uint64_t>()];
    if (mine.is_null())
      mine = bucket;
    else
      mine[2] = sum(mine[2], bucket[2]);
  }
  into["buckets"] = Json::array();
  for (auto& [lowest, bucket] : buckets) into["buckets"].push_back(std::move(bucket));
  combine(into, from, sum, {"count"});
  combine(into, from, most, {"max_ns"});
}

void add_histograms(Json& into, const Json& from) {
  for (auto& [name, histogram] : into.items()) add_histogram(histogram, from.at(name));
}

void add_series(Json& into, const Json& from) {
  combine_columns(into, from, sum, {"due", "dropped", "done", "late", "bytes"});
  combine_columns(into, from, most, {"held_max", "time_max_ns"});
}

/// Threads, or writers, of all ranks, each with its rank.
Json of_all_ranks(const Documents& documents, const std::function<const Json*(const Json&)>& list_of) {
  auto all = Json::array();
  for (const auto& [rank, document] : documents) {
    const auto* list = list_of(*document);
    if (list == nullptr) continue;
    for (auto one : *list) {
      one["rank"] = rank;
      all.push_back(std::move(one));
    }
  }
  return all;
}

/// Each host's counters once, of all hosts together, and what the ranks themselves used.
Json machine_of(const Documents& documents, const std::vector<Json>& parts, const char* when) {
  Json all;
  std::set<std::string> hosts;
  for (const auto& [rank, document] : documents) {
    const auto& one = document->at("machine").at(when);
    const bool is_new = hosts.insert(parts[rank].at("rank").at("host").get<std::string>()).second;
    if (all.is_null()) {
      all = one;
      continue;
    }
    if (!all["own"].is_null() && !one.at("own").is_null())
      for (auto& [name, value] : all["own"].items()) value = sum(value, one["own"].at(name));
    if (!is_new) continue;
    all["processors"] = sum(all["processors"], one.at("processors"));
    for (const char* kind : {"processor_seconds", "memory_bytes"})
      if (all[kind].is_object() && one.at(kind).is_object())
        for (auto& [name, value] : all[kind].items()) value = sum(value, one[kind].value(name, Json()));
  }
  return all;
}

/// Frame k of rank r is frame k · ranks + r of all. Where a rank's end before others', its frames are not done.
Json records_of(const Documents& documents, std::size_t ranks) {
  auto all = Json::object();
  for (const char* name : {"offered_ns", "start_ns", "done_ns", "waited_ns"}) {
    std::size_t frames = 0;
    for (const auto& [rank, document] : documents)
      if (const auto& mine = document->at("records").at(name); !mine.empty())
        frames = std::max(frames, (mine.size() - 1) * ranks + rank + 1);
    std::vector<std::int64_t> times(frames, -1);
    for (const auto& [rank, document] : documents) {
      const auto& mine = document->at("records").at(name);
      for (std::size_t k = 0; k < mine.size(); ++k) times[k * ranks + rank] = mine[k].get<std::int64_t>();
    }
    all[name] = std::move(times);
  }
  return all;
}

Json frames_of(Json all, const Documents& documents, std::size_t ranks) {
  for (std::size_t i = 1; i < documents.size(); ++i) {
    const auto& from = *documents[i].second;
    combine(all["frames"], from.at("frames"), sum,
            {"planned", "due", "written", "dropped", "late", "failed", "unfinished", "bytes"});
    combine(all["seconds"], from.at("seconds"), least, {"first_done"});
    combine(all["seconds"], from.at("seconds"), most, {"last_due", "last_done", "completed"});
    const auto& buffer = from.at("buffer");
    if (buffer.at("stall_s") > all["buffer"]["stall_s"]) {
      all["buffer"]["stall_s"] = buffer["stall_s"];
      all["buffer"]["stall_end_s"] = buffer["stall_end_s"];
    }
    combine(all["buffer"], buffer, most, {"held_max"});
    add_histograms(all["times"], from.at("times"));
    combine(all["generator"], from.at("generator"), most, {"pacer_waited_ns"});
    combine(all["generator"], from.at("generator"), least, {"pacer_goes_first"});
    combine(all["generator"]["gaps"], from.at("generator").at("gaps"), most, {"longest_ns", "sum_ns"});
    for (const auto& gap : from.at("generator").at("stood_still_ns")) all["generator"]["stood_still_ns"].push_back(gap);
    add_series(all["series"], from.at("series"));
  }
  all["generator"]["writers"] =
      of_all_ranks(documents, [](const Json& one) { return &one.at("generator").at("writers"); });
  if (!all["records"].is_null()) all["records"] = records_of(documents, ranks);
  return all;
}

/// Ranks that were told to end have fewer phases than others.
Json phases_of(const Documents& documents) {
  auto all = Json::array();
  for (std::size_t number = 0;; ++number) {
    Json phase;
    for (const auto& [rank, document] : documents) {
      const auto& phases = document->at("phases");
      if (number >= phases.size()) continue;
      const auto& from = phases[number];
      if (phase.is_null()) {
        phase = from;
        continue;
      }
      combine(phase, from, sum, {"bytes", "operations", "mismatches", "verify_ns", "fill_ns", "cached_bytes"});
      combine(phase, from, most, {"storage_waited_ns"});
      combine(phase["gaps"], from.at("gaps"), most, {"longest_ns", "sum_ns"});
      add_histograms(phase["times"], from.at("times"));
      add_series(phase["series"], from.at("series"));
    }
    if (phase.is_null()) return all;
    phase["threads"] = of_all_ranks(documents, [number](const Json& one) {
      const auto& phases = one.at("phases");
      return number < phases.size() ? &phases[number].at("threads") : nullptr;
    });
    all.push_back(std::move(phase));
  }
}

/// One operation in one iteration.
void add_operation(Json& into, const Json& from) {
  combine(into, from, sum, {"operations"});
  combine(into, from, least, {"first_done_s"});
  combine(into, from, most, {"last_done_s"});
  combine(into["gaps"], from.at("gaps"), most, {"longest_ns", "sum_ns"});
  into["complete"] = into.at("complete").get<bool>() && from.at("complete").get<bool>();
}

/// A rank that ended early has fewer phases than others: what it has not done, no one knows the rate of.
void add_operations(Json& into, const Json& from) {
  for (std::size_t number = 0; number < std::max(into.size(), from.size()); ++number) {
    const bool both = number < into.size() && number < from.size();
    if (number >= into.size()) into.push_back(from[number]);
    if (both)
      add_operation(into[number], from[number]);
    else
      into[number]["complete"] = false;
  }
}

Json metadata_of(const Documents& documents) {
  auto all = documents.front().second->at("metadata");
  for (std::size_t i = 1; i < documents.size(); ++i) {
    const auto& from = documents[i].second->at("metadata");
    add_operations(all["phases"], from.at("phases"));
    add_histograms(all["times"], from.at("times"));
    for (const auto& waited : from.at("waited_ns")) all["waited_ns"].push_back(waited);
  }
  for (auto& phase : all["phases"])
    if (!phase["complete"].get<bool>()) phase["first_done_s"] = phase["last_done_s"] = nullptr;
  return all;
}

/// The first that there is, with its rank.
struct FirstProblem {
  Json text;
  Json failure;  ///< {code, path, detail}
};
FirstProblem problem_of(const std::vector<Json>& parts) {
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (parts[rank].is_null()) {
      const Problem missing(make_error(Errc::disconnected, "rank {} has not reported; its metrics are missing", rank));
      return {missing.text(), missing.to_json()};
    }
    if (const auto& problem = parts[rank].at("problem"); !problem.is_null())
      return {fmt::format("rank {}: {}", rank, problem.get<std::string>()), parts[rank].at("failure")};
  }
  return {};
}

}  // namespace

Json merge(const std::vector<Json>& parts) {
  Documents documents;
  auto ranks = Json::array();
  for (unsigned rank = 0; rank < parts.size(); ++rank) {
    if (parts[rank].is_null()) continue;
    auto about = parts[rank].at("rank");
    about["rank"] = rank;
    ranks.push_back(std::move(about));
    if (const auto& document = parts[rank].at("document"); document.is_object())
      documents.emplace_back(rank, &document);
  }
  if (documents.empty()) return {{"problem", problem_of(parts).text}};
  Json all = *documents.front().second;
  if (all.contains("phases")) all["phases"] = phases_of(documents);
  if (all.contains("frames")) all = frames_of(std::move(all), documents, parts.size());
  if (all.contains("metadata")) all["metadata"] = metadata_of(documents);
  for (const auto& [rank, document] : documents) combine(all["storage"], document->at("storage"), least, {"direct"});
  for (const char* when : {"before", "after"}) all["machine"][when] = machine_of(documents, parts, when);
  auto problem = problem_of(parts);
  all["problem"] = problem.text;
  all["failure"] = std::move(problem.failure);
  all["job"] = {{"ranks", parts.size()}, {"parts", std::move(ranks)}};
  return {{"document", std::move(all)}, {"problem", std::move(problem.text)}};
}

}  // namespace penstock::load
