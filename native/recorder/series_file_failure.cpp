/// What becomes of a series when its storage fails, or its file is gone, and what its clients hear of that.

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/clock.hpp"
#include "recorder/series_file.hpp"

namespace penstock::recorder {
namespace {

/// A storage that took nothing a moment ago is given time before the same frames come again.
constexpr std::int64_t ask_again_interval_ns = 2'000'000'000;
/// Each time nothing was taken, clients get twice as long to send what they keep, and the end.
constexpr std::int64_t ask_again_interval_max_ns = 8'000'000'000;
/// How often the file's name is looked at: before acknowledgements, and where there are none.
constexpr std::int64_t look_interval_ns = 200'000'000;
constexpr std::int64_t idle_look_interval_ns = 1'000'000'000;

}  // namespace

/// Frames were not written. A full storage leaves nothing behind once they have come again; of any other failure HDF5's
/// own writes may have met the same, which nobody sees.
void SeriesFile::fail(const Error& why) { note_failure(why, why.code() != Errc::no_space); }

/// The file lacks something that does not come again.
void SeriesFile::spoil(const Error& why) { note_failure(why, true); }

void SeriesFile::note_failure(const Error& why, bool for_good) {
  std::lock_guard lock(mutex_);
  last_failure_ = why;
  if (spoiled_ || (!for_good && !problem_.empty())) return;
  spoiled_ = for_good;
  problem_ = why.message();
  spdlog::error("{}: {}", path_, why.message());
}

bool SeriesFile::is_spoiled() const {
  std::lock_guard lock(mutex_);
  return spoiled_;
}

std::string SeriesFile::first_failure() const {
  std::lock_guard lock(mutex_);
  return problem_;
}

void SeriesFile::ask_again(std::int64_t now_ns) {
  if (removed_ || now_ns - asked_again_ns_ < std::max(ask_again_interval_ns, ask_again_interval_ns_.load())) return;
  const auto losers = ledger_.take_losers();
  if (losers.empty()) return;
  asked_again_ns_ = now_ns;
  ask_again_interval_ns_ =
      std::min(ask_again_interval_max_ns, 2 * std::max(ask_again_interval_ns, ask_again_interval_ns_.load()));
  auto why = [&] {
    std::lock_guard lock(mutex_);
    return last_failure_;
  }();
  why =
      why.code() == Errc::no_space
          ? make_error(Errc::no_space, "storage full: waiting; send again what was not acknowledged: {}", why.message())
          : make_error(Errc::io, "storage fails: trying again; send again what was not acknowledged: {}",
                       why.message());
  for (const auto& session : losers) session->ask_again(series_.unique_id, why);
}

void SeriesFile::give_up_if_hopeless(std::int64_t now_ns) {
  if (hopeless_ || !is_there(now_ns, idle_look_interval_ns)) return;
  const auto since = failing_since_ns_.load();
  const auto patience_ns = static_cast<std::int64_t>(config_.idle_timeout_s * 1e9);
  if (since == 0 || now_ns - since < patience_ns) return;
  const auto why = [&] {
    std::lock_guard lock(mutex_);
    return last_failure_;
  }();
  if (why.code() == Errc::no_space) return;
  spdlog::error("{}: the storage has taken nothing for {:.0f} s (idle_timeout_s): the series is closed: {}", path_,
                config_.idle_timeout_s, why.message());
  spoil(why);
  give_up(now_ns);
}

void SeriesFile::give_up(std::int64_t now_ns) {
  hopeless_ = true;
  set_ending(now_ns, 0, true, EndedBy::failure);
}

/// Whether the file is still found under a name; looks once in `interval_ns`. Where it is not, nothing that is written
/// into it is of use to anybody.
bool SeriesFile::is_there(std::int64_t now_ns, std::int64_t interval_ns) {
  if (removed_) return false;
  auto looked_ns = looked_at_name_ns_.load();
  if (!fitted_.load(std::memory_order_acquire) || now_ns - looked_ns < interval_ns ||
      !looked_at_name_ns_.compare_exchange_strong(looked_ns, now_ns) || store_->still_named())
    return true;
  if (store_->was_moved()) {
    if (!moved_.exchange(true))
      spdlog::warn("{}: somebody moved the file while it is written: it is recorded to its end where it is now", path_);
    return true;
  }
  spoil(make_error(Errc::not_found,
                   "the file was removed or replaced while it was written: nothing more is recorded or acknowledged"));
  removed_ = true;
  give_up(now_ns);
  return false;
}

void SeriesFile::notify_sessions() {
  if (!is_there(monotonic_ns(), look_interval_ns)) return;
  for (const auto& notice : ledger_.take_notices()) notice.session->safe_below(series_.unique_id, notice.below);
}

std::string SeriesFile::holdup() const {
  if (failing_since_ns_ == 0) return {};
  std::lock_guard lock(mutex_);
  return last_failure_.code() == Errc::no_space ? "storage full: waiting for space" : "storage fails: trying again";
}

std::string SeriesFile::problem() const {
  const bool healed = settled_ && has_what_was_lost();
  std::lock_guard lock(mutex_);
  return healed && !spoiled_ ? std::string() : problem_;
}

}  // namespace penstock::recorder
