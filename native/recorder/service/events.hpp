/// JSON lines for the program that started this one: one event a line on standard output.
#pragma once

#include <cstdio>
#include <functional>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::recorder {

/// Safe from several threads; a line is written whole. A reader that has gone away is not an error.
class Events {
 public:
  using Forward = std::function<void(const std::string& line)>;

  explicit Events(std::FILE* out) : out_(out) {}
  /// The events of a rank that is not the lead: `forward` takes them to the lead's pass_on().
  explicit Events(Forward forward) : out_(nullptr), forward_(std::move(forward)) {}
  /// Adds "event" and "time" (seconds since 1970) to `fields`, an object.
  void emit(std::string_view event, nlohmann::json fields);
  /// The same, but for a reader that takes nothing at the moment: then nothing is reported, and no one waits.
  void emit_if_heard(std::string_view event, nlohmann::json fields);
  /// A line that emit() made in another rank.
  void pass_on(const std::string& line);

 private:
  void write(const std::string& line);

  std::mutex mutex_;
  std::FILE* const out_;
  const Forward forward_;
};

}  // namespace penstock::recorder
