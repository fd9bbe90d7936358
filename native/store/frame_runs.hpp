/// Few stretches that say which frames there are.
///
/// Knows no HDF5 and performs no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::store {

/// Frames `first`, `first + stride`, …, `count` of them.
struct FrameRun {
  std::uint64_t first = 0;
  std::uint64_t stride = 1;
  std::uint64_t count = 0;

  bool operator==(const FrameRun&) const = default;
};

/// Memory: 24 bytes per run, of which at most `runs_max + 1` are kept.
class FrameRuns {
 public:
  explicit FrameRuns(std::size_t runs_max) : runs_max_(runs_max) {}

  /// Numbers rise from call to call.
  void add(std::uint64_t frame) {
    if (too_many()) return;
    if (!runs_.empty()) {
      auto& last = runs_.back();
      if (last.count == 1) last.stride = frame - last.first;
      if (frame == last.first + last.count * last.stride) {
        ++last.count;
        return;
      }
    }
    runs_.push_back({frame, 1, 1});
  }

  /// Then they are not complete.
  bool too_many() const { return runs_.size() > runs_max_; }
  const std::vector<FrameRun>& list() const { return runs_; }

 private:
  std::size_t runs_max_;
  std::vector<FrameRun> runs_;
};

}  // namespace penstock::store
