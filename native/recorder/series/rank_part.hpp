/// What one rank did for a series, as a message: the coordinator adds it to its own account when the series closes.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "recorder/series/series_account.hpp"
#include "recorder/series/series_stats.hpp"
#include "recorder/series/settlement.hpp"
#include "recorder/tree/series_tree.hpp"

namespace penstock::recorder {

/// After the rank has closed its part.
nlohmann::json rank_part(const SeriesStats& stats, const SeriesAccount& account, const SeriesTree& tree,
                         const Settlement& settlement);
/// Before the coordinator closes the file. A problem of the rank is one of the series.
void add_rank_part(const nlohmann::json& part, SeriesAccount& account, SeriesTree& tree, Settlement& settlement);

}  // namespace penstock::recorder
