/// Names, and properties of the sensor, that NXmx asks for and start messages may lack: a beamline knows them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/result.hpp"

namespace penstock::recorder {

/// Empty is not known.
struct NexusNames {
  std::string instrument_name;
  std::string source_name;
  std::string source_type;
  std::string title;  ///< without one the series' own name
  std::string sample_name;
  std::string user_name;
  std::string experiment_identifier;
  std::string sensor_material;  ///< where the start message has none
  std::optional<double> sensor_thickness_m = {};

  /// `where` names the object in errors. A name has at most 256 bytes, and no control characters; the thickness is a
  /// number of metres above 0.
  static Result<NexusNames> from_json(const nlohmann::json& object, const std::string& where);
  /// Those that a start message's user_data holds under penstock.nexus, and the others of `otherwise`. What is not as
  /// it should be there is logged and left out: no name is worth a series.
  static NexusNames of_series(const std::optional<std::string>& user_data_json, const NexusNames& otherwise);
};

}  // namespace penstock::recorder
