#include "recorder/service/memory/value_memory.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/time/clock.hpp"

namespace penstock::recorder {

using namespace std::chrono_literals;

/// Values wait in memory from here until the indexer has written them. While others use up the budget, the source waits
/// or its frame is dropped, as for pixels. A chunk that gathers several frames holds the values of those that it has
/// until its last one is here, so that one finds room of its own.
Result<ValuesRoom> ValueMemory::room_for(const Frame& frame, const SeriesFile& series) {
  const auto bytes = std::min(memory_bytes(frame.metadata), config_.values_bytes());
  if (bytes == 0) return ValuesRoom{};
  std::atomic<std::int64_t> here_full_ns{0};
  for (;;) {
    auto held = pool_.reserve(bytes, 0ms);
    if (!held.ok() && series.assembler().gathers(frame)) held = gathering_pool_.reserve(bytes, 0ms);
    if (!held.ok() && holds_back()) held = pool_.reserve(bytes, 100ms);
    if (held.ok()) {
      full_ns_ = 0;
      return ValuesRoom{std::move(*held), bytes};
    }
    // One that waits has its own clock: others' small frames may find room all the time.
    write_chunks_that_hold_values(holds_back() ? here_full_ns : full_ns_);
    if (!holds_back())
      return make_error(Errc::refused, "image {} is dropped: metadata values of frames use {} of {} bytes",
                        value(frame.number), pool_.used_bytes(), config_.values_bytes());
    // Whoever stops does not wait for a chunk to be full, whose frames may hold all of it.
    if (!waits_) return ValuesRoom{};
  }
}

/// Where no frame has found room for a while, chunks wait for frames that do not come, with the values of those that
/// they have. They are written as they are.
void ValueMemory::write_chunks_that_hold_values(std::atomic<std::int64_t>& since_ns) {
  const auto now = monotonic_ns();
  std::int64_t full_ns = 0;
  if (since_ns.compare_exchange_strong(full_ns, now)) return;
  if (now - full_ns < static_cast<std::int64_t>(config_.end_timeout_s * 1e9)) return;
  if (!since_ns.compare_exchange_strong(full_ns, 0)) return;
  for (const auto& file : files_())
    if (const auto chunks = file->write_what_gathers(); chunks > 0)
      spdlog::warn(
          "{}: {} incomplete chunks are written, whose missing frames did not arrive for {} s: metadata values of "
          "their frames used the {} bytes for values",
          file->path(), chunks, config_.end_timeout_s, config_.values_bytes());
}

}  // namespace penstock::recorder
