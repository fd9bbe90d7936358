#include "recorder/service/report.hpp"

#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "base/time/clock.hpp"

namespace penstock::recorder {
namespace {

constexpr unsigned rejects_a_second = 10;
constexpr unsigned refusals_a_second = 100;
constexpr unsigned notes_a_second = 64;  ///< a start message may have one for each of its fields

}  // namespace

bool Report::Window::admits(unsigned most) {
  const auto now = monotonic_ns();
  std::lock_guard lock(mutex_);
  if (now - begun_ns_ > 1'000'000'000) {
    begun_ns_ = now;
    told_ = 0;
  }
  return ++told_ <= most;
}

void Report::reject(std::string_view source, const Error& why) {
  ++rejected_messages_;
  turn_away(source, why);
}

void Report::turn_away(std::string_view source, const Error& why) {
  ++rejected_;
  tell("rejected", source, why);
}

void Report::tell(std::string_view event, std::string_view source, const Error& what) {
  auto& limiter = what.code() == Errc::out_of_order ? missing_starts_limiter_ : limiter_;
  const auto suppressed = limiter.admit(message_kind(what.code(), what.message()));
  if (!suppressed || !messages_.admits(event == "note" ? notes_a_second : rejects_a_second)) return;
  const auto message = what.message() + and_suppressed(*suppressed);
  spdlog::warn("{}{}: {}", event == "rejected" ? "rejected from " : "", source, message);
  events_.emit(event, {{"source", source}, {"code", name(what.code())}, {"message", message}});
}

void Report::refused(const std::string& series_unique_id, const Error& why) {
  ++refusals_;
  // A user looks for each of these series, whatever else is rejected at the same time.
  if (!refused_series_.admits(refusals_a_second)) return;
  events_.emit("series_refused",
               {{"series_unique_id", series_unique_id}, {"code", name(why.code())}, {"message", why.message()}});
}

}  // namespace penstock::recorder
