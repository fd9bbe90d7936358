/// Which series may have a file open, and which starts wait for that, in the order in which they came, with how much.
/// Performs no I/O and knows no clock, thread or lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>

namespace penstock::series {

/// Bytes that may wait, and those that do.
class WaitingBytes {
 public:
  explicit WaitingBytes(std::uint64_t max) : max_(max) {}

  std::uint64_t max() const { return max_; }
  std::uint64_t held() const { return held_; }
  /// What is larger than all of them fits alone.
  bool has_room(std::uint64_t bytes) const { return held_ == 0 || (bytes <= max_ && held_ <= max_ - bytes); }
  /// Returns whether this many more may wait; they count until release().
  bool hold(std::uint64_t bytes);
  void release(std::uint64_t bytes) { held_ -= bytes; }

 private:
  std::uint64_t max_;
  std::uint64_t held_ = 0;
};

class Places {
 public:
  /// At most `places` files, and `starts_max` starts that wait.
  Places(std::size_t places, std::size_t starts_max) : places_(places), starts_max_(starts_max) {}

  std::size_t places() const { return places_; }

  /// Gives the series a place, unless none is free or others wait for one. True, too, where it has one.
  bool take(const std::string& series);
  bool has(const std::string& series) const { return taken_.contains(series); }
  std::size_t taken() const { return taken_.size(); }
  std::size_t waiting() const { return line_.size(); }
  /// Its file is closed, or could not be made.
  void leave(const std::string& series) { taken_.erase(series); }

  bool has_room_to_wait() const { return line_.size() < starts_max_; }
  /// Puts the start at the end of the line. False where the line is full.
  bool wait(const std::string& series);
  bool anyone_waits() const { return !line_.empty(); }
  /// Gives a free place to the first start of the line.
  std::optional<std::string> next();

 private:
  std::size_t places_;
  std::size_t starts_max_;
  std::set<std::string> taken_;
  std::deque<std::string> line_;
};

}  // namespace penstock::series
