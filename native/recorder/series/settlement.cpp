#include "recorder/series/settlement.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/time/clock.hpp"

namespace penstock::recorder {

void Sessions::attach(Session session) {
  std::lock_guard lock(mutex_);
  if (session && std::find(sessions_.begin(), sessions_.end(), session) == sessions_.end())
    sessions_.push_back(std::move(session));
}

std::vector<Session> Sessions::all() const {
  std::lock_guard lock(mutex_);
  return sessions_;
}

namespace {

bool is_gone(const std::weak_ptr<AckListener>& expected) {
  const auto session = expected.lock();
  return session == nullptr || session->is_gone();
}

}  // namespace

void Sessions::expect(const Session& session) {
  std::lock_guard lock(mutex_);
  std::erase_if(expected_, is_gone);
  expected_.push_back(session);
}

bool Sessions::are_gone() const {
  std::lock_guard lock(mutex_);
  return !expected_.empty() && std::all_of(expected_.begin(), expected_.end(), is_gone);
}

void UnfittingElsewhere::add(const std::vector<std::uint64_t>& counts) {
  std::lock_guard lock(mutex_);
  counts_.resize(std::max(counts_.size(), counts.size()));
  for (std::size_t i = 0; i < counts.size(); ++i) counts_[i] += counts[i];
}

void UnfittingElsewhere::add_to(std::vector<std::uint64_t>& counts) const {
  std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < std::min(counts.size(), counts_.size()); ++i) counts[i] += counts_[i];
}

void Settlement::use(const std::vector<MetaColumn>& columns, LateColumns::PathOf path_of) {
  columns_ = columns;
  const auto warn = [this](const std::string& name, std::string_view what) {
    spdlog::warn("{}: \"{}\", which frames bring along, {}", spec_.path(), name.substr(0, 64), what);
  };
  const bool in_slots = spec_.config().placement == store::Placement::slots && spec_.fits_slots();
  late_ = std::make_unique<LateColumns>(columns_, std::move(path_of), warn, in_slots);
  batch_ = std::make_unique<RowBatch>(columns, role_.states(), warn,
                                      spec_.scan() ? RowBatch::Places::written : RowBatch::Places::none);
}

/// `chunks` chunks with this cookie came to their end: the frames of which these were the last.
void Settlement::settle(std::uint64_t cookie, WriteOutcome outcome, std::uint64_t chunks, std::int64_t encoded_ns,
                        std::int64_t written_ns, Settled& settled) {
  const auto settle_frame = [&](std::uint64_t slot) {
    if (auto frame = slots_.settle(slot, outcome, chunks, encoded_ns, written_ns)) settled.push_back(std::move(*frame));
  };
  if (blocks_ == nullptr) return settle_frame(cookie);
  for (const auto slot : blocks_->settle(cookie, outcome, chunks)) settle_frame(slot);
}

void Settlement::append_values(std::uint64_t cookie, std::vector<std::byte>& rows) {
  const auto append = [&](std::uint64_t slot) { recorder::append_values(slots_.row(slot), columns_, *late_, rows); };
  if (blocks_ == nullptr) return append(cookie);
  for (const auto slot : blocks_->slots_of(cookie)) append(slot);
}

void Settlement::give_up(std::uint64_t cookie, std::uint64_t chunks, WriteOutcome outcome) {
  Settled settled;
  settle(cookie, outcome, chunks, -1, -1, settled);
  if (!settled.empty()) conclude(std::move(settled), 0);
}

void Settlement::give_up_damaged(std::uint64_t slot) {
  Settled settled;
  if (auto damaged = slots_.settle(slot, WriteOutcome::damaged, spec_.tiling().count()))
    settled.push_back(std::move(*damaged));
  conclude(std::move(settled), 0);
}

/// All chunks of these frames have come to their end. Of lost ones nothing enters the columns here.
void Settlement::conclude(Settled settled, std::uint64_t stored_bytes) {
  auto& ledger = account_.ledger;
  auto& meter = account_.counters.meter;
  std::vector<Ledger::Item> placed;
  std::vector<Ledger::Item> there;
  std::vector<Ledger::Item> lost;
  for (const auto& [row, outcome] : settled) {
    const Ledger::Item item{FrameNumber{row.number}, row.part};
    switch (outcome) {
      case WriteOutcome::placed: placed.push_back(item); break;
      case WriteOutcome::already_there: there.push_back(item); break;
      case WriteOutcome::damaged: ledger.give_up(item, FrameState::damaged); break;
      case WriteOutcome::too_late: ledger.give_up(item, FrameState::dropped); break;
      case WriteOutcome::lost: lost.push_back(item); break;
    }
  }
  // What is not stored counts again when it comes again.
  account_.counters.raw_bytes -= (settled.size() - placed.size()) * spec_.part_bytes();
  ledger.placed(placed);
  ledger.already_there(there);
  ledger.lost(lost);
  const auto now = monotonic_ns();
  std::vector<std::int64_t> latencies;
  latencies.reserve(placed.size());
  for (auto& each : settled) {
    if (each.outcome != WriteOutcome::placed) continue;
    auto& row = each.row;
    row.whole = ledger.whole(FrameNumber{row.number});
    latencies.push_back(now - row.admitted_ns);
    meter.latency.add(latencies.back());
    batch_->add(std::move(row));
  }
  meter.frames_written += placed.size();
  if (!placed.empty() || stored_bytes > 0) account_.written.add(latencies, placed.size(), stored_bytes);
  account_.in_flight.settled(settled.size());
}

/// Whether the frame's part is in the file with this chunk, whoever brought its others: several ranks may bring some,
/// and the coordinator hears of all.
bool Settlement::completes_part(const store::ChunkHead& head) {
  if (!role_.hears_of_others()) return false;
  const auto& mosaic = spec_.mosaic();
  const auto [number, part] = spec_.item_of(head);
  return partial_.add(number, part, mosaic.part(head.index % mosaic.tiles_a_frame()).tile);
}

void Settlement::notify_sessions() {
  if (!watch_.is_there(monotonic_ns())) return;
  for (const auto& notice : account_.ledger.take_notices())
    notice.session->safe_below(spec_.series().unique_id, notice.below);
}

void Settlement::placed(std::span<const store::PlacedChunk> chunks, store::RowWriter& rows) {
  Settled settled;
  std::uint64_t bytes = 0;
  for (const auto& chunk : chunks) {
    bytes += chunk.size;
    completes_part(chunk.head);
    settle(chunk.head.cookie, WriteOutcome::placed, 1, chunk.head.encoded_ns, chunk.written_ns, settled);
  }
  account_.counters.meter.stored_bytes += bytes;
  watch_.note_placed();
  conclude(std::move(settled), bytes);
  // Half, so that the next frames have room while these are written. Where series share the memory, the timer writes
  // those of the ones that have less.
  if (batch_->is_full(spec_.config().values_bytes() / 2))
    if (auto written = batch_->write(rows); !written.ok()) account_.failures.spoil(written.error());
  notify_sessions();
}

void Settlement::lost(std::span<const store::PlacedChunk> chunks, const Error& why) {
  account_.failures.fail(why);
  watch_.note_lost(monotonic_ns(), why.code());
  for (const auto& chunk : chunks) give_up(chunk.head.cookie, 1, WriteOutcome::lost);
}

void Settlement::already_there(std::span<const store::PlacedChunk> chunks) {
  Settled settled;
  for (const auto& chunk : chunks) settle(chunk.head.cookie, WriteOutcome::already_there, 1, -1, -1, settled);
  conclude(std::move(settled), 0);
  notify_sessions();
}

void Settlement::placed_elsewhere(std::span<const store::PlacedChunk> chunks) {
  std::vector<Ledger::Item> items;
  std::uint64_t bytes = 0;
  for (const auto& chunk : chunks) {
    if (completes_part(chunk.head)) items.push_back(spec_.item_of(chunk.head));
    bytes += chunk.size;
  }
  const auto complete = account_.ledger.placed_elsewhere(items);
  complete_elsewhere_.insert(complete_elsewhere_.end(), complete.begin(), complete.end());
  account_.counters.last_activity_ns = monotonic_ns();
  account_.counters.raw_bytes += items.size() * spec_.part_bytes();
  account_.written.add({}, items.size(), bytes);
  notify_sessions();
}

/// The batch before the states: a frame whose parts went to several ranks is complete with the last one.
void Settlement::tick(store::RowWriter& rows) {
  auto& failures = account_.failures;
  if (auto written = batch_->write(rows); !written.ok()) failures.spoil(written.error());
  if (auto written = write_states(complete_elsewhere_, FrameState::received, rows); !written.ok())
    failures.spoil(written.error());
  complete_elsewhere_.clear();
  if (auto settled = settle_unplaced(&rows); !settled.ok()) failures.spoil(settled.error());
}

void Settlement::settle_partial() {
  const auto& series = spec_.series();
  const auto lacks = account_.ledger.settle_partial();
  for (std::uint32_t part = 0; part < lacks.size(); ++part) {
    const auto& [frames, first] = lacks[part];
    if (frames == 0) continue;
    const auto elements = spec_.elements();
    partial_errors_.push_back(make_error(Errc::mismatch,
                                         "series \"{}\": {} frames lack channel \"{}\"{}, the first is frame {}: their "
                                         "other channels are recorded, and their state is {} (partial)",
                                         series.unique_id, frames, series.channels[part / elements],
                                         elements > 1 ? fmt::format(" of element {}", part % elements) : "", first,
                                         static_cast<unsigned>(FrameState::partial)));
  }
}

std::vector<std::uint64_t> Settlement::unfitting_here() const {
  return batch_ ? batch_->unfitting() : std::vector<std::uint64_t>();
}

std::vector<std::uint64_t> Settlement::unfitting() const {
  auto counts = unfitting_here();
  unfitting_elsewhere_.add_to(counts);
  return counts;
}

}  // namespace penstock::recorder
