#include "recorder/series/file_watch.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/time/clock.hpp"

namespace penstock::recorder {
namespace {

/// A storage that took nothing a moment ago is given time before the same frames come again.
constexpr std::int64_t ask_again_interval_ns = 2'000'000'000;
/// Each time nothing was taken, clients get twice as long to send what they keep, and the end.
constexpr std::int64_t ask_again_interval_max_ns = 8'000'000'000;
/// How often the file's name is looked at: before acknowledgements, and where there are none.
constexpr std::int64_t look_interval_ns = 200'000'000;
constexpr std::int64_t idle_look_interval_ns = 1'000'000'000;

Error removed_file() {
  return make_error(
      Errc::not_found,
      "the file was removed or replaced during the recording: no more frames are recorded or acknowledged");
}

Error removed_source_file(const std::string& path) {
  return make_error(Errc::not_found,
                    "the source file {} was renamed, removed or replaced during the recording: no more frames are "
                    "recorded or acknowledged; if it has another name now, rename it back, and its frames are there",
                    path);
}

}  // namespace

bool FileWatch::is_there(std::int64_t now_ns) { return look(now_ns, look_interval_ns); }

void FileWatch::note_placed() {
  is_failing_ = false;
  ask_again_interval_ns_ = 0;
  std::lock_guard lock(mutex_);
  failing_.reset();
}

void FileWatch::note_lost(std::int64_t now_ns, Errc why) {
  is_failing_ = true;
  std::lock_guard lock(mutex_);
  if (why == Errc::no_space)
    failing_.reset();
  else
    failing_ = Failing{failing_ ? failing_->first_ns : now_ns, now_ns};
}

void FileWatch::ask_again(std::int64_t now_ns) {
  const auto interval = std::max(ask_again_interval_ns, ask_again_interval_ns_.load());
  if (removed_ || now_ns - asked_again_ns_ < interval) return;
  if (!account_.ledger.has_losers()) return;
  // First: who reads facts() meanwhile sees that somebody is to be asked, or was.
  asked_again_ns_ = now_ns;
  const auto losers = account_.ledger.take_losers();
  ask_again_interval_ns_ = std::min(ask_again_interval_max_ns, 2 * interval);
  auto why = account_.failures.last();
  why = why.code() == Errc::no_space
            ? make_error(Errc::no_space, "storage full: waiting; send frames that were not acknowledged again: {}",
                         why.message())
            : make_error(Errc::io, "storage failed: trying again; send frames that were not acknowledged again: {}",
                         why.message());
  for (const auto& session : losers) session->ask_again(spec_.series().unique_id, why);
}

void FileWatch::give_up_if_hopeless(std::int64_t now_ns) {
  if (hopeless_ || !look(now_ns, idle_look_interval_ns)) return;
  const auto idle_timeout_s = spec_.config().idle_timeout_s;
  {
    std::lock_guard lock(mutex_);
    // While nothing comes, nothing shows that it would fail again.
    if (!failing_ || failing_->last_ns - failing_->first_ns < static_cast<std::int64_t>(idle_timeout_s * 1e9)) return;
  }
  const auto why = account_.failures.last();
  spdlog::error("{}: the storage has not written anything for {:.0f} s (idle_timeout_s): closing the series: {}",
                spec_.path(), idle_timeout_s, why.message());
  account_.failures.spoil(why);
  hopeless_ = true;
}

/// Looks once in `interval_ns`.
bool FileWatch::look(std::int64_t now_ns, std::int64_t interval_ns) {
  if (removed_) return false;
  auto looked_ns = looked_ns_.load();
  if (!store_.is_ready() || now_ns - looked_ns < interval_ns || !looked_ns_.compare_exchange_strong(looked_ns, now_ns))
    return true;
  const auto lost = store_->lost_file();
  if (lost.empty()) return true;
  if (store_->was_moved()) {
    if (!moved_.exchange(true))
      spdlog::warn("{}: another program moved the file during the recording; recording continues in its new location",
                   spec_.path());
    return true;
  }
  file_removed_ = lost == spec_.path();
  account_.failures.spoil(file_removed_ ? removed_file() : removed_source_file(lost));
  removed_ = hopeless_ = true;
  return false;
}

}  // namespace penstock::recorder
