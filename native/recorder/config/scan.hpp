/// A scan: frames that belong to the points of a grid, in an order of their own.
///
/// A place counts the points of the grid row by row, the last axis fastest. Constant after construction.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "frame/frame.hpp"

namespace penstock::recorder {

struct ScanAxis {
  std::string name;
  std::uint64_t points = 0;
  std::vector<double> values;  ///< one a point
  std::string units;           ///< empty if not sent
};

struct ScanConfig {
  enum class Order {
    raster,  ///< each row in the same direction
    snake,   ///< each pass of an axis in the opposite direction of the one before
    given,   ///< frames bring their place
    table,   ///< a table has the place of each frame
  };

  std::vector<ScanAxis> axes;  ///< from the slowest to the fastest; empty: no scan
  Order order = Order::raster;
  std::string place = "position";  ///< of `given`: the name of the value that a frame brings
  /// Of `table`: the point of the grid, counted row by row without the repeats, to which each trigger belongs.
  std::shared_ptr<const std::vector<std::uint64_t>> table;
  std::uint64_t repeats = 1;  ///< frames a point, one after another; more than one are the last axis

  explicit operator bool() const { return !axes.empty(); }
  /// Points along each axis.
  std::vector<std::uint64_t> shape() const;
  /// Frames do not follow each other through the grid.
  bool names_places() const { return order == Order::given || order == Order::table; }
  /// All points.
  std::uint64_t points() const;

  /// Where the frame belongs. Frames beyond the grid go on along the first axis, as a scan that is repeated does;
  /// a place that a frame brings must be in the grid. An error names the field and its value.
  Result<std::uint64_t> place_of(const Frame& frame) const;

  /// `where` names the object in errors. At most 8 axes and 2^32 - 2 points.
  static Result<ScanConfig> from_json(const nlohmann::json& object, const std::string& where);
  /// What a start message's user_data holds under penstock.scan, right or wrong.
  static std::optional<nlohmann::json> told_in(const std::optional<std::string>& user_data_json);
  /// The scan that a start message's user_data holds under penstock.scan, or `otherwise`.
  static Result<ScanConfig> of_series(const std::optional<std::string>& user_data_json, const ScanConfig& otherwise);
};

/// Which frame claimed which place, where frames bring theirs. All calls are safe from several threads.
class ScanPlaces {
 public:
  /// `mismatch` where another frame has the place.
  Result<void> claim(std::uint64_t place, FrameNumber frame);

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, FrameNumber> frames_;  // guarded by mutex_
};

}  // namespace penstock::recorder
