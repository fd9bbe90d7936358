#include "recorder/service/events.hpp"

#include <poll.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/bytes.hpp"
#include "base/threads.hpp"
#include "base/time/clock.hpp"

namespace penstock::recorder {

namespace {

constexpr std::size_t waiting_bytes_max = 64 << 20;

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

Events::~Events() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (writer_.joinable()) writer_.join();
}

void Events::pass_on(const std::string& line) {
  if (out_ == nullptr) return;
  std::unique_lock lock(mutex_);
  if (takes_at_once(line)) return write(line);
  changed_.wait(lock, [this] { return waiting_bytes_ < waiting_bytes_max; });
  waiting_bytes_ += line.size();
  waiting_.push_back(line);
  if (!writer_.joinable()) writer_ = std::thread([this] { write_waiting(); });
  changed_.notify_all();
}

void Events::emit_if_heard(std::string_view event, nlohmann::json fields) {
  const auto line = line_of(event, std::move(fields));
  if (forward_) return forward_(line);
  if (out_ == nullptr) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock && takes_at_once(line)) write(line);
}

/// With mutex_ held.
bool Events::takes_at_once(const std::string& line) const {
  if (!waiting_.empty()) return false;
  struct stat info {};
  if (::fstat(::fileno(out_), &info) == 0 && S_ISREG(info.st_mode)) return true;
  // A pipe says so while there is room for at least a page.
  pollfd pipe{::fileno(out_), POLLOUT, 0};
  return line.size() <= page_bytes && ::poll(&pipe, 1, 0) == 1;
}

void Events::write_waiting() {
  begin_thread("pen-events", Role::other);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const auto& line = waiting_.front();  // which stays where it is while others are added
    lock.unlock();
    write(line);  // nobody else takes it, or writes while it is there
    lock.lock();
    waiting_bytes_ -= line.size();
    waiting_.pop_front();
    changed_.notify_all();
  }
}

/// With mutex_ held, or of what waits.
void Events::write(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), out_);
  std::fflush(out_);
}

}  // namespace penstock::recorder
