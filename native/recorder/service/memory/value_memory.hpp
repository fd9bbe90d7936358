/// Memory for the values that frames bring along, beside the pool. All calls are safe from several threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "frame/frame.hpp"
#include "frame/pool.hpp"
#include "recorder/series/series_file.hpp"

namespace penstock::recorder {

class ValueMemory {
 public:
  using Files = std::function<std::vector<std::shared_ptr<SeriesFile>>()>;
  /// `files` returns those that are open; `holds_back` if a source waits rather than lose a frame, until
  /// stop_waiting(). All of them outlive it.
  ValueMemory(const Config& config, Files files) : config_(config), files_(std::move(files)) {}

  /// Room for the frame's values until they are written. `refused` if the frame is dropped for lack of it.
  Result<ValuesRoom> room_for(const Frame& frame, const SeriesFile& series);
  void stop_waiting() { waits_ = false; }
  std::uint64_t used_bytes_max() const { return pool_.used_bytes_max(); }

 private:
  bool holds_back() const { return config_.when_full == WhenFull::hold; }
  void write_chunks_that_hold_values(std::atomic<std::int64_t>& since_ns);

  /// For frames whose chunk has others already, so that they do not wait for its values to be written.
  static constexpr std::size_t gathering_bytes = 64 << 20;

  const Config& config_;
  const Files files_;
  std::atomic<bool> waits_{true};
  // They count memory that lives elsewhere.
  BufferPool pool_{config_.values_bytes()};
  BufferPool gathering_pool_{gathering_bytes};
  /// Monotonic, since when no frame that is dropped otherwise found room; 0: one did.
  std::atomic<std::int64_t> full_ns_{0};
};

}  // namespace penstock::recorder
