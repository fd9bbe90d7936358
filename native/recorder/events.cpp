#include "recorder/events.hpp"

#include <nlohmann/json.hpp>

#include "base/clock.hpp"

namespace penstock::recorder {

void Events::emit(std::string_view event, nlohmann::json fields) {
  fields["event"] = event;
  fields["time"] = static_cast<double>(realtime_ns()) * 1e-9;
  // Text from the network may be no UTF-8.
  const std::string line = fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (forward_)
    forward_(line);
  else
    pass_on(line);
}

void Events::pass_on(const std::string& line) {
  if (out_ == nullptr) return;
  std::lock_guard lock(mutex_);
  std::fwrite(line.data(), 1, line.size(), out_);
  std::fflush(out_);
}

}  // namespace penstock::recorder
