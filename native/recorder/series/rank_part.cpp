#include "recorder/series/rank_part.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace penstock::recorder {

nlohmann::json rank_part(const SeriesStats& stats, const SeriesAccount& account, const SeriesTree& tree,
                         const Settlement& settlement) {
  const auto& counts = stats.ledger;
  auto parts = nlohmann::json::array();
  for (const auto& each : account.ledger.parts()) parts.push_back({each.late, each.duplicate, each.damaged});
  return {{"parts", std::move(parts)},
          {"duplicate", counts.duplicate},
          {"late", counts.late},
          {"damaged", counts.damaged},
          {"dropped", counts.dropped},
          {"lost", counts.lost},
          {"end", counts.end},
          {"unfiltered", stats.unfiltered},
          {"encode_ns", stats.encode_ns},
          {"write_ns", stats.store.write_ns},
          {"sync_ns", stats.store.sync_ns},
          {"latency", stats.latency.values()},
          {"edges", to_json(tree.edges())},
          {"unfitting", settlement.unfitting_here()},
          {"late_columns", settlement.has_late_here()},
          {"received_ns", account.counters.last_received_ns.load()},
          {"problem", account.failures.first()},
          {"spoiled", account.failures.is_spoiled()}};
}

void add_rank_part(const nlohmann::json& part, SeriesAccount& account, SeriesTree& tree, Settlement& settlement) {
  LedgerCounts counts;
  counts.duplicate = part.value("duplicate", std::uint64_t{0});
  counts.late = part.value("late", std::uint64_t{0});
  counts.damaged = part.value("damaged", std::uint64_t{0});
  counts.dropped = part.value("dropped", std::uint64_t{0});
  counts.lost = part.value("lost", std::uint64_t{0});
  counts.end = part.value("end", std::uint64_t{0});
  account.ledger.add(counts);
  std::vector<PartCounts> parts;
  for (const auto& each : part.value("parts", nlohmann::json::array()))
    parts.push_back({.late = each.at(0), .duplicate = each.at(1), .damaged = each.at(2)});
  account.ledger.add(parts);
  auto& counters = account.counters;
  counters.note_received(part.value("received_ns", std::int64_t{0}));
  counters.unfiltered += part.value("unfiltered", std::uint64_t{0});
  counters.encode_ns += part.value("encode_ns", std::int64_t{0});
  counters.write_ns_elsewhere += part.value("write_ns", std::int64_t{0});
  counters.sync_ns_elsewhere += part.value("sync_ns", std::int64_t{0});
  if (const auto problem = part.value("problem", std::string()); !problem.empty())
    account.failures.note(make_error(Errc::io, "{}", problem), part.value("spoiled", true));
  tree.merge_edges(edges_from(part.value("edges", nlohmann::json())));
  settlement.unfitting_elsewhere().add(part.value("unfitting", std::vector<std::uint64_t>()));
  if (part.value("late_columns", false)) settlement.note_late_elsewhere();
  account.written.merge_latency(part.value("latency", std::vector<std::uint64_t>()));
}

}  // namespace penstock::recorder
