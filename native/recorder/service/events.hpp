/// JSON lines for the program that started this one: one event a line on standard output.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <functional>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace penstock::recorder {

/// Safe from several threads; a line is written whole. A reader that has gone away is not an error. One that takes
/// nothing for a while (its user stopped it, say) holds nobody up until many lines wait; the end waits for it.
class Events {
 public:
  using Forward = std::function<void(const std::string& line)>;

  explicit Events(std::FILE* out) : out_(out) {}
  /// The events of a rank that is not the lead: `forward` takes them to the lead's pass_on().
  explicit Events(Forward forward) : out_(nullptr), forward_(std::move(forward)) {}
  ~Events();
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  /// Adds "event" and "time" (seconds since 1970) to `fields`, an object.
  void emit(std::string_view event, nlohmann::json fields);
  /// The same, but for a reader that takes nothing at the moment: then nothing is reported, and no one waits.
  void emit_if_heard(std::string_view event, nlohmann::json fields);
  /// A line that emit() made in another rank.
  void pass_on(const std::string& line);

 private:
  bool takes_at_once(const std::string& line) const;
  void write(const std::string& line);
  void write_waiting();

  std::FILE* const out_;
  const Forward forward_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // guarded by mutex_
  std::deque<std::string> waiting_;  ///< the first one may be half written
  std::size_t waiting_bytes_ = 0;
  bool ends_ = false;
  std::thread writer_;  ///< of what waits; started with the first such line
};

}  // namespace penstock::recorder
