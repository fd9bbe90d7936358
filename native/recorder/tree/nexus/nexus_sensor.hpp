/// The sensor of a detector: what its start message says of it, or else the configuration.
#pragma once

#include <optional>
#include <string>

#include "frame/series.hpp"
#include "recorder/tree/nexus/nexus_names.hpp"

namespace penstock::recorder {

struct Sensor {
  std::string material;  ///< as DIALS knows it, if it does: Si, CdTe or GaAs; empty if nothing says it
  std::optional<double> thickness_m;
};

Sensor sensor_of(const Series& series, const NexusNames& names);

/// Returns what keeps DIALS from reading images with this sensor, and the remedy; empty if nothing does.
std::string sensor_problem(const Sensor& sensor);

}  // namespace penstock::recorder
