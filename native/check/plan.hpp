/// What a check is asked to do, as its plan gives it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <variant>

#include "base/result.hpp"

namespace penstock::check {

struct AgainstNpy {
  std::string path;
};
struct AgainstSimulation {
  std::string json;
};
/// The simulation that the file's own start message carried.
struct AgainstRecorded {};

struct CheckPlan {
  std::string file;
  std::optional<std::variant<AgainstNpy, AgainstSimulation, AgainstRecorded>> against;
  std::string dataset;  ///< whose frames are compared; empty: /entry/data/data, else the largest
  unsigned threads = 2;
  /// Only count the frames that the segments of an unfinished file hold, by their records: reads no frame and no index.
  bool count_only = false;
  bool decode = true;                       ///< expand every chunk, also where nothing is compared
  double index_timeout_s = 120;             ///< HDF5 is ended after this many seconds without progress
  std::vector<std::string> plugin_folders;  ///< of HDF5 filters, before those of HDF5 itself
  bool plugins = true;                      ///< whether filter plug-ins may run in the check's process
  std::string log_level = "info";

  /// All problems of the plan, one a line, each with the field, the value and the limit.
  static Result<CheckPlan> from_json(const nlohmann::json& plan);
  static nlohmann::json description();
};

}  // namespace penstock::check
