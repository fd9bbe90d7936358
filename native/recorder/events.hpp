/// JSON lines for the program that started this one: one event a line on standard output.
#pragma once

#include <cstdio>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace penstock::recorder {

/// Safe from several threads; a line is written whole. A reader that has gone away is not an error.
class Events {
 public:
  explicit Events(std::FILE* out) : out_(out) {}
  /// Adds "event" and "time" (seconds since 1970) to `fields`, an object.
  void emit(std::string_view event, nlohmann::json fields);

 private:
  std::mutex mutex_;
  std::FILE* const out_;
};

}  // namespace penstock::recorder
