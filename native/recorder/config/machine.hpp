/// Where on the machine the recorder's threads run, and what its memory is made of.
///
/// A placement is found once, by hwloc, from the configuration and from what this process may use (its affinity mask,
/// as Slurm, mpirun and taskset set it, and its cgroup's).
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.hpp"
#include "base/threads.hpp"
#include "recorder/config/config.hpp"

namespace penstock::recorder {

struct Placement {
  struct Place {
    bool chosen = false;  ///< by the configuration
    CpuMask cpus;
    std::string list;   ///< of processors: "0,4-7"
    std::string nodes;  ///< NUMA nodes that they belong to
  };
  std::array<Place, roles> places;  ///< by Role
  std::string allowed;              ///< processors that this process may use

  /// `invalid_argument` names the field, the value and the processors that there are, where one does not exist or is
  /// not allowed.
  static Result<Placement> find(const MachineConfig& config);

  /// Sends threads that begin from now on to their places; those without one go wherever this process may.
  void apply() const;
};

/// The machine, and what `config` would do on it: for `penstock record --show-placement`.
Result<nlohmann::json> describe_placement(const Config& config);

/// Why huge pages will not be as `config` asks for; empty where they will.
std::string huge_page_trouble(const Config& config);

}  // namespace penstock::recorder
