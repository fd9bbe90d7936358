#include "recorder/service/events.hpp"

#include <poll.h>

#include <nlohmann/json.hpp>

#include "base/bytes.hpp"
#include "base/time/clock.hpp"

namespace penstock::recorder {

namespace {

std::string line_of(std::string_view event, nlohmann::json fields) {
  fields["event"] = event;
  fields["time"] = static_cast<double>(realtime_ns()) * 1e-9;
  // Text from the network may be no UTF-8.
  return fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

void Events::emit(std::string_view event, nlohmann::json fields) {
  const auto line = line_of(event, std::move(fields));
  if (forward_)
    forward_(line);
  else
    pass_on(line);
}

void Events::pass_on(const std::string& line) {
  if (out_ == nullptr) return;
  std::lock_guard lock(mutex_);
  write(line);
}

void Events::emit_if_heard(std::string_view event, nlohmann::json fields) {
  const auto line = line_of(event, std::move(fields));
  if (forward_) return forward_(line);
  if (out_ == nullptr) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  // A pipe says so while there is room for at least a page.
  pollfd pipe{::fileno(out_), POLLOUT, 0};
  if (!lock || line.size() > page_bytes || ::poll(&pipe, 1, 0) != 1) return;
  write(line);
}

/// With mutex_ held.
void Events::write(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), out_);
  std::fflush(out_);
}

}  // namespace penstock::recorder
