/// What ranks ask and tell each other of series. A question or notice is an object; `malformed` where a field of one is
/// missing or wrong.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "frame/series.hpp"
#include "recorder/config/config.hpp"
#include "recorder/tree/metadata.hpp"
#include "store/store.hpp"

namespace penstock::recorder {

/// What a series' file is made for, and how another rank finds it.
struct Terms {
  Encoding encoding = Encoding::none;
  std::vector<std::vector<unsigned>> filter_values;  ///< of filter plug-ins, by channel, complete
  std::vector<MetaColumn> columns;
  std::uint64_t file = 0;  ///< number of the file in the team
  std::uint64_t base = 0;  ///< of its counter
  store::SharedFile shared;
};

nlohmann::json to_json(const Terms& terms);
Result<Terms> terms_from(const nlohmann::json& answer);
nlohmann::json to_json(const std::vector<MetaColumn>& columns);
Result<std::vector<MetaColumn>> columns_from(const nlohmann::json& list);

std::string series_in(const nlohmann::json& message);
/// A notice of a series, without fields of its own.
nlohmann::json notice(const char* what, const std::string& series_unique_id);

/// Of a start message: the question for its file, or the answer to one that seeks it. `answered` if it came over TCP.
nlohmann::json start_to_json(const Series& series, bool answered);
Result<Series> start_from(const nlohmann::json& message, const Config& config);
nlohmann::json to_json(const SeriesEnd& end);
SeriesEnd end_from(const nlohmann::json& notice);

}  // namespace penstock::recorder
