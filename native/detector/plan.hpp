/// The whole job of a detector, as its JSON document describes it (detectors/README.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "detector/fault_plan.hpp"
#include "detector/simulation_spec.hpp"
#include "frame/encoding.hpp"
#include "frame/series.hpp"

namespace penstock::detector {

struct TcpPeer {
  std::string host = "127.0.0.1";
  std::uint16_t port = 9900;
};

/// Frames take turns where there are several peers.
struct ToTcp {
  static constexpr const char* kind = "tcp";
  std::vector<TcpPeer> peers{TcpPeer{}};
  std::string token;
  std::uint64_t window_bytes = 0;  ///< sent and not yet safe, at most; 0: stream::default_window_bytes()
};

/// One endpoint, or one for each element.
struct ToZmq {
  static constexpr const char* kind = "zmq";
  std::vector<std::string> endpoints{"tcp://127.0.0.1:31001"};
};

enum class FileFormat { cbf, tiff, hdf5 };

struct ToFiles {
  static constexpr const char* kind = "files";
  std::string folder;
  FileFormat format = FileFormat::cbf;
  bool rename = true;  ///< write under a temporary name first
  std::string prefix;  ///< file names are PREFIX_000000.cbf and so on; the series' unique id where empty
};

struct DetectorPlan {
  Series series;  ///< what the start message has; shape and type too unless replaying
  std::string detector_name;
  SimulationSpec simulation;  ///< not looked at when replaying
  std::optional<std::string> replay;
  std::uint64_t frames = 0;
  double rate_hz = 0;  ///< 0: unpaced, at maximum rate
  std::optional<double> ratio;
  Encoding encoding = Encoding::none;
  std::variant<ToTcp, ToZmq, ToFiles> to;
  /// Each sends its part of every frame in a stream of its own: to the TCP peers in turn, or at its own ZeroMQ
  /// endpoint.
  std::optional<ElementPlace> elements;
  bool elements_told = true;  ///< start messages say which element they are of
  FaultPlan faults;
  unsigned threads = 2;
  double connect_timeout_s = 10;
  double reconnect_timeout_s = 10;  ///< after a lost connection
  double finish_timeout_s = 120;    ///< for the receiver to close its file
  std::string log_level = "warning";

  /// All problems of the plan, one a line, each with the field, the value and the limit. `now_ns`, since 1970, goes
  /// into the arm date and into a series_unique_id that the plan leaves out.
  static Result<DetectorPlan> from_json(std::string_view json, std::int64_t now_ns);
  /// The fields of a plan with their types, defaults, limits and choices, as describe_job() has them.
  static nlohmann::json description();
};

}  // namespace penstock::detector
